"""Coroutine twins: how plain functions of a script run as strands.

A function given to a thread or an executor is recompiled as a coroutine in which every call that may wait is written
`await (SETTLE @ (INVOKE @ f)(args))`. `INVOKE @ f` is the twin of `f`, the starter of a tool, or `f` itself, so the same
code runs with the same globals, closure cells and line numbers, and can be suspended where it waits.
"""

import contextvars
import functools
import time
import types

import _gp_sched as sched
import _gp_tools as tools
import _gp_twin_compile as compiler
from _gp_await import Ready

_FunctionType = types.FunctionType
_MethodType = types.MethodType
_BuiltinType = types.BuiltinFunctionType
_partial = functools.partial
_TOOL_CODE = tools.TOOL_CODE
_NO_TWIN = (None, None)

# Written by hand: plain function → coroutine function.
by_hand = {}
# By the code object's identity (equal ones may lie in different modules): the code, and its twin's code or None where
# the function runs in place.
_twins = {}


class _Started:
    """Marks the coroutine that an invoked twin returned, so that a coroutine of the script's own is left alone."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine):
        self.coroutine = coroutine


def counterpart(function):
    """The coroutine function that stands for `function` in a strand, or None if it runs in place."""
    kind = type(function)
    if kind is _FunctionType:
        code = function.__code__
        if code is _TOOL_CODE:
            return _partial(_call_tool, function)
        found = by_hand.get(function)
        if found is not None:
            return found
        known = _twins.get(id(code))
        if known is None:
            known = _twins[id(code)] = (code, compiler.twin_code(function))
        twin = known[1]
        return None if twin is None else _bind(function, twin)
    if kind is _MethodType:
        inner = counterpart(function.__func__)
        return None if inner is None else _MethodType(inner, function.__self__)
    if kind is _partial:
        inner = counterpart(function.func)
        return None if inner is None else _partial(inner, *function.args, **function.keywords)
    if kind is _BuiltinType:
        owner = function.__self__
        if type(owner) is contextvars.Context and function.__name__ == "run":
            return _partial(_run_in_context, owner)
        return None
    call = getattr(kind, "__call__", None)
    if type(call) is _FunctionType:
        inner = counterpart(call)
        return None if inner is None else _MethodType(inner, function)
    return None


def _bind(function, twin):
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    closure = tuple(cells[name] for name in twin.co_freevars)
    bound = _FunctionType(twin, function.__globals__, function.__name__, function.__defaults__, closure)
    bound.__kwdefaults__ = function.__kwdefaults__
    return bound


async def _call_tool(function, /, *args, **kwargs):
    pending = tools.start(function, args, kwargs)
    while not pending.done:
        pending.waiters.append(sched.current)
        await sched.park()
    return tools.decode_answer(pending.answer)


async def _run_in_context(context, function, /, *args, **kwargs):
    # A strand's context takes effect when it is next resumed, so it steps aside once on the way in and out.
    strand = sched.current
    outer, strand.context = strand.context, context
    await sched.step_aside()
    try:
        return await run(function, args, kwargs)
    finally:
        strand.context = outer
        await sched.step_aside()


class Stopped(BaseException):
    """Carries a StopIteration, which no coroutine can raise itself."""

    def __init__(self, error):
        self.error = error


async def run(function, args, kwargs):
    """Runs the function that a thread or a pool was given. One without a twin runs in place, but not before its starter
    waits for something: it may itself wait for what the starter does next."""
    twin = counterpart(function)
    if twin is not None:
        return await twin(*args, **kwargs)
    if type(function) is not _BuiltinType:
        await sched.step_aside()
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise Stopped(error) from None


class _Invoke:
    """`INVOKE @ f`: what to call in the place of `f`."""

    def __matmul__(self, function):
        twin = counterpart(function)
        if twin is None:
            return function
        return lambda *args, **kwargs: _Started(twin(*args, **kwargs))


class _Settle:
    """`SETTLE @ value`: an awaitable for the value of an invoked call."""

    def __matmul__(self, value):
        return value.coroutine if type(value) is _Started else Ready(value)


class _Enter:
    """`ENTER @ manager`: a `with` statement's manager whose enter and exit may wait."""

    def __matmul__(self, manager):
        return _Manager(manager)


class _Manager:
    __slots__ = ("_manager", "_exit")

    def __init__(self, manager):
        self._manager = manager

    async def __aenter__(self):
        kind = type(self._manager)
        enter = getattr(kind, "__enter__", None)
        self._exit = getattr(kind, "__exit__", None)
        if enter is None or self._exit is None:
            missed = "" if enter is None else " (missed __exit__ method)"
            raise TypeError(f"{kind.__name__!r} object does not support the context manager protocol{missed}")
        twin = counterpart(enter)
        return enter(self._manager) if twin is None else await twin(self._manager)

    async def __aexit__(self, *exc_info):
        twin = counterpart(self._exit)
        return self._exit(self._manager, *exc_info) if twin is None else await twin(self._manager, *exc_info)


class _Iterate:
    """`ITERATE @ (f, sentinel)`: `iter(f, sentinel)` whose calls may wait."""

    def __matmul__(self, pair):
        return _Calls(*pair)


class _Calls:
    __slots__ = ("_function", "_sentinel")

    def __init__(self, function, sentinel):
        self._function = function
        self._sentinel = sentinel

    def __aiter__(self):
        return self

    async def __anext__(self):
        twin = counterpart(self._function)
        value = self._function() if twin is None else await twin()
        if value == self._sentinel:
            raise StopAsyncIteration
        return value


async def _retry_in_strand(fn, max_attempts=3, delay=2):
    """`retry`, with the same waits."""
    attempts = max(1, max_attempts)
    for attempt in range(attempts):
        try:
            twin = counterpart(fn)
            return fn() if twin is None else await twin()
        except Exception:
            if attempt + 1 >= attempts:
                raise
        await by_hand[time.sleep](delay * 2 ** attempt)


by_hand[tools.retry] = _retry_in_strand
compiler.bind_markers(_Invoke(), _Settle(), _Enter(), _Iterate())


def prepare(function, waiting):
    """Makes the twin of a standard library function while the snapshot is made. `waiting`: names it calls that may wait."""
    code = function.__code__
    twin = compiler.twin_code(function, frozenset(waiting))
    _twins[id(code)] = (code, twin)
    if twin is None:
        raise RuntimeError(f"no twin for {function.__qualname__}")


def moved(code, successor):
    """Keeps the twin of a function that gets another code object."""
    known = _twins.pop(id(code), None)
    if known is not None:
        _twins[id(successor)] = (successor, known[1])


def can_wait(function):
    """Whether a function is known to wait for a tool, a lock or the like."""
    if type(function) is not _FunctionType:
        return False
    code = function.__code__
    return code is _TOOL_CODE or function in by_hand or _twins.get(id(code), _NO_TWIN)[1] is not None


def forget():
    """Drops what was learned about scripts, which only rehearsals were, before the snapshot."""
    compiler.forget()
    for key, (code, _) in list(_twins.items()):
        if code.co_filename == "script.py":
            del _twins[key]


compiler.can_wait = can_wait
