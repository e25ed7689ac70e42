"""The relay: one process at the remote end of a channel, which runs scripts one after the other for the host.

It ends, and takes with it what it started, when the channel ends or when the host has not been heard for a while: a dead
host leaves nothing behind, whatever killed it.
"""

import json
import os
import selectors
import shutil
import signal
import sys
import time

import gp_changes
import gp_files
import gp_frames as frames
import gp_process as process
import gp_rundir as rundir
import gp_run

VERSION = 1
READ_SIZE = 1 << 20
SWEEP_SECONDS = 2.0
# A relay that has nothing to do looks for leftovers once, this long after its start.
SWEEP_AFTER, IDLE_SWEEP_SECONDS = 5.0, 0.2


class Relay:
    """State of one relay. `options` come from the host with the relay's text."""

    def __init__(self, options, sources):
        self.options = options
        self.lease = options["lease"]
        self.outbox = frames.Outbox(1)
        self.place = None
        self.fifo = False
        self.run = None
        self.runner = compile(sources["_gp_runner"], "_gp_runner.py", "exec", dont_inherit=True)
        self._sources = sources
        self._codes = None
        self._reader = frames.FrameReader(options["max_frame"])
        self._selector = selectors.DefaultSelector()
        self._files = gp_files.Files(self)
        self._ending = False
        self._children = False
        self._heard = time.monotonic()
        self._writing = False
        self._sweep_due = time.monotonic() + SWEEP_AFTER
        self.umask = 0o022

    @property
    def codes(self):
        """The compiled modules that scripts share; the same interpreter compiles and runs them."""
        if self._codes is None:
            self._codes = {
                name: compile(text, "%s.py" % file, "exec", dont_inherit=True)
                for name, (file, text) in self._sources["shared"].items()
            }
        return self._codes

    # --- the loop ---------------------------------------------------------------------------------------------------------

    def serve(self):
        """Runs until the host is gone or says so."""
        # From here on the lease ends a relay without a host, and not the alarm of the command line.
        signal.alarm(0)
        for fd in (0, 1):
            os.set_blocking(fd, False)
            process.widen(fd)
        self._selector.register(0, selectors.EVENT_READ, ("host", None))
        self._watch_signals()
        self.hello()
        try:
            while not self._ending:
                self._turn()
        except BrokenPipeError:
            pass
        finally:
            self._finish()

    def _turn(self):
        wake = self._tick()
        self._flush()
        self._gate_output()
        for key, mask in self._selector.select(max(0.0, wake - time.monotonic())):
            kind, argument = key.data
            if kind == "host":
                self._from_host()
            elif kind == "signal":
                self._drain_signals(key.fd)
            elif kind == "output" and self.run is not None:
                self.run.read_output(key.fd)
            elif kind == "input" and self.run is not None:
                self.run.feed()
            elif kind == "bell" and self.run is not None and self.run.requests is not None:
                self.run.rung()
            elif kind == "file":
                argument(key.fd)

    def _tick(self):
        now = time.monotonic()
        if now - self._heard > self.lease:
            self._ending = True
        wake = min(self._heard + self.lease, self._files.tick(now))
        if self._sweep_due is not None and self.run is None and self.place is not None:
            if now >= self._sweep_due:
                self._sweep_due = None
                rundir.sweep(self.place, IDLE_SWEEP_SECONDS, None, process.end_orphans)
            else:
                wake = min(wake, self._sweep_due)
        if self.run is not None:
            wake = min(wake, self.run.tick(now))
            if self.run.phase == gp_run.DONE:
                self.run = None
        return wake

    def _flush(self):
        if self.outbox:
            self.outbox.flush()
        if bool(self.outbox) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._selector.register(1, selectors.EVENT_WRITE, ("flush", None))
            else:
                self._selector.unregister(1)

    def _gate_output(self):
        """Listens to the script's pipes only while their bytes have somewhere to go, and to its bell unless muted."""
        if self.run is None:
            return
        wanted = self.run.wants_output()
        for fd in self.run.pipes:
            self._gate(fd, wanted, ("output", None))
        bell = self.run.requests.bell if self.run.requests is not None else None
        if bell is not None:
            self._gate(bell, time.monotonic() >= self.run.requests.muted_until, ("bell", None))

    def _gate(self, fd, wanted, data):
        watched = fd in self._selector.get_map()
        if wanted and not watched:
            self._selector.register(fd, selectors.EVENT_READ, data)
        elif watched and not wanted:
            self._selector.unregister(fd)

    # --- who is listened to -----------------------------------------------------------------------------------------------

    def watch_output(self, fd):
        self._selector.register(fd, selectors.EVENT_READ, ("output", None))

    def watch_input(self, fd):
        self._selector.register(fd, selectors.EVENT_WRITE, ("input", None))

    def watch_bell(self, fd):
        self._selector.register(fd, selectors.EVENT_READ, ("bell", None))

    def watch_file(self, fd, callback):
        self._selector.register(fd, selectors.EVENT_READ, ("file", callback))

    def unwatch(self, fd):
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    # --- children ---------------------------------------------------------------------------------------------------------

    def _watch_signals(self):
        read, write = os.pipe()
        for fd in (read, write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_end)
        self._selector.register(read, selectors.EVENT_READ, ("signal", None))

    def _asked_to_end(self, *_):
        self._ending = True

    def _drain_signals(self, fd):
        try:
            os.read(fd, 4096)
        except OSError:
            pass
        self.reap()

    def reap(self):
        """Collects ended children and tells whom it concerns."""
        ended, self._children = process.reap()
        for pid, status in ended:
            if self.run is not None:
                self.run.child_ended(pid, status)
            self._files.child_ended(pid, status)

    def has_children(self):
        """Whether anything that the relay started, or inherited as reaper, is still there."""
        return self._children

    def kill_strays(self):
        """Kills what no script and no command owns any more: daemons that a command left."""
        self.reap()
        if self._children:
            process.kill_all(self.spared())

    def spared(self):
        """Processes that do not belong to the run: commands of the workspace."""
        return self._files.processes()

    # --- the host ---------------------------------------------------------------------------------------------------------

    def hello(self):
        """Says what was found here; without a usable directory the relay still serves files."""
        trouble = None
        try:
            self.place, self.fifo = rundir.choose(self.options.get("place"), os.environ)
        except rundir.NoPlace as error:
            trouble = str(error)
        if self.options.get("doorbell") == "poll":
            self.fifo = False
        facts = process.harden()
        self.umask = os.umask(0o077)
        gp_changes.use_umask(self.umask)
        facts.update({
            "version": VERSION, "python": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable,
            "platform": sys.platform, "pid": os.getpid(), "started": process.start_time(os.getpid()), "uid": os.geteuid(),
            "umask": self.umask, "place": self.place, "bell": "fifo" if self.fifo else "poll", "trouble": trouble,
            "free": shutil.disk_usage(self.place).free if self.place else 0, "home": os.environ.get("HOME"),
            "cwd": _cwd(),
        })
        self.outbox.urgent(frames.HELLO, json.dumps(facts).encode())

    def _from_host(self):
        try:
            data = os.read(0, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._ending = True
            return
        self._heard = time.monotonic()
        try:
            for kind, payload in self._reader.feed(data):
                self._dispatch(kind, payload)
        except (frames.FrameError, ValueError, KeyError, TypeError) as error:
            # The host is trusted but may be of another version; going on would mean guessing.
            self._fail("protocol", "%s: %s" % (type(error).__name__, error))
            self._ending = True

    def _dispatch(self, kind, payload):
        if kind == frames.PING:
            self.outbox.urgent(frames.PONG)
        elif kind == frames.ANSWER:
            if self.run is not None:
                self.run.answer(payload)
        elif kind == frames.CREDIT:
            if self.run is not None:
                self.run.credit += frames.SEQ.unpack(payload)[0]
        elif kind == frames.START:
            self._start(payload)
        elif kind == frames.KILL:
            if self.run is not None:
                self.run.end("killed")
        elif kind == frames.FILE:
            self._files.request(payload)
        elif kind == frames.CANCEL:
            self._files.cancel(frames.SEQ.unpack(payload)[0])
        elif kind == frames.SWEEP:
            self._sweep(json.loads(payload.decode()))
        else:
            raise ValueError("unknown frame %d" % kind)

    def _start(self, payload):
        length = frames.SEQ.unpack_from(payload)[0]
        config = json.loads(payload[4:4 + length].decode())
        if self.run is not None:
            self._fail("busy", "a run is under way")
        elif self.place is None:
            self._fail("setup", "no usable directory for the run")
        else:
            try:
                self.run = gp_run.Run(self, config, payload[4 + length:])
            except gp_run.Refused as error:
                self._fail("setup", str(error))

    def _fail(self, kind, message):
        self.outbox.bulk(frames.FAILED, json.dumps({"kind": kind, "message": message}).encode())

    def _sweep(self, wanted):
        """Removes leftovers: of one lost relay (`dir`, `pid`, `started`) at once, of dead ones by age."""
        report = {"removed": [], "left": []}
        if wanted.get("pid") and process.start_time(wanted["pid"]) == wanted.get("started", 0) != 0:
            try:
                os.kill(wanted["pid"], signal.SIGKILL)
            except OSError:
                pass
        places = rundir.candidates(self.options.get("place"), os.environ)
        for place in places:
            removed, left = rundir.sweep(place, SWEEP_SECONDS, wanted.get("dir"), process.end_orphans)
            report["removed"] += removed
            report["left"] += left
        self.outbox.bulk(frames.SWEPT, json.dumps(report).encode())

    # --- the end ----------------------------------------------------------------------------------------------------------

    def _finish(self):
        try:
            self.outbox.flush()
        except OSError:
            pass
        deadline = time.monotonic() + gp_run.KILL_SECONDS
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        process.wait_gone(deadline)
        if self.run is not None and self.run.phase != gp_run.DONE:
            rundir.exhaust(self.run.dir.remove(), time.monotonic() + gp_run.REMOVE_SECONDS)


def _cwd():
    try:
        return os.getcwd()
    except OSError:
        return None


def main(options, sources):
    """Entry: what the bundle calls. `sources` has the runner and the modules that scripts share."""
    Relay(options, sources).serve()
