"""Commands of the workspace: run beside scripts, their output kept at both ends, killed with everything they started."""

import collections
import os
import subprocess
import time

import gp_process as process
from gp_paths import Refused

# What a command's own end may lag behind its last output.
DRAIN_SECONDS = 0.5
KILL_SECONDS = 2.0


class Command:
    """One command under way."""

    def __init__(self, files, root, number, wanted):
        self._files = files
        self._number = number
        self._head_limit, self._tail_limit = wanted["keep"]
        self._head = bytearray()
        self._tail = collections.deque()
        self._tail_size = 0
        self._total = 0
        self._status = None
        self._timed_out = False
        self._silent = False
        self._ending = None
        place = root.place(wanted["workdir"] or ".")
        if place.info is None:
            raise Refused("not_found")
        self._proc = self._start(place, wanted)
        self._deadline = time.monotonic() + wanted["timeout"]
        self._out = self._proc.stdout.fileno()
        os.set_blocking(self._out, False)
        process.widen(self._out)
        files.watch(self._out, self._read)

    def _start(self, place, wanted):
        directory = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
        try:
            return process.start(
                ["/bin/sh", "-c", wanted["command"]], process.environment(wanted["env"], True), None, None,
                umask=self._files.umask, directory=directory, merge=True,
            )
        except (ValueError, subprocess.SubprocessError) as error:
            raise Refused("io", str(error)) from None
        finally:
            os.close(directory)

    def processes(self):
        """Its processes, for those who kill others."""
        return [self._proc.pid] + process.descendants(self._proc.pid)

    def child_ended(self, pid, status):
        if pid == self._proc.pid and self._status is None:
            self._status = status
            self._proc.returncode = status
            process.kill_group(pid)
            self._ending = time.monotonic() + DRAIN_SECONDS

    def end(self, cancelled=False):
        """Kills the command with everything below it."""
        self._silent = self._silent or cancelled
        below = process.descendants(self._proc.pid)
        # The shell first: it would have a word to say about its children's deaths.
        process.kill_one(self._proc.pid)
        process.kill_group(self._proc.pid)
        for pid in below:
            process.kill_one(pid)
        if self._ending is None:
            self._ending = time.monotonic() + KILL_SECONDS

    def tick(self, now):
        """Moves on. Returns when to be called again."""
        if self._ending is None and now >= self._deadline:
            self._timed_out = True
            self.end()
        if self._ending is not None and self._out is None and self._status is not None:
            self._finish()
        elif self._ending is not None and now >= self._ending:
            self._finish()
        return self._deadline if self._ending is None else now + 0.02

    def _read(self, fd):
        try:
            data = os.read(fd, 1 << 20)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._keep(data)
            return
        self._files.unwatch(fd)
        self._proc.stdout.close()
        self._out = None

    def _keep(self, data):
        self._total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._tail_size -= len(self._tail.popleft())

    def _finish(self):
        if self._out is not None:
            self._read(self._out)
        if self._out is not None:
            self._files.unwatch(self._out)
            self._proc.stdout.close()
        tail = b"".join(self._tail)
        tail = tail[max(0, len(tail) - self._tail_limit):] if self._tail_limit else b""
        answer = {"total": self._total, "head": len(self._head), "exit_code": self._exit_code()}
        self._files.finished(self._number)
        if not self._silent:
            self._files.answer(self._number, answer, bytes(self._head) + tail)

    def _exit_code(self):
        if self._timed_out or self._status is None:
            return None
        if os.WIFSIGNALED(self._status):
            return 128 + os.WTERMSIG(self._status)
        return os.WEXITSTATUS(self._status)
