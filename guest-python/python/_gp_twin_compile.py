"""Recompiles a plain function as its coroutine twin (see `_gp_twin`).

Only a function that can reach something worth waiting for gets one: a tool, a lock, a queue, `time.sleep`. Others
run in place at full speed. What cannot be converted exactly (generators, functions without source) runs in place too.
"""

import ast
import builtins
import copy
import functools
import linecache
import types

import _gp_imports as imports
import _gp_rewrite as rewrite
import _gp_tools as tools

_INVOKE_MARK = "\x00gloveport invoke marker\x00"
_SETTLE_MARK = "\x00gloveport settle marker\x00"
_ENTER_MARK = "\x00gloveport enter marker\x00"
_ITERATE_MARK = "\x00gloveport iterate marker\x00"
_CO_UNSUITABLE = 0x20 | 0x80 | 0x100 | 0x200  # generators and coroutines of every kind

# Methods that wait, and a word that a source must hold for an object with such a method to be around.
_WAITING_METHODS = {
    "acquire": (b"Lock", b"Semaphore", b"Condition"), "get": (b"Queue",), "put": (b"Queue",),
    "join": (b"Thread(", b"Queue", b"Thread)"), "wait": (b"Event", b"Condition", b"Barrier", b"wait("),
    "wait_for": (b"Condition",), "result": (b"submit", b"Future", b"threadsafe"), "exception": (b"submit", b"Future"),
    "sleep": (b"sleep",),
}
# Built-in functions never wait for anything, and calling them directly keeps the twin fast.
_DIRECT = frozenset(name for name in dir(builtins) if name not in ("map", "filter", "iter", "next", "__build_class__"))
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp)

_markers = {}
_indexes = {}
_reaching = {}
# Set by `_gp_twin`: whether a function object itself waits.
can_wait = None


def bind_markers(invoke, settle, enter, iterate):
    _markers.update({_INVOKE_MARK: invoke, _SETTLE_MARK: settle, _ENTER_MARK: enter, _ITERATE_MARK: iterate})


def twin_code(function, waiting=None):
    """The twin's code object, or None. `waiting` replaces the analysis by a set of names that may wait."""
    code = function.__code__
    if code.co_flags & _CO_UNSUITABLE:
        return None
    found = _find(code, function.__globals__)
    if found is None:
        return None
    node, class_name = found
    if waiting is not None:
        chosen = {id(call) for call in _own_calls(node) if _called_name(call) in waiting}
    else:
        chosen = _waiting_calls(function, node)
        if not chosen or _may_raise_stop_iteration(node):
            return None
    try:
        return _compile(code, node, class_name, chosen)
    except (SyntaxError, ValueError, RecursionError):
        return None


# --- finding the source ---------------------------------------------------------------------------------------------

class _Index:
    """The functions of one source file."""

    def __init__(self, tree, text):
        self.text = text
        self.by_place = {}
        self.by_name = {}
        self._collect(tree, None)

    def _collect(self, parent, class_name):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, _FUNCTIONS):
                name = getattr(node, "name", "<lambda>")
                decorators = getattr(node, "decorator_list", ())
                line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
                self.by_place.setdefault((name, line), []).append((node, class_name))
                self.by_name.setdefault(name, []).append(node)
            self._collect(node, node.name if isinstance(node, ast.ClassDef) else class_name)


def _index(filename, namespace=None):
    """The functions of a known source. While the snapshot is made, sources are also found through module globals."""
    index = _indexes.get(filename)
    if index is None and filename not in _indexes:
        data = imports.source_of(filename)
        if data is None and namespace is not None and not imports.running():
            data = "".join(linecache.getlines(filename, namespace)).encode()
        try:
            index = _Index(ast.parse(data), data) if data else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            index = None
        _indexes[filename] = index
    return index


def forget():
    """Drops the syntax trees and what was concluded from them; the twins made from them stay."""
    _indexes.clear()
    _reaching.clear()


def _find(code, namespace=None):
    index = _index(code.co_filename, namespace)
    if index is None:
        return None
    candidates = index.by_place.get((code.co_name, code.co_firstlineno), ())
    if len(candidates) > 1:
        candidates = [candidate for candidate in candidates if _covers(candidate[0], code)]
        candidates.sort(key=lambda candidate: _extent(candidate[0]))
        if len(candidates) > 1 and _extent(candidates[0][0]) == _extent(candidates[1][0]):
            return None
    return candidates[0] if candidates else None


def _covers(node, code):
    """Whether all instructions of the code lie inside the node, and its body's end is where the code ends."""
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    spans = [span for span in code.co_positions() if None not in span and span[2] != span[3]]
    inside = all(start <= (line, column) and (end_line, end_column) <= end
                 for line, end_line, column, end_column in spans)
    return inside and bool(spans)


def _extent(node):
    return (node.end_lineno - node.lineno, node.end_col_offset - node.col_offset)


# --- which calls may wait -------------------------------------------------------------------------------------------

def _own_nodes(node):
    """The nodes of a function's own scope, without those of nested functions, classes and generator expressions."""
    body = node.body if isinstance(node.body, list) else [node.body]
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _own_calls(node):
    return [child for child in _own_nodes(node) if isinstance(child, ast.Call)]


def _called_name(call):
    function = call.func
    return getattr(function, "id", None) or getattr(function, "attr", None)


def _waiting_calls(function, node):
    return {id(call) for call in _own_calls(node) if _may_wait(call.func, function)}


def _may_raise_stop_iteration(node):
    """A coroutine cannot let a StopIteration out, as a function can."""
    for child in _own_nodes(node):
        if isinstance(child, ast.Call) and _called_name(child) == "next" and len(child.args) == 1:
            return True
        if isinstance(child, ast.Raise) and any(
                isinstance(name, ast.Name) and name.id == "StopIteration" for name in ast.walk(child)):
            return True
    return False


def _may_wait(callee, function):
    if isinstance(callee, ast.Name):
        value = _lookup(callee.id, function)
        if value is _UNKNOWN:
            return callee.id not in _DIRECT
        return _worth_waiting(value)
    if isinstance(callee, ast.Attribute):
        if isinstance(callee.value, ast.Name):
            owner = _lookup(callee.value.id, function)
            if isinstance(owner, types.ModuleType):
                return _worth_waiting(getattr(owner, callee.attr, None))
        return _method_may_wait(callee.attr, function.__code__.co_filename)
    if isinstance(callee, ast.Constant):
        return False
    return True


_UNKNOWN = object()


def _lookup(name, function):
    """The value that a name has for a function, where it is not a local of it."""
    code = function.__code__
    if name in code.co_freevars:
        try:
            return function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:
            return _UNKNOWN
    if name in code.co_varnames or name in code.co_cellvars:
        return _UNKNOWN
    if name in function.__globals__:
        return function.__globals__[name]
    return getattr(builtins, name, _UNKNOWN)


def _worth_waiting(value):
    while type(value) in (functools.partial, types.MethodType):
        value = value.func if type(value) is functools.partial else value.__func__
    if type(value) is not types.FunctionType:
        call = getattr(type(value), "__call__", None)
        return type(call) is types.FunctionType and _worth_waiting(call)
    return can_wait(value) or _reaches(value)


def _reaches(function):
    code = function.__code__
    known = _reaching.get(id(code))
    if known is not None:
        return known[1]
    if imports.source_of(code.co_filename) is None or code.co_flags & _CO_UNSUITABLE:
        return False
    # Recursion: assumed not to wait while its other calls are looked at.
    _reaching[id(code)] = (code, False)
    found = _find(code)
    result = found is not None and any(_may_wait(call.func, function) for call in _own_calls(found[0]))
    _reaching[id(code)] = (code, result)
    return result


def _method_may_wait(name, filename):
    """Whether a method of that name, on an object that is not known, may wait."""
    if name in tools.enabled_names():
        return True
    sources = [index for index in (_index(known) for known in imports.source_names()) if index is not None]
    words = _WAITING_METHODS.get(name)
    if words is not None and any(word in index.text for index in sources for word in words):
        return True
    return any(_node_may_wait(node, sources) for index in sources for node in index.by_name.get(name, ()))


def _node_may_wait(node, sources):
    """For a function known by its name only: whether any name that it calls may wait."""
    known = _reaching.get(id(node))
    if known is not None:
        return known[1]
    _reaching[id(node)] = (node, False)
    result = False
    for call in _own_calls(node):
        name = _called_name(call)
        if name is None or name in tools.enabled_names() or name in _WAITING_METHODS:
            result = True
        elif name not in _DIRECT:
            result = any(_node_may_wait(inner, sources) for index in sources for inner in index.by_name.get(name, ()))
        if result:
            break
    _reaching[id(node)] = (node, result)
    return result


# --- the twin --------------------------------------------------------------------------------------------------------

class _Converter(ast.NodeTransformer):
    """Turns a function's body into the twin's. Nested functions and generator expressions stay as they are."""

    def __init__(self, chosen):
        self._chosen = chosen

    def _leave(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_GeneratorExp = _leave

    def visit_Call(self, node):
        chosen = getattr(node, "_gp_chosen", False)
        self.generic_visit(node)
        if not chosen:
            return node
        node.func = rewrite.mark(_INVOKE_MARK, node.func)
        return ast.copy_location(ast.Await(value=rewrite.mark(_SETTLE_MARK, node)), node)

    def visit_With(self, node):
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = rewrite.mark(_ENTER_MARK, item.context_expr)
        return ast.copy_location(ast.AsyncWith(items=node.items, body=node.body), node)

    def visit_For(self, node):
        call = node.iter
        two_arguments = (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "iter"
                         and len(call.args) == 2 and not call.keywords)
        self.generic_visit(node)
        if not two_arguments:
            return node
        pair = ast.copy_location(ast.Tuple(elts=call.args, ctx=ast.Load()), call)
        return ast.copy_location(ast.AsyncFor(
            target=node.target, iter=rewrite.mark(_ITERATE_MARK, pair), body=node.body, orelse=node.orelse), node)


def _compile(code, node, class_name, chosen):
    for call in _own_calls(node):
        call._gp_chosen = id(call) in chosen
    node = copy.deepcopy(node)
    converter = _Converter(chosen)
    if isinstance(node, ast.Lambda):
        body = [ast.copy_location(ast.Return(value=converter.visit(node.body)), node.body)]
    else:
        body = [converter.visit(statement) for statement in node.body]
    arguments = node.args
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    # Defaults belong to the function object, which keeps its own; the code only needs the arguments' names.
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    twin = ast.copy_location(ast.AsyncFunctionDef(
        name=code.co_name, args=arguments, body=body, decorator_list=[], returns=None, type_params=[]), node)
    outer = _wrapped(twin, code.co_freevars, class_name)
    compiled = compile(outer, code.co_filename, "exec", code.co_flags & _FUTURE_FLAGS, True)
    result = _nested_code(compiled, code.co_name)
    if result is None or not set(result.co_freevars) <= set(code.co_freevars):
        return None
    if result.co_flags & (0x20 | 0x200):
        return None
    return rewrite.bind(result.replace(co_qualname=code.co_qualname, co_firstlineno=code.co_firstlineno), _markers)


# Compiler flags of `from __future__ import …` that a function's code object carries.
_FUTURE_FLAGS = 0x1000000 | 0x800000


def _wrapped(twin, free_names, class_name):
    """The twin inside a function that has its free names as locals, and in a class where names may be mangled."""
    inner = twin
    if class_name is not None:
        inner = ast.ClassDef(name=class_name, bases=[], keywords=[], body=[twin], decorator_list=[], type_params=[])
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=name) for name in free_names], kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="outer", args=arguments, body=[inner], decorator_list=[], returns=None, type_params=[])
    return ast.fix_missing_locations(ast.Module(body=[outer], type_ignores=[]))


def _nested_code(code, name):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name and constant.co_flags & (0x80 | 0x200):
                return constant
            found = _nested_code(constant, name)
            if found is not None:
                return found
    return None
