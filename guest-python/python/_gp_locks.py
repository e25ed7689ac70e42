"""The lock that everything else is built on: `threading`, `queue` and `concurrent.futures` run unchanged on top of it."""

import sys

import _gp_sched as sched


def _timeout_of(blocking, timeout):
    if not blocking:
        if timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        return 0
    if timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > 9223372036.0:
        raise OverflowError("timeout value is too large")
    return None if timeout == -1 else timeout


class Lock:
    """A `_thread.lock` whose wait lets other strands run."""

    __slots__ = ("_locked", "_waiters", "__weakref__")

    def __init__(self):
        self._locked = False
        self._waiters = []

    def acquire(self, blocking=True, timeout=-1):
        if blocking is True and timeout == -1 and not self._locked:
            self._locked = True
            return True
        seconds = _timeout_of(blocking, timeout)
        if self._locked and (seconds == 0 or not sched.block(lambda: not self._locked, seconds)):
            return False
        self._locked = True
        return True

    async def acquire_in_strand(self, blocking=True, timeout=-1):
        seconds = _timeout_of(blocking, timeout)
        if self._locked and (seconds == 0 or not await sched.until(lambda: not self._locked, self._waiters, seconds)):
            return False
        self._locked = True
        return True

    def release(self):
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        if self._waiters:
            sched.wake_all(self._waiters)

    def locked(self):
        return self._locked

    acquire_lock = acquire
    release_lock = release
    locked_lock = locked
    __enter__ = acquire

    def __exit__(self, *exc_info):
        self.release()

    def _at_fork_reinit(self):
        self.__init__()

    def __repr__(self):
        return f"<{'locked' if self._locked else 'unlocked'} _thread.lock object at {id(self):#x}>"

    def __reduce__(self):
        raise TypeError("cannot pickle '_thread.lock' object")


Lock.__name__ = Lock.__qualname__ = "lock"
Lock.__module__ = "_thread"


class RLock:
    """A `_thread.RLock` owned by a strand."""

    __slots__ = ("_owner", "_count", "_waiters", "__weakref__")

    def __init__(self):
        self._owner = None
        self._count = 0
        self._waiters = []

    def _free(self):
        return self._count == 0

    def acquire(self, blocking=True, timeout=-1):
        me = sched.get_ident()
        if self._owner == me:
            self._count += 1
            return True
        seconds = _timeout_of(blocking, timeout)
        if self._count and (seconds == 0 or not sched.block(self._free, seconds)):
            return False
        self._owner = me
        self._count = 1
        return True

    async def acquire_in_strand(self, blocking=True, timeout=-1):
        me = sched.get_ident()
        if self._owner == me:
            self._count += 1
            return True
        seconds = _timeout_of(blocking, timeout)
        if self._count and (seconds == 0 or not await sched.until(self._free, self._waiters, seconds)):
            return False
        self._owner = me
        self._count = 1
        return True

    def release(self):
        if self._owner != sched.get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiters:
                sched.wake_all(self._waiters)

    __enter__ = acquire

    def __exit__(self, *exc_info):
        self.release()

    # The three methods through which `threading.Condition` gives a re-entrant lock up and takes it back.
    def _release_save(self):
        if not self._count:
            raise RuntimeError("cannot release un-acquired lock")
        state = (self._count, self._owner)
        self._count = 0
        self._owner = None
        sched.wake_all(self._waiters)
        return state

    def _acquire_restore(self, state):
        sched.block(self._free)
        self._count, self._owner = state

    async def restore_in_strand(self, state):
        await sched.until(self._free, self._waiters)
        self._count, self._owner = state

    def _is_owned(self):
        return self._owner == sched.get_ident()

    def _recursion_count(self):
        return self._count if self._owner == sched.get_ident() else 0

    if sys.version_info >= (3, 14):
        def locked(self):
            return self._count > 0

    def _at_fork_reinit(self):
        self.__init__()

    def __repr__(self):
        state = "locked" if self._count else "unlocked"
        return (f"<{state} _thread.RLock object owner={self._owner or 0} count={self._count} "
                f"at {id(self):#x}>")

    def __reduce__(self):
        raise TypeError("cannot pickle '_thread.RLock' object")


RLock.__name__ = RLock.__qualname__ = "RLock"
RLock.__module__ = "_thread"
