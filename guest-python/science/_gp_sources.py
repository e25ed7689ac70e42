"""Sources of the few library functions that run as strands.

The archive holds byte code only, and `_gp_twin` needs the text. The slim image's library has it, of an older version: a
function whose byte code from that text is the same gets it, with its line numbers. The two that differ are written anew.
"""

import concurrent.futures._base
import linecache
import queue
import threading
import types

_MODULES = (threading, queue, concurrent.futures._base)


def adopt(source_of):
    """`source_of(name)` gives the older text of a module."""
    for module in _MODULES:
        text = source_of(module.__name__)
        filename = f"/lib/python3.13/{module.__name__.replace('.', '/')}.py"
        found = dict(_code_objects(compile(text, filename, "exec", 0, True, 0)))
        for function in _functions(module):
            code = found.get(function.__qualname__)
            if code is not None and _same(code, function.__code__):
                function.__code__ = code
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    threading.Thread.join = join
    threading.Thread._bootstrap_inner = _bootstrap_inner
    for function in (join, _bootstrap_inner):
        function.__qualname__ = f"Thread.{function.__name__}"
        function.__module__ = "threading"


def _code_objects(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant.co_qualname, constant
            yield from _code_objects(constant)


def _functions(module):
    for thing in list(vars(module).values()):
        if isinstance(thing, types.FunctionType):
            yield thing
        elif isinstance(thing, type) and thing.__module__ == module.__name__:
            yield from (value for value in vars(thing).values() if isinstance(value, types.FunctionType))


def _same(one, other):
    return all(getattr(one, name) == getattr(other, name)
               for name in ("co_code", "co_names", "co_varnames", "co_freevars", "co_exceptiontable"))


def join(self, timeout=None):
    """Wait until the thread terminates."""
    if not self._initialized:
        raise RuntimeError("Thread.__init__() not called")
    if not self._started.is_set():
        raise RuntimeError("cannot join thread before it is started")
    if self is threading.current_thread():
        raise RuntimeError("cannot join current thread")
    self._os_thread_handle.join(None if timeout is None else max(timeout, 0))


def _bootstrap_inner(self):
    try:
        self._set_ident()
        if threading._HAVE_THREAD_NATIVE_ID:
            self._set_native_id()
        self._started.set()
        with threading._active_limbo_lock:
            threading._active[self._ident] = self
            del threading._limbo[self]
        try:
            self._context.run(self.run)
        except:  # noqa: E722
            self._invoke_excepthook(self)
    finally:
        self._delete()
