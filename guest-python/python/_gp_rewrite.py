"""Rewrites async code so that tool calls, which are plain functions, can be awaited and run at the same time.

`await f(x)` becomes `await (AWAIT @ (DEFER @ f)(x))`. `DEFER @ f` is a starter for a tool and `f` itself for anything
else; `AWAIT @ v` passes awaitables through and makes plain values awaitable. The same goes for calls that are
handed to asyncio (`gather(f(a), f(b))`, `create_task(f(x))`, …), also through a local name (`_gp_rewrite_flow`).

Works on CPython 3.8 and later. Line and column numbers stay exact. `AWAIT` and `DEFER` are written as placeholder
constants and replaced in the compiled code, so no name is added to any of the script's namespaces.
"""

import ast
import types

import _gp_rewrite_flow as flow

_AWAIT_MARK = "\x00gloveport await marker\x00"
_DEFER_MARK = "\x00gloveport defer marker\x00"


def compile_source(source, filename, awaiter, deferrer, flags=0):
    """Compiles `source` (bytes, text or a tree). `awaiter` and `deferrer` are objects with `__matmul__`, see above."""
    objects = {_AWAIT_MARK: awaiter, _DEFER_MARK: deferrer}
    code = None
    try:
        tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST, True)
        if rewrite(tree):
            code = compile(tree, filename, "exec", flags, True)
    except (RecursionError, MemoryError):
        # Nested too deeply for the tree; the compiler alone may still manage, and only concurrency is lost.
        code = None
    if code is None:
        code = compile(source, filename, "exec", flags, True)
    # Also then: of a tree, a part may be rewritten already.
    return bind(code, objects)


def rewrite(tree):
    """Rewrites a module's tree in place. False if there was nothing to do."""
    deferred = flow.deferred_calls(tree)
    rewriter = _Rewriter(deferred)
    rewriter.visit(tree)
    return rewriter.changed


def bind(code, objects):
    """Replaces placeholder constants in a code object and those nested in it. Code without any stays the same object."""
    constants = []
    changed = False
    for constant in code.co_consts:
        bound = constant
        if isinstance(constant, types.CodeType):
            bound = bind(constant, objects)
        elif type(constant) is str and constant in objects:
            bound = objects[constant]
        changed = changed or bound is not constant
        constants.append(bound)
    return code.replace(co_consts=tuple(constants)) if changed else code


def mark(placeholder, node):
    """The expression `placeholder @ node`, at the place of `node`."""
    constant = ast.copy_location(ast.Constant(value=placeholder, kind=None), node)
    return ast.copy_location(ast.BinOp(left=constant, op=ast.MatMult(), right=node), node)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, deferred):
        self._deferred = deferred
        self.changed = False

    def visit_Await(self, node):
        self.generic_visit(node)
        node.value = mark(_AWAIT_MARK, node.value)
        self.changed = True
        return node

    def visit_Call(self, node):
        chosen = id(node) in self._deferred
        self.generic_visit(node)
        if chosen:
            node.func = mark(_DEFER_MARK, node.func)
            self.changed = True
        return node

    def visit_Name(self, node):
        # A function that is handed on as a value: the first argument of `map` in `gather(*map(f, xs))`.
        if id(node) in self._deferred:
            self.changed = True
            return mark(_DEFER_MARK, node)
        return node

    def visit_Attribute(self, node):
        chosen = id(node) in self._deferred
        self.generic_visit(node)
        if chosen:
            self.changed = True
            return mark(_DEFER_MARK, node)
        return node
