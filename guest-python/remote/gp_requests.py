"""The relay's half of the file protocol: requests are picked up, answers are put down.

Request ``req_NNNNNN`` and answer ``res_NNNNNN`` are written under a temporary name and published by rename. Nothing inside a file is ever
used as a name. The relay judges files (kind, owner, links, size); what is in them is judged by the host, which alone
knows what was asked before. A request that can't be read is passed on as a fault, so that it is answered and not ignored.
"""

import errno
import os
import re
import stat
import time

REQUEST = re.compile(r"req_([0-9]{6,9})\Z")
# What scripts and this module may leave in the directory besides requests.
KNOWN = re.compile(r"(?:res_[0-9]{6,9}|tmp_[0-9]{6,9}|ans_[0-9a-f]{16}|spare_[0-9]|bell|seq|ring_[0-9]{1,6})\Z")
MAX_SCAN = 256
MAX_RINGS = 64
# An answer that says "disk full" is itself written into space taken at the start.
SPARES = 4
SPARE_SIZE = 4096

# Faults of a request file; the texts reach the script.
UNREADABLE = {
    errno.ELOOP: "request is a symbolic link",
    errno.EACCES: "request is not readable",
    errno.EPERM: "request is not readable",
    errno.EISDIR: "request is not a regular file",
    errno.ENXIO: "request is not a regular file",
}


class Protocol(Exception):
    """The script made the protocol impossible."""


class Requests:
    """The rpc directory of one run."""

    def __init__(self, path, fifo, max_request):
        self.path = path
        self.max_request = max_request
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._dir = os.open(path, flags)
        # Open for reading and writing: the bell never reads as ended, whoever rings or leaves.
        self.bell = os.open("bell", os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._dir) if fifo else None
        self._rings = {}
        self._spares = SPARES
        self._empty_wakes = 0
        self._quiet = 0
        self.muted_until = 0.0
        self.next_scan = 0.0
        for index in range(SPARES):
            self._create("spare_%d" % index, [b"\0" * SPARE_SIZE])
        self.schedule()

    def close(self):
        """Gives back every descriptor."""
        for fd in [self._dir, self.bell] + list(self._rings.values()):
            if fd is not None:
                os.close(fd)
        self._rings = {}
        self.bell = None

    def rung(self):
        """Empties the bell; a ring is only a hint."""
        try:
            os.read(self.bell, 65536)
        except OSError:
            pass

    def schedule(self):
        """Plans the scan that comes without a ring: soon where nothing else tells, rarely where a bell does."""
        first, last = (0.25, 1.0) if self.bell is not None else (0.002, 0.05)
        self.next_scan = time.monotonic() + min(last, first * (1 + self._quiet))

    def scan(self, rung):
        """All requests that are there: a list of (seq, fault or None, content). At most MAX_SCAN entries are looked at."""
        found = []
        try:
            with os.scandir(self._dir) as entries:
                for _, entry in zip(range(MAX_SCAN), entries):
                    match = REQUEST.match(entry.name)
                    if match:
                        found.append((int(match.group(1)), entry.name))
                    elif not KNOWN.match(entry.name):
                        self._discard(entry.name)
        except OSError as error:
            raise Protocol("the request directory can't be listed: %s" % os.strerror(error.errno)) from None
        found.sort()
        requests = [request for request in (self._take(seq, name) for seq, name in found) if request]
        self._pace(bool(requests), rung)
        return requests

    def _pace(self, busy, rung):
        self._quiet = 0 if busy else min(self._quiet + 1, 64)
        self._empty_wakes = self._empty_wakes + 1 if rung and not busy else 0
        if self._empty_wakes > 8:
            # Somebody rings without asking: listen less, up to 20 times a second.
            self.muted_until = time.monotonic() + min(0.05, 0.001 * self._empty_wakes)
        self.schedule()

    def _take(self, seq, name):
        """One request, or None when it has vanished meanwhile."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name, flags, dir_fd=self._dir)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._discard(name)
            return seq, UNREADABLE.get(error.errno, "request can't be opened"), b""
        try:
            fault, content = self._read(fd)
        except OSError:
            fault, content = "request can't be read", b""
        finally:
            os.close(fd)
        self._discard(name)
        return seq, fault, content

    def _read(self, fd):
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return "request is not a regular file", b""
        if info.st_uid != os.geteuid() or info.st_nlink != 1:
            return "request has another owner or more than one name", b""
        if info.st_size > self.max_request:
            return "request is larger than %d bytes" % self.max_request, b""
        parts, left = [], info.st_size
        while left:
            part = os.read(fd, left)
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return None, b"".join(parts)

    def _discard(self, name):
        try:
            os.unlink(name, dir_fd=self._dir)
        except IsADirectoryError:
            self._discard_directory(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            # unlink of a directory is EPERM on macOS.
            if error.errno != errno.EPERM or not self._discard_directory(name):
                raise Protocol("a request can't be removed") from None

    def _discard_directory(self, name):
        # Moved out of the way rather than emptied; it goes with the run.
        try:
            os.rename(name, os.path.join("..", "junk_" + os.urandom(8).hex()), src_dir_fd=self._dir, dst_dir_fd=self._dir)
            return True
        except OSError:
            raise Protocol("a request can't be removed") from None

    def answer(self, seq, content):
        """Publishes an answer. Raises OSError when it can't be written, Protocol when the script stands in the way."""
        name = "res_%06d" % seq
        temporary = "ans_" + os.urandom(8).hex()
        try:
            self._create(temporary, [content])
        except OSError:
            self._discard(temporary)
            if len(content) > SPARE_SIZE or not self._spares:
                raise
            temporary = self._use_spare(content)
        self._publish(temporary, name)

    def _use_spare(self, content):
        self._spares -= 1
        name = "spare_%d" % self._spares
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._dir)
        try:
            os.pwrite(fd, content, 0)
            os.ftruncate(fd, len(content))
        finally:
            os.close(fd)
        return name

    def _publish(self, temporary, name):
        for attempt in range(2):
            try:
                os.rename(temporary, name, src_dir_fd=self._dir, dst_dir_fd=self._dir)
                return
            except OSError as error:
                # The script made a directory of this name; links and FIFOs are simply replaced.
                if attempt or error.errno not in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise Protocol("an answer can't be published: %s" % os.strerror(error.errno)) from None
                self._discard_directory(name)

    def _create(self, name, parts):
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._dir)
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[os.write(fd, view):]
        finally:
            os.close(fd)

    def ring(self, number):
        """Wakes the process that waits at `ring_N`; a ring that can't be rung is found by its owner's own slow look."""
        try:
            fd = self._rings.get(number)
            if fd is None:
                fd = self._open_ring(number)
            os.write(fd, b"x")
        except OSError:
            # A full pipe is as good as a ring; a dead one will be opened anew.
            stale = self._rings.pop(number, None)
            if stale is not None:
                os.close(stale)

    def _open_ring(self, number):
        fd = os.open("ring_%d" % number, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._dir)
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a FIFO")
        if len(self._rings) >= MAX_RINGS:
            os.close(self._rings.pop(next(iter(self._rings))))
        self._rings[number] = fd
        return fd
