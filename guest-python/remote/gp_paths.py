"""Paths of a workspace: resolved step by step beneath a directory handle, never compared as text and then opened.

Links that stay inside are followed, absolute ones included; whatever leads outside gives one answer, whether or not it exists.
The texts of refusals are those of the workspace on the host (`tools/src/host`).
"""

import errno
import os
import posixpath
import stat

MAX_LINKS = 40
DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
)


class Refused(Exception):
    """An operation that is not done. `family` is outside, not_found, denied, kind or io."""

    def __init__(self, family, message=""):
        super().__init__(message)
        self.family = family
        self.message = message


def outside():
    return Refused("outside")


def refusal(error):
    """An OSError in the words of the host's workspace."""
    code = error.errno
    if code == errno.ENOENT:
        return Refused("not_found")
    denied = {errno.EACCES: "permission denied", errno.EPERM: "permission denied", errno.EROFS: "the file system is read-only"}
    kind = {
        errno.ENOTDIR: "a part of the path is not a directory", errno.EISDIR: "it is a directory, not a regular file",
        errno.ENOTEMPTY: "the directory is not empty", errno.EEXIST: "it exists already",
        errno.ENXIO: "it is a special file, not a regular file",
    }
    io = {
        errno.ENOSPC: "no space left on the device", errno.EDQUOT: "disk quota exceeded",
        errno.ENAMETOOLONG: "the file name is too long", errno.EFBIG: "the file is too large",
        errno.ELOOP: "too many symbolic links",
    }
    for family, texts in (("denied", denied), ("kind", kind), ("io", io)):
        if code in texts:
            return Refused(family, texts[code])
    return Refused("io", (os.strerror(code) if code else str(error)).lower())


def require_file(info):
    """Refuses everything but a regular file."""
    if not stat.S_ISREG(info.st_mode):
        what = next((text for test, text in KINDS if test(info.st_mode)), "a special file")
        raise Refused("kind", "it is %s, not a regular file" % what)


class Place:
    """A resolved path: the handle of its directory, its name there, and what is there."""

    def __init__(self, directory, name, parts, info):
        self.directory = directory
        self.name = name
        self.parts = parts
        self.info = info


class Root:
    """A workspace's root, held as a handle. `place` hands out handles that are closed with the root's `close_handles`."""

    def __init__(self, path, home):
        self.path = posixpath.normpath(path)
        self.home = home
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        real = os.path.realpath(path)
        self.spellings = [self.path] if real == self.path else [self.path, real]
        self._handles = []

    def close(self):
        self.close_handles()
        os.close(self.fd)

    def close_handles(self):
        """Closes what the operation that ends had opened."""
        for fd in self._handles:
            os.close(fd)
        self._handles = []

    def relative(self, path):
        """The parts of a path below the root. Pure text; raises when it leads outside."""
        if "\0" in path:
            raise Refused("denied", "a path must not contain a NUL character")
        if not path:
            raise Refused("not_found")
        if self.home and (path == "~" or path.startswith("~/")):
            path = self.home + path[1:]
        if not path.startswith("/"):
            if not _climbs(path):
                return path.split("/")
            path = posixpath.join(self.path, path)
        for text in (path, posixpath.normpath(path)):
            for root in self.spellings:
                rest = _below(root, text)
                if rest is not None and not _climbs(rest):
                    return rest.split("/")
        raise outside()

    def text(self, place):
        """The resolved path as text, free of links."""
        return posixpath.join(self.spellings[-1], *place.parts)

    def directory(self, path):
        """A directory's handle, and its path free of links."""
        place = self.place(path)
        if place.info is None:
            raise Refused("not_found")
        if place.name == ".":
            return place.directory, self.text(place)
        return self._enter(place.directory, place.name), self.text(place)

    def place(self, path, follow=True, make=None):
        """Resolves a path. What is missing at its end is no error (`info` is None). `make(fd, name, parts)` makes a missing directory."""
        todo = [part for part in self.relative(path)]
        directory_wanted = todo and todo[-1] in ("", ".")
        todo.reverse()
        stack, links = [(self.fd, None)], 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if len(stack) == 1:
                    raise outside()
                stack.pop()
                continue
            last = not any(rest not in ("", ".") for rest in todo)
            info = self._look(stack, part)
            if info is None:
                if last:
                    return Place(stack[-1][0], part, _parts(stack, part), None)
                if make is None:
                    raise Refused("not_found")
                make(stack[-1][0], part, _parts(stack, part))
                info = self._look(stack, part)
            if stat.S_ISLNK(info.st_mode) and (follow or not last):
                links += 1
                if links > MAX_LINKS:
                    raise Refused("io", "too many symbolic links")
                stack, todo = self._follow(stack, part, todo)
                continue
            if last:
                if directory_wanted and not stat.S_ISDIR(info.st_mode):
                    raise Refused("kind", "a part of the path is not a directory")
                return Place(stack[-1][0], part, _parts(stack, part), info)
            stack.append((self._enter(stack[-1][0], part), part))
        return Place(stack[-1][0], ".", _parts(stack), os.fstat(stack[-1][0]))

    def _look(self, stack, part):
        try:
            return os.stat(part, dir_fd=stack[-1][0], follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(error) from None

    def _follow(self, stack, part, todo):
        target = os.readlink(part, dir_fd=stack[-1][0])
        if target.startswith("/"):
            stack, steps = [(self.fd, None)], self.relative(target)
        else:
            steps = target.split("/")
        return stack, todo + steps[::-1]

    def _enter(self, directory, name):
        try:
            fd = os.open(name, DIRECTORY, dir_fd=directory)
        except OSError as error:
            raise refusal(error) from None
        self._handles.append(fd)
        return fd


def _parts(stack, *last):
    return [name for _, name in stack[1:]] + list(last)


def _below(root, path):
    if path == root:
        return "."
    prefix = root if root.endswith("/") else root + "/"
    return path[len(prefix):].lstrip("/") or "." if path.startswith(prefix) else None


def _climbs(path):
    depth = 0
    for part in path.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False
