"""The private directory of a run: where it may be, how it is made, how it goes away.

One ``mkdir``, mode 0700, a random name, never an existing directory; checked afterwards. A lock held by the relay tells a live
directory from a leftover. Removal never follows a link and has a budget of time, since a script can leave anything behind.
"""

import errno
import fcntl
import hashlib
import os
import stat
import time

PREFIX = "gloveport-"
LOCK = "lock"
# A directory is younger than this while its maker may not hold the lock yet.
MIN_LEFTOVER_AGE = 30.0
# Entries that one sweep looks at.
MAX_SWEEP = 256


class NoPlace(Exception):
    """No directory of the list can hold a run; the text names each with its reason."""


def candidates(configured, environ):
    """Directories that may hold runs, best first: memory-backed and per-user, then what everybody has."""
    places = [configured] if configured else [
        environ.get("XDG_RUNTIME_DIR"),
        "/dev/shm",
        environ.get("TMPDIR"),
        "/tmp",
        "/var/tmp",
        environ.get("HOME") and os.path.join(environ["HOME"], ".gloveport"),
    ]
    kept = []
    for place in places:
        # A relative TMPDIR would move with the working directory.
        if place and os.path.isabs(place) and place not in kept:
            kept.append(place)
    return kept


def choose(configured, environ):
    """The first candidate where a run works: (path, whether FIFOs work there). Raises NoPlace."""
    tried = []
    second_best = None
    for place in candidates(configured, environ):
        try:
            fifo = _prove(place)
        except OSError as error:
            tried.append("%s (%s)" % (place, error.strerror or error))
            continue
        if fifo:
            return place, True
        second_best = second_best or place
    if second_best:
        return second_best, False
    raise NoPlace("no usable directory for the run; tried: " + ", ".join(tried or ["none"]))


def _prove(place):
    if os.path.basename(place) == ".gloveport" and not os.path.lexists(place):
        os.mkdir(place, 0o700)
    # The place itself may be a link (/tmp on macOS); what counts is who may rename things inside.
    info = os.stat(place)
    if not stat.S_ISDIR(info.st_mode):
        raise OSError(errno.ENOTDIR, "not a directory")
    open_to_others = info.st_mode & 0o022 and not info.st_mode & stat.S_ISVTX
    if info.st_uid not in (0, os.geteuid()) or open_to_others:
        raise OSError(errno.EPERM, "others can change it")
    probe = os.path.join(place, ".%sprobe-%s" % (PREFIX, os.urandom(16).hex()))
    os.mkdir(probe, 0o700)
    try:
        with open(os.path.join(probe, "a"), "xb") as file:
            file.write(b"x" * 4096)
        os.rename(os.path.join(probe, "a"), os.path.join(probe, "b"))
        os.unlink(os.path.join(probe, "b"))
        return _fifo_works(os.path.join(probe, "f"))
    finally:
        for _ in remove_tree(probe):
            pass


def _fifo_works(path):
    try:
        os.mkfifo(path, 0o600)
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return False
    try:
        os.write(fd, b"x")
        return os.read(fd, 1) == b"x"
    except OSError:
        return False
    finally:
        os.close(fd)


class RunDir:
    """A made and locked run directory."""

    def __init__(self, place, fifo):
        self.path = os.path.join(os.path.realpath(place), PREFIX + os.urandom(16).hex())
        os.mkdir(self.path, 0o700)
        self._lock = None
        try:
            self._check()
            self._lock = os.open(self._name(LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for name in ("rpc", "work"):
                os.mkdir(self._name(name), 0o700)
            if fifo:
                os.mkfifo(os.path.join(self.rpc, "bell"), 0o600)
        except BaseException:
            for _ in self.remove():
                pass
            raise

    @property
    def rpc(self):
        """Where requests and answers go."""
        return self._name("rpc")

    @property
    def work(self):
        """A private, empty working directory."""
        return self._name("work")

    def ship(self, name, content, digest):
        """Writes a file, read-only, and reads it back: nothing half-shipped is ever run. Returns its path."""
        path = self._name(name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o400)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view):]
            os.lseek(fd, 0, os.SEEK_SET)
            check = hashlib.sha256()
            size = 0
            while True:
                block = os.read(fd, 1 << 18)
                if not block:
                    break
                size += len(block)
                check.update(block)
        finally:
            os.close(fd)
        if size != len(content) or check.hexdigest() != digest:
            raise OSError(errno.EIO, "%s arrived damaged" % name)
        return path

    def note(self, text):
        """Leaves words in the lock file for whoever sweeps: process ids and start times."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text.encode(), 0)

    def remove(self):
        """Steps that remove the directory; a generator, so that the relay stays responsive. Returns True when all is gone."""
        gone = yield from remove_tree(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        return gone

    def _name(self, name):
        return os.path.join(self.path, name)

    def _check(self):
        info = os.lstat(self.path)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
            raise OSError(errno.EPERM, "the new run directory is not ours alone")


def remove_tree(path):
    """Removes a directory in small steps, yielding between them; returns whether it is gone.

    A deep tree is flattened: each directory found is renamed to the top, so that neither the path length nor recursion nor the
    number of descriptors grows with its depth.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return not os.path.lexists(path)
    try:
        os.fchmod(top, 0o700)
        # Stop when a whole pass removed nothing: what is left can't be removed by us.
        while (yield from _clear_pass(top)):
            pass
    except OSError:
        pass
    finally:
        os.close(top)
    try:
        os.rmdir(path)
    except OSError:
        return not os.path.lexists(path)
    return True


def _clear_pass(top):
    """Clears what is directly in `top`; returns whether another pass can do more."""
    progress, left = False, False
    for name, is_dir in _entries(top):
        yield
        try:
            if not is_dir:
                os.unlink(name, dir_fd=top)
            else:
                left = (yield from _flatten(top, name)) or left
            progress = True
        except OSError:
            left = True
    return progress and left


def _flatten(top, name):
    """Empties one directory into `top` and removes it; returns whether anything was moved up."""
    moved = False
    os.chmod(name, 0o700, dir_fd=top)
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        for inner, is_dir in _entries(fd):
            yield
            if is_dir:
                os.chmod(inner, 0o700, dir_fd=fd)
                os.rename(inner, os.urandom(16).hex(), src_dir_fd=fd, dst_dir_fd=top)
                moved = True
            else:
                os.unlink(inner, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=top)
    return moved


def _entries(fd):
    """Entries of a directory while it changes: read in batches, so that memory stays bounded."""
    with os.scandir(fd) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(follow_symlinks=False)


def sweep(place, seconds, now_dead=None, end_orphans=None):
    """Removes what dead relays left in a place; returns (removed, left) as lists of paths. Safe to run twice at once.

    `now_dead` is a directory whose relay is known to be dead, so that its age doesn't matter. `end_orphans(processes, path)` is called
    before a directory goes.
    """
    removed, left = [], []
    end = time.monotonic() + seconds
    try:
        now = _clock_of(place)
        names = [n for n in os.listdir(place) if n.startswith(PREFIX)][:MAX_SWEEP]
    except OSError:
        return removed, left
    for name in names:
        path = os.path.join(os.path.realpath(place), name)
        if time.monotonic() > end:
            break
        lock = _take_leftover(path, now, 0.0 if path == now_dead else MIN_LEFTOVER_AGE)
        if lock is None:
            continue
        try:
            if end_orphans is not None:
                end_orphans(_noted(lock), path)
            gone = exhaust(remove_tree(path), end)
        finally:
            os.close(lock)
        (removed if gone else left).append(path)
    return removed, left


def _noted(lock):
    """The process ids and start times that a relay noted in its lock file."""
    processes = []
    try:
        for line in os.pread(lock, 256, 0).split(b"\n"):
            pid, _, ticks = line.partition(b" ")
            if pid.isdigit() and ticks.isdigit():
                processes.append((int(pid), int(ticks)))
    except OSError:
        pass
    return processes


def exhaust(steps, end):
    """Runs a removal until it is done or its time is over; returns whether all is gone."""
    while time.monotonic() < end:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
    steps.close()
    return False


def _clock_of(place):
    """The time by the clock of the place's file system, which is not always ours."""
    probe = os.path.join(place, ".%sprobe-%s" % (PREFIX, os.urandom(16).hex()))
    fd = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)
        os.unlink(probe)


def _take_leftover(path, now, min_age):
    """The lock of a directory that is ours, old enough and held by nobody; else None."""
    try:
        info = os.lstat(path)
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or now - info.st_mtime < min_age:
            return None
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.open(os.path.join(path, LOCK), flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except OSError:
        os.close(lock)
        return None
