"""The journal of changes to a workspace: a locked file in its root for as long as they last, and what is made of a dead one.

The form is that of the workspace on the host (`tools/src/host/journal.rs`), so each repairs what the other left. Whoever can write to
the workspace can forge a journal, a repository that was checked out there included: so the host judges every path before one is replayed.
"""

import errno
import fcntl
import json
import os
import posixpath
import stat

from gp_paths import Refused

PREFIX = ".gloveport-"
JOURNAL = PREFIX + "journal-"
# A journal of 10,000 steps is far below this; a longer one is not ours.
MAX_BYTES = 4 << 20
MAX_ENTRIES = 100000
MAX_DEAD = 16


class Journal:
    """The journal of changes under way. Where the root can't be written, there is none, and killed changes are not repaired."""

    def __init__(self, root):
        self._root = root.fd
        self._fd = None
        self._names = 0
        self.id = ""
        while self._fd is None:
            self.id = os.urandom(8).hex()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                fd = os.open(JOURNAL + self.id, flags, 0o600, dir_fd=self._root)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return
            # Somebody may have taken the file for a dead one before it was locked.
            if _lock(fd) and os.fstat(fd).st_nlink == 1:
                self._fd = fd
            else:
                os.close(fd)

    def name(self, kind):
        """A name for a file of these changes, unique in every directory."""
        self._names += 1
        return "%s%s.%d.%s" % (PREFIX, self.id, self._names, kind)

    def line(self, content):
        """Adds a line: {"stage": directory}, {"commit": steps}, "undo" or "done"."""
        if self._fd is not None:
            view = memoryview(json.dumps(content).encode() + b"\n")
            while view:
                view = view[os.write(self._fd, view):]

    def finish(self, keep=False):
        """Ends the changes. What could not be undone is kept for the next start."""
        if self._fd is None:
            return
        if not keep:
            _unlink(JOURNAL + self.id, self._root)
        os.close(self._fd)
        self._fd = None


def _lock(fd):
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        # A file system without locks: nobody could tell a dead journal from a living one there, and nobody replays any.
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN)


def forward(kind, step, directory, to_directory, keep):
    """Takes one step. `keep` says whether what was there stays as `old`."""
    if kind == "move":
        rename_new(step["name"], directory, step["to_name"], to_directory)
        return
    if kind == "take":
        os.rename(step["name"], step["old"], src_dir_fd=directory, dst_dir_fd=directory)
        return
    if keep and step["old"] is not None:
        os.link(step["name"], step["old"], src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    os.rename(step["new"], step["name"], src_dir_fd=directory, dst_dir_fd=directory)


def backward(kind, step, directory, to_directory):
    """Undoes one step that was taken."""
    if kind == "move":
        rename_new(step["to_name"], to_directory, step["name"], directory)
    elif step["old"] is not None:
        os.rename(step["old"], step["name"], src_dir_fd=directory, dst_dir_fd=directory)
    else:
        os.unlink(step["name"], dir_fd=directory)


def tidy(kind, step, directory):
    """Removes what only the changes needed."""
    for name in (step.get("new"), step.get("old")):
        if name is not None:
            _unlink(name, directory)


def rename_new(name, directory, to_name, to_directory):
    """There is no rename without replacing in the standard library; the window is as small as it gets."""
    if _exists(to_name, to_directory):
        raise FileExistsError(errno.EEXIST, "it exists already")
    os.rename(name, to_name, src_dir_fd=directory, dst_dir_fd=to_directory)


def _exists(name, directory):
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
        return True
    except FileNotFoundError:
        return False


def _unlink(name, directory):
    try:
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass


# --- dead journals -------------------------------------------------------------------------------------------------------------


def dead(root):
    """Journals whose owner is gone, each with the paths that its steps would change: for the host to judge."""
    found = []
    for name in _names(root.fd, JOURNAL):
        if len(found) < MAX_DEAD:
            with _Dead(root, name) as journal:
                if journal is not None:
                    found.append([name, journal.real()])
    return found


def recover(root, judged):
    """Replays dead journals whose paths the host has judged. Returns how many."""
    count = 0
    for name, real in judged:
        with _Dead(root, name) as journal:
            if journal is not None and journal.real() == real:
                journal.replay()
                _unlink(name, root.fd)
                count += 1
    return count


def _names(directory, prefix):
    # A handle on a path alone can't be listed.
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        with os.scandir(fd) as entries:
            return [entry.name for _, entry in zip(range(MAX_ENTRIES), entries) if entry.name.startswith(prefix)]
    finally:
        os.close(fd)


class _Dead:
    """A dead journal, locked while it is looked at. Entering gives None for what is none."""

    def __init__(self, root, name):
        self._root = root
        self._name = name
        self._fd = None
        self._lines = []

    def __enter__(self):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        if "/" in self._name or not self._name.startswith(JOURNAL):
            return None
        try:
            self._fd = os.open(self._name, flags, dir_fd=self._root.fd)
            info = os.fstat(self._fd)
            if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_size > MAX_BYTES:
                return None
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = b""
            while len(text) <= MAX_BYTES:
                block = os.read(self._fd, MAX_BYTES)
                if not block:
                    break
                text += block
        except OSError:
            return None
        # A last line that is cut counts as not written.
        for line in text.split(b"\n")[:-1]:
            try:
                self._lines.append(json.loads(line.decode()))
            except ValueError:
                pass
        return self

    def __exit__(self, *_):
        if self._fd is not None:
            os.close(self._fd)

    def real(self):
        """The paths of each step, free of links."""
        return [[path for _, path in self._targets(kind, step)] for kind, step in self._steps()]

    def replay(self):
        """Finishes changes that had begun their steps, and undoes those that had begun to be undone."""
        steps = [(kind, step, [fd for fd, _ in self._targets(kind, step)]) for kind, step in self._steps()]
        if "undo" in self._lines:
            for kind, step, fds in reversed(steps):
                _attempt(_undo_taken, kind, step, fds)
        elif "done" not in self._lines:
            for kind, step, fds in steps:
                _attempt(_redo_missing, kind, step, fds)
        for kind, step, fds in steps:
            tidy(kind, step, fds[0])
        staged = PREFIX + self._name[len(JOURNAL):] + "."
        for directory in sorted({line["stage"] for line in self._lines if isinstance(line, dict) and isinstance(line.get("stage"), str)}):
            _attempt(self._sweep, directory, staged)

    def _sweep(self, directory, staged):
        fd, _ = self._directory(directory)
        for name in _names(fd, staged):
            _unlink(name, fd)

    def _steps(self):
        """The steps that are of the agreed form and lead to directories that are there."""
        planned = [line["commit"] for line in self._lines if isinstance(line, dict) and isinstance(line.get("commit"), list)]
        for item in planned[-1] if planned else []:
            if isinstance(item, dict) and len(item) == 1:
                kind, step = next(iter(item.items()))
                if self._sound(kind, step):
                    yield kind, step

    def _sound(self, kind, step):
        fields = {
            "put": ("dir", "name", "new", "old"), "take": ("dir", "name", "old"), "move": ("dir", "name", "to_dir", "to_name"),
        }.get(kind)
        if fields is None or not isinstance(step, dict) or set(step) != set(fields):
            return False
        own = PREFIX + self._name[len(JOURNAL):] + "."
        for field in fields:
            value = step[field]
            if value is None and (kind, field) == ("put", "old"):
                continue
            if not isinstance(value, str) or "\0" in value:
                return False
            if field in ("new", "old") and not (value.startswith(own) and "/" not in value):
                return False
            if field in ("name", "to_name") and ("/" in value or value in ("", ".", "..")):
                return False
        try:
            self._targets(kind, step)
        except (Refused, OSError):
            return False
        return True

    def _targets(self, kind, step):
        """Directory handle and whole path of what a step changes: one or two."""
        ends = [(step["dir"], step["name"])]
        if kind == "move":
            ends.append((step["to_dir"], step["to_name"]))
        found = []
        for directory, name in ends:
            fd, path = self._directory(directory)
            found.append((fd, posixpath.join(path, name)))
        return found

    def _directory(self, relative):
        if not relative:
            return self._root.fd, self._root.spellings[-1]
        return self._root.directory(relative)


def _attempt(function, *arguments):
    try:
        function(*arguments)
    except (OSError, Refused):
        pass


def _redo_missing(kind, step, fds):
    if kind == "put":
        pending = _exists(step["new"], fds[0])
    else:
        pending = kind == "move" or not _exists(step["old"], fds[0])
    if pending:
        # What was there need not be kept: nothing is undone from here on.
        forward(kind, step, fds[0], fds[-1], False)


def _undo_taken(kind, step, fds):
    if kind == "put":
        taken = not _exists(step["new"], fds[0])
    elif kind == "take":
        taken = _exists(step["old"], fds[0])
    else:
        taken = not _exists(step["name"], fds[0])
    if taken:
        backward(kind, step, fds[0], fds[-1])
