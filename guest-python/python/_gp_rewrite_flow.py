"""Finds the calls whose results are only ever awaited.

`await f(x)` and `gather(f(a), f(b))` say so by themselves. For `t = f(x)` or `ts.append(f(x))` every use of the name in
its scope is looked at: if the name's value (or the container's items) is only awaited or handed to asyncio, its calls are
deferred; one plain use, and they stay plain calls, which is slower but always right.
"""

import ast

# Functions of asyncio that take awaitables, and whether all positional arguments are such or only the first.
_SINKS = {
    "gather": True, "create_task": False, "ensure_future": False, "wait_for": False, "wait": False, "shield": False,
    "as_completed": False, "run": False, "run_until_complete": False,
}
# Those that are told by their name on any object: `loop.create_task`, `group.create_task`.
_SINK_METHODS = frozenset(("gather", "create_task", "ensure_future", "run_until_complete"))

_ITEM = "item"
_CONTAINER = "container"
_PLAIN = "plain"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)


def deferred_calls(tree):
    """The ids of the Call nodes (and of function names given to `map`) to be deferred."""
    scopes, modules, functions = _survey(tree)
    deferred = set()
    for scope in scopes:
        deferred |= _analyze(scope, modules, functions)
    return deferred


def _survey(tree):
    """One pass over the tree: the scopes that await or hand something to asyncio, and the names asyncio goes by."""
    scopes, modules, functions = [], set(), {}
    stack = [(tree, tree)]
    while stack:
        node, scope = stack.pop()
        kind = type(node)
        if kind is ast.Await or (kind is ast.Name and node.id in _SINKS) or (
                kind is ast.Attribute and node.attr in _SINKS):
            if not scopes or scopes[-1] is not scope:
                scopes.append(scope)
        elif kind is ast.Import:
            modules.update(alias.asname or "asyncio" for alias in node.names if alias.name == "asyncio" or (
                alias.name.startswith("asyncio.") and not alias.asname))
        elif kind is ast.ImportFrom:
            if node.module and node.module.split(".")[0] == "asyncio":
                functions.update((alias.asname or alias.name, alias.name) for alias in node.names if alias.name in _SINKS)
        elif kind in _FUNCTIONS:
            scope = node
        for child in ast.iter_child_nodes(node):
            stack.append((child, scope))
    if functions:
        # Under another name (`from asyncio import gather as g`) a sink looks like any function.
        scopes = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS + (ast.Module,))]
    return {id(scope): scope for scope in scopes}.values(), modules, functions


def _analyze(scope, modules, functions):
    """Looks for a consistent set of names that only hold awaitables; first grows it, then drops what has a plain use."""
    roles, foreign = {}, None
    walk = _Walk(scope, roles, modules, functions)
    while True:
        grown = {name: role for name, role in walk.found.items() if name not in roles}
        if grown and foreign is None:
            foreign = _foreign_names(scope)
        grown = {name: role for name, role in grown.items() if name not in foreign}
        if not grown:
            break
        roles.update(grown)
        walk = _Walk(scope, roles, modules, functions)
    while True:
        dropped = [name for name in roles if name in walk.bad]
        if not dropped:
            return walk.deferred
        for name in dropped:
            del roles[name]
        walk = _Walk(scope, roles, modules, functions)


def _foreign_names(scope):
    """Names of this scope that other scopes assign too."""
    names = set()
    for node in ast.walk(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
    return names


def _bound_names(function):
    """The names that a nested function binds itself: its uses of them are not uses of the outer ones."""
    arguments = function.args
    names = {arg.arg for arg in arguments.args + arguments.kwonlyargs + getattr(arguments, "posonlyargs", [])}
    names.update(arg.arg for arg in (arguments.vararg, arguments.kwarg) if arg)
    foreign = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            foreign.update(node.names)
    return names - foreign


class _Walk:
    """One pass over a scope under an assumption (`roles`: name → item or container)."""

    def __init__(self, scope, roles, modules, functions):
        self._roles = roles
        self._modules = modules
        self._functions = functions
        self._dicts = {}
        self.found = {}
        self.bad = set()
        self.deferred = set()
        body = scope.body if isinstance(scope.body, list) else [ast.Return(value=scope.body)]
        if roles:
            self._find_dicts(body)
        for statement in body:
            self._statement(statement)

    # --- uses -------------------------------------------------------------------------------------------------------

    def _use(self, name, role):
        if role == _PLAIN:
            self.bad.add(name)
        elif self.found.setdefault(name, role) != role or self._roles.get(name, role) != role:
            self.bad.add(name)

    def _find_dicts(self, body):
        """Which containers are dicts: iterating over one yields its keys, which are plain."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        if isinstance(target, ast.Name) and target.id in self._roles:
                            is_dict = isinstance(node.value, (ast.Dict, ast.DictComp))
                            self._dicts[target.id] = is_dict and self._dicts.get(target.id, True)

    # --- statements -------------------------------------------------------------------------------------------------

    def _statement(self, node):
        if isinstance(node, _FUNCTIONS + (ast.ClassDef,)):
            self._nested(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._target(target)
            self._expression(node.value, self._role_of_targets(node.targets))
        elif isinstance(node, ast.AnnAssign):
            self._target(node.target)
            if node.value is not None:
                self._expression(node.value, self._role_of_targets([node.target]))
        elif isinstance(node, ast.AugAssign):
            self._expression(node.value, self._role_of_targets([node.target]))
            if not isinstance(node.target, ast.Name):
                self._target(node.target)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._loop(node.target, node.iter)
            for child in node.body + node.orelse:
                self._statement(child)
        elif isinstance(node, (ast.If, ast.While)):
            self._test(node.test)
            for child in node.body + node.orelse:
                self._statement(child)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._target(target)
        else:
            self._children(node)

    def _children(self, node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child)
            elif isinstance(child, ast.expr):
                self._expression(child, _PLAIN)
            else:
                self._children(child)

    def _nested(self, node):
        """A function or class inside this scope. What it reads of this scope's names counts as a plain use."""
        bound = _bound_names(node) if isinstance(node, _FUNCTIONS) else set()
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id not in bound:
                self.bad.add(child.id)

    def _target(self, node):
        """An assignment's target: names in it are stored, what they are stored into is read."""
        if isinstance(node, ast.Name):
            return
        if isinstance(node, ast.Subscript):
            if not (isinstance(node.value, ast.Name) and self._roles.get(node.value.id) == _CONTAINER):
                self._expression(node.value, _PLAIN)
            self._expression(node.slice, _PLAIN)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for element in node.elts:
                self._target(element)
        elif isinstance(node, ast.Starred):
            self._target(node.value)
        else:
            self._expression(node, _PLAIN)

    def _role_of_targets(self, targets):
        if len(targets) != 1:
            return _PLAIN
        target = targets[0]
        if isinstance(target, ast.Name):
            return self._roles.get(target.id, _PLAIN)
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            return _ITEM if self._roles.get(target.value.id) == _CONTAINER else _PLAIN
        return _PLAIN

    def _test(self, node):
        """A truth test of a container says nothing about its items."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._test(node.operand)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                self._test(value)
        elif not (isinstance(node, ast.Name) and self._roles.get(node.id) == _CONTAINER):
            self._expression(node, _PLAIN)

    # --- loops ------------------------------------------------------------------------------------------------------

    def _loop(self, target, iterable):
        """`for target in iterable`: the iterable's items have the role of the name they are bound to."""
        name = iterable.func.id if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) else None
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if name == "enumerate" and len(parts) == 2 and iterable.args:
            self._iterate(parts[1], iterable.args[0])
            for argument in iterable.args[1:]:
                self._expression(argument, _PLAIN)
        elif name == "zip" and len(parts) == len(iterable.args):
            for part, argument in zip(parts, iterable.args):
                self._iterate(part, argument)
        elif name in ("reversed", "list", "tuple", "iter") and len(iterable.args) == 1:
            self._iterate(target, iterable.args[0])
        else:
            self._iterate(target, iterable)
        self._target(target)

    def _iterate(self, target, iterable):
        role = self._roles.get(target.id, _PLAIN) if isinstance(target, ast.Name) else _PLAIN
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute) and not iterable.args:
            view, owner = iterable.func.attr, iterable.func.value
            if view == "items" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                second = target.elts[1]
                role = self._roles.get(second.id, _PLAIN) if isinstance(second, ast.Name) else _PLAIN
                if role == _ITEM:
                    return self._expression(owner, _CONTAINER)
            elif view == "values" and role == _ITEM:
                return self._expression(owner, _CONTAINER)
        if role == _ITEM:
            return self._expression(iterable, _CONTAINER)
        if self._is_dict(iterable):
            return None
        return self._expression(iterable, _PLAIN)

    def _is_dict(self, node):
        return isinstance(node, ast.Name) and self._roles.get(node.id) == _CONTAINER and self._dicts.get(node.id, False)

    # --- expressions ------------------------------------------------------------------------------------------------

    def _expression(self, node, role):
        """Visits an expression whose value is awaited (item), whose items are (container), or that is used plainly."""
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._use(node.id, role)
        elif isinstance(node, ast.Await):
            self._expression(node.value, _ITEM)
        elif isinstance(node, ast.Call):
            self._call(node, role)
        elif isinstance(node, ast.Lambda):
            self._nested(node)
        elif isinstance(node, ast.IfExp):
            self._test(node.test)
            self._expression(node.body, role)
            self._expression(node.orelse, role)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node, [(node.elt, _ITEM if role == _CONTAINER else _PLAIN)])
        elif isinstance(node, ast.DictComp):
            self._comprehension(node, [(node.key, _PLAIN), (node.value, _ITEM if role == _CONTAINER else _PLAIN)])
        elif isinstance(node, ast.NamedExpr):
            self._expression(node.value, self._roles.get(node.target.id, _PLAIN))
        elif role == _CONTAINER and isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            for element in node.elts:
                if isinstance(element, ast.Starred):
                    self._expression(element.value, _CONTAINER)
                else:
                    self._expression(element, _ITEM)
        elif role == _CONTAINER and isinstance(node, ast.Dict):
            for key in node.keys:
                if key is not None:
                    self._expression(key, _PLAIN)
            for value in node.values:
                self._expression(value, _ITEM)
        elif role == _CONTAINER and isinstance(node, ast.BinOp):
            self._expression(node.left, _CONTAINER)
            self._expression(node.right, _CONTAINER)
        elif role == _ITEM and isinstance(node, ast.Subscript):
            self._expression(node.value, _CONTAINER)
            self._expression(node.slice, _PLAIN)
        else:
            self._children(node)

    def _comprehension(self, node, elements):
        for generator in node.generators:
            self._loop(generator.target, generator.iter)
            for test in generator.ifs:
                self._test(test)
        for element, role in elements:
            self._expression(element, role)

    def _call(self, node, role):
        function = node.func
        name = function.id if isinstance(function, ast.Name) else None
        method = function.attr if isinstance(function, ast.Attribute) else None
        owner = function.value if method else None
        if role == _ITEM and name != "map":
            self.deferred.add(id(node))
        if self._sink(node, function):
            return
        if role == _CONTAINER:
            if method == "values" and not node.args:
                return self._expression(owner, _CONTAINER)
            if name in ("list", "tuple", "set", "reversed", "iter") and len(node.args) == 1:
                return self._expression(node.args[0], _CONTAINER)
            if name == "map" and len(node.args) > 1 and isinstance(node.args[0], (ast.Name, ast.Attribute)):
                self.deferred.add(id(node.args[0]))
        if isinstance(owner, ast.Name) and self._roles.get(owner.id) == _CONTAINER:
            if self._container_method(node, method, owner):
                return
        if name in ("len", "bool", "list", "zip", "sorted", "enumerate") and not node.keywords:
            for argument in node.args:
                counted = name in ("len", "bool") and isinstance(argument, ast.Name)
                if not (counted and self._roles.get(argument.id) == _CONTAINER) and not self._is_dict(argument):
                    self._expression(argument, _PLAIN)
            return
        self._children(node)

    def _container_method(self, node, method, owner):
        """`ts.append(f(x))` and the like collect awaitables. True if the call was one of them."""
        if method in ("append", "add", "appendleft") and len(node.args) == 1:
            self._expression(node.args[0], _ITEM)
        elif method in ("extend", "update") and len(node.args) == 1:
            self._expression(node.args[0], _CONTAINER)
        elif method in ("insert", "setdefault") and len(node.args) == 2:
            self._expression(node.args[0], _PLAIN)
            self._expression(node.args[1], _ITEM)
        elif method in ("clear", "keys") and not node.args:
            pass
        else:
            return False
        return True

    def _sink(self, node, function):
        """A call of asyncio's that takes awaitables. True if it was one."""
        if isinstance(function, ast.Name):
            sink = self._functions.get(function.id)
        elif isinstance(function, ast.Attribute):
            of_asyncio = isinstance(function.value, ast.Name) and function.value.id in self._modules
            known = function.attr in (_SINKS if of_asyncio else _SINK_METHODS)
            sink = function.attr if known else None
            if sink:
                self._expression(function.value, _PLAIN)
        else:
            sink = None
        if sink is None:
            return False
        for position, argument in enumerate(node.args):
            if position and not _SINKS[sink]:
                self._expression(argument, _PLAIN)
            elif isinstance(argument, ast.Starred):
                self._expression(argument.value, _CONTAINER)
            else:
                self._expression(argument, _CONTAINER if sink in ("wait", "as_completed") else _ITEM)
        for keyword in node.keywords:
            first = keyword.arg in ("coro", "fut", "coro_or_future", "main", "arg", "future")
            self._expression(keyword.value, _ITEM if first else _PLAIN)
        return True
