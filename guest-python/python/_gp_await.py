"""What rewritten code calls: `AWAIT @ value` makes plain values awaitable, `DEFER @ function` makes tools concurrent.

Both are put into the rewritten code as constants, so that no name in the script's namespaces can hide or break them.
"""

import ast
import functools
import types
from asyncio.events import _get_running_loop
from collections.abc import Coroutine

import _gp_rewrite as rewrite
import _gp_sched as sched
import _gp_tools as tools

# What a tool can answer. None is left out: awaiting None is a mistake that CPython reports.
_PLAIN = (dict, list, str, int, float)
_partial = functools.partial
_FunctionType = types.FunctionType
_TOOL_CODE = tools.TOOL_CODE


class Ready:
    """An awaitable that has its value already. Its own iterator: awaiting it makes no further object."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(self.value)


class ToolCall(Coroutine):
    """A tool call that already runs on the host. Looks like a coroutine, so that `create_task` takes it."""

    __slots__ = ("__name__", "__qualname__", "_pending", "_future", "_value", "_finished")

    def __init__(self, function, args, kwargs):
        self.__name__ = self.__qualname__ = function.__name__
        self._future = None
        self._finished = False
        self._value = None
        self._pending = tools.start(function, args, kwargs)

    def _result(self):
        if not self._finished:
            self._value = tools.decode_answer(self._pending.answer)
            self._finished = True
        return self._value

    def send(self, value):
        if self._pending.done:
            raise StopIteration(self._result())
        loop = _get_running_loop()
        if loop is None:
            # Driven by hand, without a loop: wait right here.
            sched.block(lambda: self._pending.done)
            raise StopIteration(self._result())
        future = self._future = loop.create_future()
        self._pending.callbacks.append(lambda pending: future.done() or future.set_result(None))
        future._asyncio_future_blocking = True
        return future

    def throw(self, kind, value=None, traceback=None):
        self.close()
        if value is None:
            value = kind if isinstance(kind, BaseException) else kind()
        raise value.with_traceback(traceback) if traceback else value

    def close(self):
        self._pending.drop()

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    @property
    def cr_running(self):
        return False

    @property
    def cr_frame(self):
        return None

    @property
    def cr_code(self):
        return _TOOL_CODE

    def __repr__(self):
        return f"<coroutine object {self.__qualname__} at {id(self):#x}>"


class _Await:
    """`AWAIT @ value`: the value itself if it can be awaited, else one that has it ready."""

    def __matmul__(self, value):
        return Ready(value) if isinstance(value, _PLAIN) and not hasattr(type(value), "__await__") else value

    def __repr__(self):
        return "<await>"


class _Defer:
    """`DEFER @ function`: for a tool a function that starts the call and returns an awaitable, else `function`."""

    def __matmul__(self, function):
        kind = type(function)
        if kind is _FunctionType:
            if function.__code__ is _TOOL_CODE:
                return lambda *args, **kwargs: ToolCall(function, args, kwargs)
        elif kind is _partial and tools.is_tool(function.func):
            return _partial(self @ function.func, *function.args, **function.keywords)
        return function

    def __repr__(self):
        return "<defer>"


AWAIT = _Await()
DEFER = _Defer()


def compile_source(data, filename, top_level=False):
    """Compiles a source with its awaited calls made concurrent."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if top_level else 0
    return rewrite.compile_source(data, filename, AWAIT, DEFER, flags)
