"""One run: from a START frame to an EXIT frame.

A run goes through phases: running, killing (until nothing that it started is left), draining (what was printed reaches the host),
removing (its directory). Each phase has a bound in time; what could not be done is in the EXIT frame.
"""

import fcntl
import json
import marshal
import os
import sys
import time

import gp_frames as frames
import gp_process as process
import gp_requests as requests
import gp_rundir as rundir

RUNNING, KILLING, DRAINING, REMOVING, DONE = "running", "killing", "draining", "removing", "done"
KILL_SECONDS, DRAIN_SECONDS, REMOVE_SECONDS = 2.0, 2.0, 10.0
READ_SIZE = 1 << 20
# Output on its way to the host that the relay holds itself.
MAX_QUEUED = 1 << 21
# Answers that wait for room on a full disk.
MAX_LATE = 1024
# What the interpreter of the script is told on its command line: nothing about the run.
BOOT = (
    "import sys,marshal;a=marshal.load(sys.stdin.buffer);g={'__name__':'_gp_runner'};"
    "exec(a['runner'],g);sys.exit(g['run'](a['config'],a['codes']))"
)


class Refused(Exception):
    """The run can't start; the text says why."""


class Run:
    """The script of one START frame."""

    def __init__(self, relay, config, script):
        self.relay = relay
        self.outbox = relay.outbox
        self.phase = RUNNING
        self.cause = "ended"
        self.detail = ""
        self.status = None
        self.credit = config["credit"]
        self.pipes = {}
        self._tail = []
        self._late = []
        self._status_fd = None
        self._left = []
        self._survivors = 0
        self._phase_end = 0.0
        self._steps = None
        self._proc = None
        self._oom_before = process.oom_kills()
        self._since = time.monotonic()
        self._deadline = self._since + config["timeout"]
        self.requests = None
        try:
            self.dir = rundir.RunDir(relay.place, relay.fifo)
        except OSError as error:
            raise Refused("can't make a run directory in %s: %s" % (relay.place, os.strerror(error.errno))) from None
        try:
            self._start(config, script)
        except BaseException as error:
            self._abandon()
            if isinstance(error, OSError):
                raise Refused("the script can't be started: %s" % error) from None
            raise

    # --- start ------------------------------------------------------------------------------------------------------------

    def _start(self, config, script):
        path = self.dir.ship("script.py", script, config["sha256"])
        self.requests = requests.Requests(self.dir.rpc, self.relay.fifo, config["max_request"] + 512)
        cwd = config["cwd"] or self.dir.work
        if not os.path.isdir(cwd):
            raise Refused("the working directory %s does not exist" % cwd)
        env = process.environment(config["env"], config["inherit_env"])
        env["HERMES_RPC_DIR"] = self.dir.rpc
        status_read, status_write = os.pipe()
        self._status_fd = status_read
        try:
            payload = self._payload(config, path, cwd, status_write)
            self._proc = process.start(
                [sys.executable or "python3", "-I", "-S", "-X", "utf8", "-u", "-c", BOOT],
                env, cwd, payload, (status_write,), config["rlimits"], self.relay.umask,
            )
        finally:
            os.close(status_write)
        self._adopt_pipes(payload)
        pid = self._proc.pid
        self.dir.note("%d %d\n%d %d\n" % (os.getpid(), process.start_time(os.getpid()), pid, process.start_time(pid)))
        self.outbox.urgent(frames.STARTED, json.dumps({
            "dir": self.dir.path, "pid": pid, "bell": "fifo" if self.relay.fifo else "poll",
        }).encode())

    def _payload(self, config, script, cwd, status_fd):
        settings = {
            "script": script, "filename": config["filename"], "argv": config["argv"], "cwd": cwd,
            "path": [cwd] + config["path"], "module": config["module"], "tools": config["tools"],
            "key": config["key"], "run_id": config["run_id"], "rpc": self.dir.rpc, "fifo": self.relay.fifo,
            "max_request": config["max_request"], "outstanding": config["outstanding"], "status_fd": status_fd,
        }
        return marshal.dumps({"runner": self.relay.runner, "codes": self.relay.codes, "config": settings})

    def _adopt_pipes(self, payload):
        self.pipes = {self._proc.stdout.fileno(): (1, self._proc.stdout), self._proc.stderr.fileno(): (2, self._proc.stderr)}
        for fd in self.pipes:
            process.widen(fd)
            os.set_blocking(fd, False)
            self.relay.watch_output(fd)
        fd = self._proc.stdin.fileno()
        process.widen(fd)
        os.set_blocking(fd, False)
        self._tail = [memoryview(payload)]
        self.relay.watch_input(fd)
        if self.requests.bell is not None:
            self.relay.watch_bell(self.requests.bell)

    def feed(self):
        """Sends the interpreter what its start needs; then its standard input ends."""
        fd = self._proc.stdin.fileno()
        try:
            self._tail[0] = self._tail[0][os.write(fd, self._tail[0]):]
        except BlockingIOError:
            return
        except OSError:
            self._tail = []
        if not self._tail or not self._tail[0]:
            self.relay.unwatch(fd)
            self._proc.stdin.close()

    def _abandon(self):
        if self._proc is not None:
            process.kill_group(self._proc.pid)
            process.wait_gone(time.monotonic() + KILL_SECONDS, self.relay.spared())
        self._close_files()
        for _ in self.dir.remove():
            pass

    # --- events -----------------------------------------------------------------------------------------------------------

    def wants_output(self):
        """Whether the script's pipes are read now: not when the host or the way to it is behind."""
        return self.credit > 0 and self.outbox.bulk_bytes < MAX_QUEUED

    def read_output(self, fd):
        """Passes on what the script wrote. True if there may be more."""
        if fd not in self.pipes:
            return False
        stream = self.pipes[fd][0]
        try:
            data = os.read(fd, min(READ_SIZE, max(self.credit, 1)))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if data:
            self.credit -= len(data)
            self.outbox.bulk(frames.OUTPUT, b"%c" % stream, data)
            if self.phase == DRAINING:
                self._phase_end = time.monotonic() + DRAIN_SECONDS
        else:
            self._close_pipe(fd)
        return bool(data) and self.wants_output()

    def _close_pipe(self, fd):
        self.relay.unwatch(fd)
        self.pipes.pop(fd)[1].close()

    def rung(self):
        """The bell was rung: look for requests at once."""
        self.requests.rung()
        if self.phase == RUNNING:
            self.scan(True)

    def scan(self, rung):
        """Passes on every request that is there."""
        late, self._late = self._late[:MAX_LATE], []
        for payload in late:
            self.answer(payload)
        if self.requests is None:
            return
        try:
            for seq, fault, content in self.requests.scan(rung):
                body = content if fault is None else fault.encode()
                self.outbox.urgent(frames.CALL, frames.SEQ.pack(seq), b"\1" if fault else b"\0", body)
        except requests.Protocol as error:
            self.end("protocol", str(error))

    def answer(self, payload):
        """Puts an answer down and rings who waits for it."""
        if self.phase != RUNNING:
            return
        seq = frames.SEQ.unpack_from(payload)[0]
        ring = frames.SEQ.unpack_from(payload, 4)[0]
        try:
            self.requests.answer(seq, memoryview(payload)[8:])
            self.requests.ring(ring)
        except requests.Protocol as error:
            self.end("protocol", str(error))
        except OSError as error:
            if len(payload) - 8 <= requests.SPARE_SIZE:
                # Small ones say that a large one failed; they wait for room.
                self._late.append(payload)
            else:
                self.outbox.urgent(frames.UNSENT, frames.SEQ.pack(seq), frames.SEQ.pack(error.errno or 0))

    def child_ended(self, pid, status):
        """A child was reaped: perhaps the script."""
        if self._proc is not None and pid == self._proc.pid:
            self.status = status
            # Keeps Popen from asking the kernel for a status that is gone.
            self._proc.returncode = status
            if self.phase == RUNNING:
                self._enter(KILLING, KILL_SECONDS)

    def end(self, cause, detail=""):
        """Ends the run from outside: its deadline, the host's wish, a broken protocol."""
        if self.phase == RUNNING:
            self.cause, self.detail = cause, detail
            process.kill_group(self._proc.pid)
            self._enter(KILLING, KILL_SECONDS)

    def tick(self, now):
        """Moves on through the phases. Returns when to be called again."""
        if self.phase == RUNNING:
            if now >= self._deadline:
                self.end("deadline")
            elif now >= self.requests.next_scan:
                self.scan(False)
            if self.phase == RUNNING:
                muted = self.requests.muted_until
                return min(self._deadline, self.requests.next_scan, muted if muted > now else self._deadline)
        if self.phase == KILLING:
            self._kill(now)
        if self.phase == DRAINING and (not self.pipes or now >= self._phase_end):
            self._remove()
        if self.phase == REMOVING:
            self._remove_some(now)
        return now + (0.005 if self.phase in (KILLING, REMOVING) else 0.05)

    # --- phases -----------------------------------------------------------------------------------------------------------

    def _enter(self, phase, seconds):
        self.phase = phase
        self._phase_end = time.monotonic() + seconds

    def _kill(self, now):
        process.kill_group(self._proc.pid)
        self.relay.reap()
        if self.relay.has_children():
            spared = self.relay.spared()
            self._survivors = process.kill_all(spared)
            if now < self._phase_end and (self._survivors or self.status is None):
                return
        else:
            self._survivors = 0
        self._enter(DRAINING, DRAIN_SECONDS)
        for fd in list(self.pipes):
            while self.read_output(fd):
                pass

    def _remove(self):
        for fd in list(self.pipes):
            self._close_pipe(fd)
        self._close_files()
        self._enter(REMOVING, REMOVE_SECONDS)
        self._steps = self.dir.remove()

    def _remove_some(self, now):
        # Short turns, so that the host hears from the relay meanwhile.
        end = min(now + 0.02, self._phase_end)
        gone = False
        try:
            while time.monotonic() < end:
                next(self._steps)
            if end < self._phase_end:
                return
        except StopIteration as done:
            gone = done.value
        if not gone:
            self._left.append(self.dir.path)
        self.phase = DONE
        self.outbox.bulk(frames.EXIT, json.dumps(self._report()).encode())

    def _close_files(self):
        if self.requests is not None:
            if self.requests.bell is not None:
                self.relay.unwatch(self.requests.bell)
            self.requests.close()
            self.requests = None
        if self._proc is not None:
            for pipe in (self._proc.stdin, self._proc.stdout, self._proc.stderr):
                if pipe is not None and not pipe.closed:
                    self.relay.unwatch(pipe.fileno())
                    pipe.close()

    def _report(self):
        code = number = None
        if self.status is not None and os.WIFEXITED(self.status):
            code = self._whole_code(os.WEXITSTATUS(self.status))
        elif self.status is not None and os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
        after = process.oom_kills()
        killed = after is not None and self._oom_before is not None and after > self._oom_before
        return {
            "cause": self.cause, "detail": self.detail, "code": code, "signal": number, "oom": killed,
            "left": self._left, "survivors": self._survivors,
        }

    def _whole_code(self, code):
        """The script's exit code with all its bits, where the runner told it and the kernel's eight agree."""
        try:
            fcntl.fcntl(self._status_fd, fcntl.F_SETFL, os.O_NONBLOCK)
            told = os.read(self._status_fd, 64).split(b"\n")[0]
            number = int(told)
        except (OSError, ValueError):
            return code
        finally:
            os.close(self._status_fd)
            self._status_fd = None
        return number if number & 0xFF == code and -(1 << 31) <= number < 1 << 31 else code


