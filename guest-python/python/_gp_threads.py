"""`threading` on strands: the standard module runs unchanged on top of the few functions replaced here."""

import _thread
import _threading_local
import queue
import sys
import threading
import time
from concurrent.futures import _base as futures_base

import _gp_pool as pool
import _gp_sched as sched
import _gp_twin as twin
from _gp_locks import Lock, RLock

_real_ident = _thread.get_ident()

# The functions of the standard library that wait, and the names of the calls in them that do the waiting.
_WAITING = (
    (threading.Condition.__enter__, ("__enter__",)),
    (threading.Condition.wait, ("acquire", "_acquire_restore")),
    (threading.Condition.wait_for, ("wait", "predicate")),
    (threading.Condition._acquire_restore, ("acquire",)),
    (threading.Semaphore.acquire, ("wait",)),
    (threading.Event.wait, ("wait",)),
    (threading.Barrier.wait, ("_enter", "_wait", "_release")),
    (threading.Barrier._enter, ("wait",)),
    (threading.Barrier._wait, ("wait_for",)),
    (threading.Thread.join, ("join",)),
    (threading.Thread._bootstrap, ("_bootstrap_inner",)),
    (threading.Thread._bootstrap_inner, ("run",)),
    (threading.Timer.run, ("wait", "function")),
    (queue.Queue.get, ("wait",)),
    (queue.Queue.put, ("wait",)),
    (queue.Queue.join, ("wait",)),
    (queue._PySimpleQueue.get, ("acquire",)),
    (futures_base.Future.result, ("wait",)),
    (futures_base.Future.exception, ("wait",)),
    (futures_base.wait, ("wait",)),
)


class ThreadHandle:
    """What `threading.Thread` joins."""

    __slots__ = ("ident", "_done", "_waiters")

    def __init__(self):
        self.ident = 0
        self._done = False
        self._waiters = []

    def is_done(self):
        if not self._done:
            sched.poll()
        return self._done

    def _set_done(self):
        self._done = True
        sched.wake_all(self._waiters)

    def join(self, timeout=None):
        sched.block(lambda: self._done, timeout)

    async def join_in_strand(self, timeout=None):
        await sched.until(lambda: self._done, self._waiters, timeout)

    def __repr__(self):
        return f"<_ThreadHandle object: ident={self.ident}>"


def _start_joinable_thread(function, handle=None, daemon=True):
    handle = handle or ThreadHandle()

    async def body():
        handle.ident = sched.get_ident()
        try:
            await twin.run(function, (), {})
        finally:
            handle._set_done()

    sched.spawn(body(), daemon)
    return handle


def _start_new_thread(function, args, kwargs=None, /):
    """Start a new thread and return its identifier."""
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")

    async def body():
        try:
            await twin.run(function, args, kwargs or {})
        except SystemExit:
            pass
        except BaseException:
            sys.stderr.write(f"Exception ignored in thread started by: {function!r}\n")
            sys.excepthook(*sys.exc_info())

    return sched.spawn(body(), daemon=True).ident


async def _run_in_strand(self):
    """`Thread.run`."""
    try:
        if self._target is not None:
            await twin.run(self._target, self._args, self._kwargs)
    except twin.Stopped as stopped:
        raise stopped.error
    finally:
        del self._target, self._args, self._kwargs


# --- sleep ----------------------------------------------------------------------------------------------------------

def _seconds(value):
    if isinstance(value, float):
        if value != value:
            raise ValueError("Invalid value NaN (not a number)")
        seconds = value
    else:
        try:
            seconds = value.__index__()
        except AttributeError:
            raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer") from None
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    if seconds > 9223372036.0:
        raise OverflowError("timestamp too large to convert to C PyTime_t")
    return seconds


def sleep(seconds, /):
    """sleep(seconds)

    Delay execution for a given number of seconds.  The argument may be
    a floating-point number for subsecond precision."""
    length = _seconds(seconds)
    if sched.active():
        sched.block(lambda: False, length)
    else:
        sched.sleep_on_host(length)


async def _sleep_in_strand(seconds, /):
    deadline = sched.monotonic() + _seconds(seconds)
    await sched.step_aside()
    while sched.monotonic() < deadline:
        await sched.park(deadline)


# --- the end of a script --------------------------------------------------------------------------------------------

def finish():
    """`threading._shutdown`: waits for what was submitted to pools and for all threads that are not daemons."""
    threading._SHUTTING_DOWN = True
    for function in reversed(threading._threading_atexits):
        function()
    pool.finish_pools()
    try:
        sched.block(lambda: all(strand.daemon for strand in sched.strands()))
    except sched.Deadlock:
        waiting = [thread for thread in threading.enumerate()
                   if thread is not threading.main_thread() and not thread.daemon]
        names = ", ".join(thread.name for thread in waiting)
        sys.stderr.write(f"warning: the script ended while threads still waited for something: {names}\n")


def _replace(replacement, name):
    replacement.__name__ = replacement.__qualname__ = name
    return replacement


def install():
    sched.set_main_ident(_real_ident)
    for module in (_thread, threading):
        module.get_ident = sched.get_ident
        module.get_native_id = sched.get_ident
        module.RLock = RLock
        module._ThreadHandle = ThreadHandle
    _thread.allocate_lock = _thread.allocate = _thread.lock = _thread.LockType = Lock
    _thread.start_joinable_thread = threading._start_joinable_thread = _replace(
        _start_joinable_thread, "start_joinable_thread")
    _thread.start_new_thread = _thread.start_new = _replace(_start_new_thread, "start_new_thread")
    threading._allocate_lock = threading.Lock = threading._LockType = Lock
    threading._CRLock = RLock
    threading._active_limbo_lock = RLock()
    threading._thread_shutdown = lambda: None
    threading._shutdown = _replace(finish, "_shutdown")
    threading.local = _threading_local.local
    _thread._local = _threading_local.local
    queue.SimpleQueue = queue._PySimpleQueue
    time.sleep = sleep
    pool.install()
    twin.by_hand.update({
        sleep: _sleep_in_strand,
        Lock.acquire: Lock.acquire_in_strand,
        RLock.acquire: RLock.acquire_in_strand,
        RLock._acquire_restore: RLock.restore_in_strand,
        ThreadHandle.join: ThreadHandle.join_in_strand,
        threading.Thread.run: _run_in_strand,
    })
    for function, waiting in _WAITING:
        twin.prepare(function, waiting)
