"""`multiprocessing.pool.ThreadPool` (also `multiprocessing.dummy.Pool`) on top of the guest's ThreadPoolExecutor."""

import multiprocessing
import sys
import types
from concurrent.futures import as_completed

import _gp_pool as pool


class AsyncResult:
    """The result of one call or of a whole map."""

    def __init__(self, futures, single, callback, error_callback):
        self._futures = futures
        self._single = single
        self._left = len(futures)
        self._callback = callback
        self._error_callback = error_callback
        for future in futures:
            future.add_done_callback(self._one_done)
        if not futures:
            self._finish()

    def _one_done(self, future):
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self):
        try:
            value = self._value(None)
        except Exception as error:
            if self._error_callback:
                self._error_callback(error)
        else:
            if self._callback:
                self._callback(value)

    def _value(self, timeout):
        values = [future.result(timeout) for future in self._futures]
        return values[0] if self._single else values

    def get(self, timeout=None):
        self.wait(timeout)
        if not self.ready():
            raise multiprocessing.TimeoutError
        return self._value(0)

    def wait(self, timeout=None):
        pool.wait_for(lambda: not self._left, timeout)

    def ready(self):
        return not self._left or all(future.done() for future in self._futures)

    def successful(self):
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return all(future.exception() is None for future in self._futures)


class ThreadPool:
    """Runs functions in guest threads; see `concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, processes=None, initializer=None, initargs=()):
        if processes is not None and processes < 1:
            raise ValueError("Number of processes must be at least 1")
        self._executor = pool.ThreadPoolExecutor(processes, "", initializer, initargs)
        self._closed = False

    def _submit(self, function, argument_lists, single=False, callback=None, error_callback=None, kwargs=None):
        if self._closed:
            raise ValueError("Pool not running")
        futures = [self._executor.submit(function, *arguments, **(kwargs or {})) for arguments in argument_lists]
        return AsyncResult(futures, single, callback, error_callback)

    def apply(self, func, args=(), kwds={}):
        return self.apply_async(func, args, kwds).get()

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        return self._submit(func, [args], True, callback, error_callback, kwds)

    def map(self, func, iterable, chunksize=None):
        return self.map_async(func, iterable).get()

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return self._submit(func, [(item,) for item in iterable], False, callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        return self.starmap_async(func, iterable).get()

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        return self._submit(func, list(iterable), False, callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        return iter([]) if self._closed else self._in_order(self._submit(func, [(item,) for item in iterable])._futures)

    @staticmethod
    def _in_order(futures):
        for future in futures:
            yield future.result()

    def imap_unordered(self, func, iterable, chunksize=1):
        futures = self._submit(func, [(item,) for item in iterable])._futures
        return (future.result() for future in as_completed(futures))

    def close(self):
        self._closed = True

    def terminate(self):
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    def join(self):
        if not self._closed:
            raise ValueError("Pool is still running")
        self._executor.shutdown(wait=True)

    def __enter__(self):
        if self._closed:
            raise ValueError("Pool not running")
        return self

    def __exit__(self, *exc_info):
        self.terminate()


def install():
    """Puts the class where scripts import it from. The modules exist only partly in builds without processes."""
    ThreadPool.__module__ = AsyncResult.__module__ = "multiprocessing.pool"
    for name in ("pool", "dummy"):
        full = f"multiprocessing.{name}"
        module = sys.modules.get(full)
        if module is None:
            try:
                __import__(full)
                module = sys.modules[full]
            except ImportError:
                module = sys.modules[full] = types.ModuleType(full)
                setattr(multiprocessing, name, module)
        if name == "pool":
            module.ThreadPool, module.AsyncResult = ThreadPool, AsyncResult
            module.ApplyResult = module.MapResult = AsyncResult
            if not hasattr(module, "Pool"):
                module.Pool = lambda *args, **kwargs: multiprocessing.Pool(*args, **kwargs)
        else:
            module.Pool = lambda processes=None, initializer=None, initargs=(): ThreadPool(processes, initializer, initargs)
