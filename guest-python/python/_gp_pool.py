"""`ThreadPoolExecutor` on strands: same interface, at most `max_workers` calls at a time, no real threads."""

import collections
import concurrent.futures
import concurrent.futures.thread as thread_module
import itertools
import threading
import weakref
from concurrent.futures import _base
from concurrent.futures.thread import BrokenThreadPool

import _gp_sched as sched
import _gp_state as state
import _gp_twin as twin

# Calls of tools wait on the host and cost the guest nothing, so the number of processors says nothing here.
DEFAULT_WORKERS = 32

pools = weakref.WeakSet()


class ThreadPoolExecutor(_base.Executor):
    """Runs functions in guest threads. Tool calls in them run at the same time on the host; the rest takes turns."""

    _counter = itertools.count().__next__

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=()):
        """Initializes a new ThreadPoolExecutor instance.

        Args:
            max_workers: The maximum number of threads that can be used to
                execute the given calls.
            thread_name_prefix: An optional name prefix to give our threads.
            initializer: A callable used to initialize worker threads.
            initargs: A tuple of arguments to pass to the initializer.
        """
        if max_workers is None:
            max_workers = DEFAULT_WORKERS
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._max_workers = max_workers
        self._thread_name_prefix = thread_name_prefix or f"ThreadPoolExecutor-{self._counter()}"
        self._initializer = initializer
        self._initargs = initargs
        self._queue = collections.deque()
        self._threads = set()
        self._idle = []
        # Strands that wait in `shutdown`.
        self._leaving = []
        self._unfinished = 0
        self._working = 0
        self._broken = False
        self._shutdown = False
        state.run.had_threads = True
        pools.add(self)

    def submit(self, fn, /, *args, **kwargs):
        if self._broken:
            raise BrokenThreadPool(self._broken)
        if self._shutdown:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = _base.Future()
        self._queue.append((future, fn, args, kwargs))
        self._unfinished += 1
        if self._idle:
            sched.wake(self._idle.pop())
            # The idle worker takes the item at once: a tool's call starts on the host before `submit` returns.
            sched.run_ready()
        elif len(self._threads) < self._max_workers:
            worker = threading.Thread(
                name=f"{self._thread_name_prefix}_{len(self._threads)}", target=_work, args=(self,), daemon=True)
            self._threads.add(worker)
            self._working += 1
            worker.start()
        return future

    submit.__doc__ = _base.Executor.submit.__doc__

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._shutdown = True
        if cancel_futures:
            while self._queue:
                self._queue.popleft()[0].cancel()
                self._unfinished -= 1
        sched.wake_all(self._idle)
        if wait:
            sched.block(self._has_ended)

    shutdown.__doc__ = _base.Executor.shutdown.__doc__

    def _has_ended(self):
        return not self._unfinished and not self._working

    def _break(self):
        self._broken = "A thread initializer failed, the thread pool is not usable anymore"
        while self._queue:
            self._queue.popleft()[0].set_exception(BrokenThreadPool(self._broken))
            self._unfinished -= 1


def _work(pool):
    """The body of a worker thread; runs as the coroutine below."""
    raise RuntimeError("a worker runs only as a strand")


async def _work_in_strand(pool):
    try:
        if pool._initializer is not None:
            try:
                await twin.run(pool._initializer, pool._initargs, {})
            except BaseException:
                _base.LOGGER.critical("Exception in initializer:", exc_info=True)
                pool._break()
                return
        while True:
            while pool._queue:
                await _work_one(pool, *pool._queue.popleft())
            if pool._shutdown:
                return
            pool._idle.append(sched.current)
            await sched.park()
    finally:
        pool._working -= 1
        sched.wake_all(pool._leaving)


async def _work_one(pool, future, function, args, kwargs):
    try:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = await twin.run(function, args, kwargs)
        except BaseException as error:
            future.set_exception(error.error if type(error) is twin.Stopped else error)
            # Break a reference cycle with the exception's traceback.
            future = None
        else:
            future.set_result(result)
    finally:
        pool._unfinished -= 1
        if pool._leaving and not pool._unfinished:
            sched.wake_all(pool._leaving)


async def _shutdown_in_strand(self, wait=True, *, cancel_futures=False):
    self.shutdown(wait=False, cancel_futures=cancel_futures)
    if wait:
        await sched.until(self._has_ended, self._leaving)


async def _exit_in_strand(self, *exc_info):
    await _shutdown_in_strand(self)
    return False


def wait_for(condition, timeout=None):
    return sched.block(condition, timeout)


def finish_pools():
    """At the end of a script: waits for what was submitted, as CPython does."""
    for pool in list(pools):
        pool.shutdown(wait=True)


class _RefusedProcessPool(_base.Executor):
    """Placeholder for ProcessPoolExecutor."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("processes cannot be started here; use ThreadPoolExecutor instead")


def install():
    for cls, name in ((ThreadPoolExecutor, "ThreadPoolExecutor"), (_RefusedProcessPool, "ProcessPoolExecutor")):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = "concurrent.futures." + ("thread" if cls is ThreadPoolExecutor else "process")
        setattr(concurrent.futures, name, cls)
    thread_module.ThreadPoolExecutor = ThreadPoolExecutor
    twin.by_hand[_work] = _work_in_strand
    twin.by_hand[ThreadPoolExecutor.shutdown] = _shutdown_in_strand
    twin.by_hand[_base.Executor.__exit__] = _exit_in_strand
    for name in ("done", "running"):
        _let_progress(_base.Future, name)


def _let_progress(cls, name):
    """A program that asks again and again must see an answer some day."""
    original = getattr(cls, name)

    def asked(self):
        if self._state in (_base.PENDING, _base.RUNNING):
            sched.poll()
        return original(self)

    asked.__name__, asked.__qualname__, asked.__doc__ = name, original.__qualname__, original.__doc__
    setattr(cls, name, asked)
