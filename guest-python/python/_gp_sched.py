"""Calls running on the host, and the strands (guest threads) that wait for them.

The guest has one real thread. A *strand* is a coroutine that stands for a thread: it runs until it must wait, parks, and
is resumed when what it waits for has happened. Whatever blocks in plain code (a lock, `join`, `Future.result`,
`time.sleep`) calls `block`, which runs the other strands and the host calls meanwhile. If nothing is left that could
end the wait, `block` raises instead of hanging.
"""

import collections
import contextvars
import heapq
import itertools
import time
import types
from asyncio.events import _get_running_loop, _set_running_loop

import _gloveport
import _gp_state as state

CALL = b"\x01"
START = b"\x02"
WAIT = b"\x03"
DROP = b"\x04"

# How the C module words the host's refusal to start another call before one has ended.
TOO_MANY_CALLS = "too many tool calls are outstanding"
# Strands that run on top of each other share one stack: past this depth no further one is begun while waiting.
MAX_NESTING = 60
# The longest wait sent as one message; longer ones are repeated. Keeps the nanoseconds inside an i64.
MAX_WAIT_SECONDS = 100_000_000.0

_send = _gloveport.call
monotonic = time.monotonic


class Deadlock(RuntimeError):
    """Raised in place of a wait that could never end."""


Deadlock.__name__ = Deadlock.__qualname__ = "RuntimeError"
Deadlock.__module__ = "builtins"


class Pending:
    """One call that runs on the host. `answer` holds the reply's bytes once `done` is set."""

    __slots__ = ("key", "answer", "done", "dropped", "waiters", "callbacks")

    def __init__(self, key):
        self.key = key
        self.answer = None
        self.done = False
        self.dropped = False
        self.waiters = []
        self.callbacks = []

    def finish(self, answer):
        self.answer = answer
        self.done = True
        wake_all(self.waiters)
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)

    def drop(self):
        """Abandons the call: the host stops it where it can, and its answer is never delivered."""
        if not self.done and not self.dropped:
            self.dropped = True
            if _outstanding.pop(self.key, None) is not None:
                _send(DROP + self.key)


class Strand:
    """A guest thread. `parked` is true while it waits for a wake-up."""

    __slots__ = ("coro", "ident", "context", "loop", "parked", "done", "daemon", "waiters", "timer")

    def __init__(self, coro, daemon=False):
        self.coro = coro
        self.ident = _main_ident + next(_idents) * 64
        self.context = contextvars.Context()
        self.loop = None
        self.parked = False
        self.done = False
        self.daemon = daemon
        self.waiters = []
        # The number of the timer that may wake this strand; an older one that still lies in the heap is void.
        self.timer = 0


_outstanding = {}
_ready = collections.deque()
_timers = []
_strands = set()
_idents = itertools.count(1)
_timer_order = itertools.count(1)
_main_ident = 0
_depth = 0
# What a strand yields that wants to go on as soon as the others had their turn.
_ASIDE = object()
# The strand whose code runs now; None is the main thread.
current = None


def set_main_ident(ident):
    global _main_ident
    _main_ident = ident


def get_ident():
    return _main_ident if current is None else current.ident


# --- calls on the host ---------------------------------------------------------------------------------------------

def start(request):
    """Starts a call on the host and returns its `Pending`. Waits for a free slot if too many are outstanding."""
    while True:
        try:
            key = _send(START + request)
        except Exception as error:
            if TOO_MANY_CALLS not in str(error) or not _outstanding:
                raise
            _pump(None)
            continue
        pending = Pending(bytes(key))
        _outstanding[pending.key] = pending
        return pending


def call(request):
    """A plain call: blocks until the answer is there, letting other strands go on meanwhile."""
    if not _strands:
        return _send(CALL + request)
    pending = start(request)
    block(lambda: pending.done)
    return pending.answer


def _pump(seconds):
    """Waits for one of the outstanding calls (or just sleeps, if there are none). True when one finished."""
    if seconds is None:
        timeout = -1
    else:
        timeout = int(min(max(seconds, 0.0), MAX_WAIT_SECONDS) * 1_000_000_000)
    reply = _send(WAIT + timeout.to_bytes(8, "little", signed=True) + b"".join(_outstanding))
    if not reply:
        return False
    pending = _outstanding.pop(bytes(reply[:4]), None)
    if pending is not None:
        pending.finish(reply[4:])
    return True


def sleep_on_host(seconds):
    """A sleep with nothing else to do."""
    while seconds > MAX_WAIT_SECONDS:
        _send(WAIT + int(MAX_WAIT_SECONDS * 1_000_000_000).to_bytes(8, "little", signed=True))
        seconds -= MAX_WAIT_SECONDS
    # Rounded up: a sleep must not be shorter than asked for.
    _send(WAIT + (int(seconds * 1_000_000_000) + 1).to_bytes(8, "little", signed=True))


# --- strands --------------------------------------------------------------------------------------------------------

@types.coroutine
def park(deadline=None):
    """Inside a strand: wait for `wake`, at most until `deadline`. May return early; callers check and park again."""
    yield deadline


@types.coroutine
def step_aside():
    """Inside a strand: let the others that are ready go first."""
    yield _ASIDE


async def until(predicate, waiters, timeout=None):
    """Inside a strand: wait until `predicate()` holds. False when the timeout passed first."""
    deadline = None if timeout is None else monotonic() + timeout
    while not predicate():
        if deadline is not None and monotonic() >= deadline:
            return False
        waiters.append(current)
        await park(deadline)
    return True


def spawn(coro, daemon=False):
    """Makes a strand of a coroutine and runs it until it first waits."""
    strand = Strand(coro, daemon)
    _strands.add(strand)
    state.run.had_threads = True
    _step(strand)
    return strand


def wake(strand):
    if strand.parked:
        strand.parked = False
        strand.timer = 0
        _ready.append(strand)


def wake_all(waiters):
    for strand in waiters:
        wake(strand)
    waiters.clear()


def _step(strand):
    """Runs a strand until it parks or ends."""
    global current, _depth
    outer = current
    outer_loop = _get_running_loop()
    if outer_loop is not strand.loop:
        _set_running_loop(strand.loop)
    current = strand
    _depth += 1
    try:
        deadline = strand.context.run(strand.coro.send, None)
    except BaseException as error:
        strand.done = True
        _strands.discard(strand)
        wake_all(strand.waiters)
        # Thread and executor bodies catch everything themselves; only a strand's normal end may arrive here.
        if not isinstance(error, StopIteration):
            raise
    else:
        if deadline is _ASIDE:
            _ready.append(strand)
            return
        strand.parked = True
        if deadline is not None:
            strand.timer = next(_timer_order)
            heapq.heappush(_timers, (deadline, strand.timer, strand))
    finally:
        _depth -= 1
        current = outer
        strand.loop = _get_running_loop()
        if strand.loop is not outer_loop:
            _set_running_loop(outer_loop)


def run_ready():
    """Runs one waiting strand for one step. False when none is ready or the stack is too deep to begin one."""
    if not _ready or _depth >= MAX_NESTING:
        return False
    _step(_ready.popleft())
    return True


def poll():
    """Lets strands and calls progress without waiting: for code that asks `done()` or `is_alive()` in a loop."""
    if _outstanding:
        _pump(0)
    _fire_timers()
    run_ready()


def active():
    return bool(_strands)


def strands():
    return list(_strands)


def _fire_timers():
    now = monotonic()
    while _timers and _timers[0][0] <= now:
        _, timer, strand = heapq.heappop(_timers)
        if strand.timer == timer:
            wake(strand)


def idle(deadline):
    """Waits for the next thing that can happen. False when nothing ever will and no deadline was given."""
    while _timers and _timers[0][2].timer != _timers[0][1]:
        heapq.heappop(_timers)
    if _timers and (deadline is None or _timers[0][0] < deadline):
        deadline = _timers[0][0]
    if deadline is None:
        if not _outstanding:
            return False
        _pump(None)
    else:
        _pump(deadline - monotonic())
    _fire_timers()
    return True


def block(predicate, timeout=None):
    """Plain code waits until `predicate()` holds. False when the timeout passed first."""
    if predicate():
        return True
    deadline = None if timeout is None else monotonic() + timeout
    while True:
        progressed = run_ready()
        if predicate():
            return True
        if deadline is not None and monotonic() >= deadline:
            return False
        if not progressed and not idle(deadline):
            raise Deadlock(
                "deadlock: this waits for something that only another running thread could do, and no other thread, "
                "timer or tool call is left that could do it (threads run one at a time here)"
            )
        if predicate():
            return True

