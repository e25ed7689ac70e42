"""The script's end of the file protocol, in the place of the guest's scheduler (`_gp_sched`).

`call` and `start` have the same meaning there and here, so that `_gp_tools` and `_gp_await` are the same files everywhere.
Threads are real here: any number of them, and forked children, may wait at once. Each process has a doorbell of its
own; in it the first thread that waits listens for all.
"""

import fcntl
import hashlib
import hmac
import os
import select
import threading
import time

VERSION = b"GP1"
REQUEST, ANSWER, ERROR = b"q", b"a", b"e"
# The look without a ring: often where FIFOs don't work, rarely where they do and a ring was lost.
FALLBACK_FIRST, FALLBACK_LAST = 0.25, 1.0
POLL_FIRST, POLL_LAST = 0.002, 0.05
MAX_HEADER = 160
O_TEMP = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Pending:
    """One call under way. `answer` holds the reply's bytes once `done` is set."""

    def __init__(self, seq):
        self.seq = seq
        self.answer = None
        self.failure = None
        self.done = False
        self.dropped = False
        self.callbacks = _Callbacks(self)

    def drop(self):
        """Abandons the call: its answer is thrown away."""
        self.dropped = True


class _Callbacks:
    """Called in the event loop that added them, not in the thread that found the answer."""

    def __init__(self, pending):
        self._pending = pending
        self._waiting = []
        self._lock = threading.Lock()

    def append(self, callback):
        from asyncio.events import _get_running_loop

        loop = _get_running_loop()
        with self._lock:
            if not self._pending.done:
                self._waiting.append((loop, callback))
                return
        self._schedule(loop, callback)

    def finish(self):
        with self._lock:
            self._pending.done = True
            waiting, self._waiting = self._waiting, []
        for loop, callback in waiting:
            self._schedule(loop, callback)

    def _schedule(self, loop, callback):
        if loop is None:
            callback(self._pending)
            return
        try:
            loop.call_soon_threadsafe(callback, self._pending)
        except RuntimeError:
            # The loop was closed before the answer came; nobody waits any more.
            pass


class Port:
    """This process' end. Made anew in a forked child."""

    def __init__(self, config):
        self._config = config
        self._key = bytes.fromhex(config["key"])
        self._run = config["run_id"].encode()
        self._max_request = config["max_request"]
        self._rpc = config["rpc"]
        self._fifo = config["fifo"]
        self._open()

    def _open(self):
        self._slots = threading.BoundedSemaphore(self._config["outstanding"])
        self._changed = threading.Condition()
        self._publishing = threading.Lock()
        self._pending = {}
        self._listening = False
        self._listener = None
        self._ring = None
        self._ring_number = 0
        self._bell = None
        self._dir = os.open(self._rpc, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._seq = os.open("seq", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._dir)
        if self._fifo:
            self._make_ring()
        # Last: other threads take the port as ready once it is this process'.
        self.pid = os.getpid()

    def after_fork(self):
        """Leaves the parent's calls, locks and doorbell to the parent."""
        for fd in (self._dir, self._seq, self._ring, self._bell):
            if fd is not None:
                os.close(fd)
        self._open()

    def _make_ring(self):
        try:
            number = 0
            while True:
                number += 1
                try:
                    os.mkfifo("ring_%d" % number, 0o600, dir_fd=self._dir)
                    break
                except FileExistsError:
                    continue
            self._ring = os.open("ring_%d" % number, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._dir)
            self._ring_number = number
            self._bell = os.open("bell", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._dir)
        except OSError:
            # Without doorbells the slow look still delivers.
            pass

    # --- asking ---------------------------------------------------------------------------------------------------------

    def start(self, body):
        """Sends a request and returns its Pending."""
        if len(body) > self._max_request:
            raise ValueError("the request is longer than the host accepts")
        self._slots.acquire()
        try:
            pending = self._publish(body)
        except BaseException:
            self._slots.release()
            raise
        return pending

    def _publish(self, body):
        with self._publishing:
            seq = self._next_seq()
        content = self._sealed(REQUEST, seq, self._ring_number, body)
        temporary = "tmp_%06d" % seq
        try:
            _write(temporary, content, self._dir)
            pending = Pending(seq)
            with self._changed:
                self._pending[seq] = pending
            os.rename(temporary, "req_%06d" % seq, src_dir_fd=self._dir, dst_dir_fd=self._dir)
        except OSError:
            self._pending.pop(seq, None)
            _unlink(temporary, self._dir)
            raise
        if self._bell is not None:
            try:
                os.write(self._bell, b"x")
            except OSError:
                # A full bell rings anyway.
                pass
        return pending

    def _next_seq(self):
        # One counter for all processes of the run; the lock is the file's, so it is right across forks and threads.
        fcntl.lockf(self._seq, fcntl.LOCK_EX)
        try:
            seq = int(os.pread(self._seq, 16, 0) or b"0") + 1
            os.pwrite(self._seq, b"%d" % seq, 0)
            return seq
        finally:
            fcntl.lockf(self._seq, fcntl.LOCK_UN)

    def _sealed(self, kind, seq, ring, body):
        head = b"%s %s %d %d" % (VERSION, kind, seq, ring)
        return b"%s %d %s\n%s" % (head, len(body), self._mac(head, body), body)

    def _mac(self, head, body):
        mac = hmac.new(self._key, b"%s %s\n" % (head, self._run), hashlib.sha256)
        mac.update(body)
        return mac.hexdigest().encode()

    # --- waiting --------------------------------------------------------------------------------------------------------

    def wait(self, pending):
        """Waits until the call is done. One thread listens for all; the others wait for it."""
        while True:
            with self._changed:
                while self._listening and not pending.done:
                    self._changed.wait()
                if pending.done:
                    return
                self._listening = True
            try:
                self._listen(lambda: pending.done)
            finally:
                with self._changed:
                    self._listening = False
                    self._changed.notify_all()

    def listen_in_background(self):
        """Makes sure that somebody listens although nobody waits: for calls that are awaited."""
        with self._changed:
            if self._listener is None or not self._listener.is_alive():
                self._listener = threading.Thread(target=self._background, name="gloveport", daemon=True)
                self._listener.start()

    def _background(self):
        while True:
            with self._changed:
                if not self._pending:
                    self._listener = None
                    return
                if self._listening:
                    self._changed.wait()
                    continue
                self._listening = True
            try:
                self._listen(lambda: not self._pending)
            finally:
                with self._changed:
                    self._listening = False
                    self._changed.notify_all()

    def _listen(self, enough):
        first, last = (FALLBACK_FIRST, FALLBACK_LAST) if self._ring is not None else (POLL_FIRST, POLL_LAST)
        pause = first
        poller = select.poll()
        if self._ring is not None:
            poller.register(self._ring, select.POLLIN)
        while True:
            if self._collect():
                pause = first
            if enough():
                return
            if self._ring is None:
                time.sleep(pause)
            elif poller.poll(int(pause * 1000)):
                try:
                    os.read(self._ring, 4096)
                except BlockingIOError:
                    pass
            pause = min(last, pause * 1.5)

    def _collect(self):
        """Takes every answer that is there. True if there was one."""
        found = False
        for seq in list(self._pending):
            content = self._take(seq)
            if content is not None:
                self._finish(seq, content)
                found = True
        return found

    def _take(self, seq):
        name = "res_%06d" % seq
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._dir)
        except OSError:
            return None
        with os.fdopen(fd, "rb", buffering=0) as file:
            content = file.readall()
        _unlink(name, self._dir)
        return content

    def _finish(self, seq, content):
        pending = self._pending[seq]
        try:
            kind, body = self._unsealed(seq, content)
            if kind == ERROR:
                code = int(body)
                pending.failure = OSError(code, os.strerror(code))
            else:
                pending.answer = body
        except ValueError as error:
            pending.failure = RuntimeError("the answer of a tool call is not the host's: %s" % error)
        self._pending.pop(seq, None)
        self._slots.release()
        pending.callbacks.finish()
        with self._changed:
            self._changed.notify_all()

    def _unsealed(self, seq, content):
        end = content.find(b"\n", 0, MAX_HEADER)
        parts = content[:max(end, 0)].split(b" ")
        body = content[end + 1:]
        if len(parts) != 6 or parts[0] != VERSION or parts[1] not in (ANSWER, ERROR):
            raise ValueError("malformed")
        if parts[2] != b"%d" % seq or parts[4] != b"%d" % len(body):
            raise ValueError("of another call")
        if not hmac.compare_digest(parts[5], self._mac(b" ".join(parts[:4]), body)):
            raise ValueError("forged")
        return parts[1], body


def _write(name, content, directory):
    fd = os.open(name, O_TEMP, 0o600, dir_fd=directory)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view):]
    finally:
        os.close(fd)


def _unlink(name, directory):
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass


# The process' port: made at the first call, made anew in a child.
_config = None
_port = None
_port_lock = threading.Lock()


def configure(config):
    """Stores where the calls go."""
    global _config
    _config = config


def port():
    global _port
    if _port is None or _port.pid != os.getpid():
        # A forked child's first callers may be several threads at once.
        with _port_lock:
            if _port is None:
                _port = Port(_config)
            elif _port.pid != os.getpid():
                _port.after_fork()
    return _port


def _unlock_in_child():
    global _port_lock
    _port_lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock_in_child)


def call(request):
    """A plain call: blocks until the answer is there. Other threads go on meanwhile."""
    here = port()
    pending = here.start(request)
    here.wait(pending)
    if pending.failure is not None:
        raise pending.failure
    return pending.answer


def start(request):
    """Starts a call that is going to be awaited."""
    here = port()
    pending = here.start(request)
    here.listen_in_background()
    return pending


def block(predicate, timeout=None):
    """Plain code waits for a call that was started."""
    end = None if timeout is None else time.monotonic() + timeout
    while not predicate():
        if end is not None and time.monotonic() >= end:
            return False
        time.sleep(0.001)
    return True
