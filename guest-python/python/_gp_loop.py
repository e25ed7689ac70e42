"""The asyncio event loop: timers and callbacks as usual, and instead of sockets the host calls and strands."""

import asyncio
import contextvars
import functools
import inspect
import threading
from asyncio import base_events, events, runners, tasks
from time import monotonic

import _gp_sched as sched
import _gp_tools as tools

_PLAIN = (dict, list, str, int, float)


# The name of tasks that are given none; None leaves it to asyncio.
default_task_name = None


class _HostSelector:
    """In the place of a selector: waits for a host call, a strand or the loop's next timer."""

    def select(self, timeout):
        if sched.run_ready():
            return ()
        if timeout == 0:
            sched.poll()
        elif not sched.idle(None if timeout is None else monotonic() + timeout):
            raise sched.Deadlock(
                "deadlock: every task waits for something that no other task, timer or tool call is left to do"
            )
        return ()

    def close(self):
        pass


class GuestEventLoop(base_events.BaseEventLoop):
    """An event loop without file descriptors."""

    def __init__(self):
        super().__init__()
        self._selector = _HostSelector()

    def _process_events(self, event_list):
        pass

    def _write_to_self(self):
        # Nothing sleeps while other code runs, so nothing has to be woken.
        pass

    def create_task(self, coro, *, name=None, context=None, **options):
        return super().create_task(_as_coroutine(coro), name=name or default_task_name, context=context, **options)

    async def shutdown_default_executor(self, timeout=None):
        self._executor_shutdown_called = True
        if self._default_executor is not None:
            self._default_executor.shutdown(wait=True)

    def set_default_executor(self, executor):
        self._default_executor = executor


GuestEventLoop.__module__ = "asyncio"
GuestEventLoop.__name__ = GuestEventLoop.__qualname__ = "EventLoop"


def _refuse(name, what, tool, advice):
    async def refused(self, *args, **kwargs):
        raise NotImplementedError(f"{what}{tools.suggestion(tool, advice)}")

    refused.__name__ = name
    refused.__qualname__ = f"EventLoop.{name}"
    return refused


for _name in ("create_connection", "create_server", "create_datagram_endpoint", "create_unix_connection",
              "create_unix_server", "getaddrinfo", "getnameinfo", "sock_connect", "sock_recv", "sock_sendall",
              "sock_accept", "start_tls", "connect_accepted_socket", "sendfile", "sock_sendfile"):
    setattr(GuestEventLoop, _name, _refuse(
        _name, "there is no network here", "web_extract", "; use web_extract() from {module} instead"))
for _name in ("subprocess_exec", "subprocess_shell"):
    setattr(GuestEventLoop, _name, _refuse(
        _name, "processes cannot be started here", "terminal", "; use terminal() from {module} instead"))


# --- plain values where asyncio wants awaitables ---------------------------------------------------------------------

async def _value(value):
    return value


def _as_coroutine(value):
    """A plain value (a tool call that was made on the spot) as a coroutine that has it ready."""
    if isinstance(value, _PLAIN) and not inspect.isawaitable(value):
        return _value(value)
    return value


def _gather(*coros_or_futures, return_exceptions=False):
    return _original_gather(*map(_as_coroutine, coros_or_futures), return_exceptions=return_exceptions)


def _ensure_future(coro_or_future, *, loop=None):
    return _original_ensure_future(_as_coroutine(coro_or_future), loop=loop)


async def _to_thread(func, /, *args, **kwargs):
    loop = events.get_running_loop()
    context = contextvars.copy_context()
    return await loop.run_in_executor(None, functools.partial(context.run, func, *args, **kwargs))


def _run(main, *, debug=None, loop_factory=None):
    main = _as_coroutine(main)
    outer = events._get_running_loop()
    if outer is not None and outer is _top_level_loop and tasks.current_task(outer) is _top_level_task:
        # A script with top-level `await` is not inside a coroutine as its author sees it.
        task = _top_level_task
        tasks._leave_task(outer, task)
        events._set_running_loop(None)
        try:
            return _original_run(main, debug=debug, loop_factory=loop_factory)
        finally:
            events._set_running_loop(outer)
            tasks._enter_task(outer, task)
    return _original_run(main, debug=debug, loop_factory=loop_factory)


_original_gather = tasks.gather
_original_ensure_future = tasks.ensure_future
_original_run = runners.run
_top_level_loop = None
_top_level_task = None


def run_top_level(coroutine):
    """Runs the coroutine of a script that uses `await` at its top level."""
    global _top_level_loop, _top_level_task

    async def script():
        global _top_level_task
        _top_level_task = tasks.current_task()
        return await coroutine

    with runners.Runner() as runner:
        _top_level_loop = runner.get_loop()
        runner.run(script())


def _policy(module, name):
    """From CPython 3.14 on policies are deprecated, and their names have an underscore in front."""
    return getattr(module, f"_{name}", None) or getattr(module, name)


def install():
    """Makes this loop the one that asyncio makes, and asyncio's functions take plain values."""
    base = _policy(events, "BaseDefaultEventLoopPolicy")
    for policy in (_policy(asyncio, "DefaultEventLoopPolicy"), base):
        policy._loop_factory = GuestEventLoop
    base._Local = type("_Local", (threading.local,), {"_loop": None, "_set_called": False})
    _policy(events, "set_event_loop_policy")(None)
    asyncio.EventLoop = asyncio.SelectorEventLoop = GuestEventLoop
    for replacement, name in ((_gather, "gather"), (_ensure_future, "ensure_future"), (_run, "run"),
                              (_to_thread, "to_thread")):
        original = getattr(asyncio, name)
        functools.update_wrapper(replacement, original)
        del replacement.__wrapped__
        for module in (asyncio, tasks, runners, asyncio.threads, asyncio.locks):
            if getattr(module, name, None) is original:
                setattr(module, name, replacement)
