"""Changes to a workspace, all of them or none.

New content is staged beside each target under a name of ours, then everything is renamed into place; what was replaced is kept
until the end, so that a failure half way is undone. A target is never opened for writing.
"""

import os
import stat

from gp_paths import Refused, outside, refusal, require_file

STAGED = ".gloveport-"
MAX_WRITE_LINKS = 16


def targets(root, changes):
    """Where each change would end up, as paths free of links: one or two for each change. Nothing is made."""
    found = []
    for change in changes:
        if change["kind"] == "rename":
            found.append([_text_of(root, change["from"], False), _text_of(root, change["to"], False)])
        else:
            found.append([_text_of(root, change["path"], change["kind"] == "write")])
        root.close_handles()
    return found


def _text_of(root, path, follow):
    missing = []

    def imagined(_fd, name, parts):
        # Nothing exists below a directory that does not exist; the rest of the path is only text.
        missing.append(parts)
        raise _Imagined()

    try:
        return root.text(root.place(path, follow, imagined))
    except _Imagined:
        parts = missing[0]
        given = [part for part in root.relative(path) if part not in ("", ".")]
        rest = given[given.index(parts[-1]) + 1:] if parts[-1] in given else []
        if ".." in rest:
            raise outside() from None
        return os.path.join(root.spellings[-1], *(parts + rest))


class _Imagined(Exception):
    pass


def apply(root, changes, expected, data):
    """Makes the changes; returns how many directories were made. `expected` is what `targets` said before."""
    transaction = _Transaction(root)
    # The relay's own files are private; those of the workspace follow the account.
    own = os.umask(_umask)
    try:
        offset = 0
        for change, real in zip(changes, expected):
            content = data[offset:offset + change.get("len", 0)]
            offset += change.get("len", 0)
            transaction.stage(change, real, content)
        transaction.commit()
    except OSError as error:
        transaction.abandon()
        raise refusal(error) from None
    except BaseException:
        transaction.abandon()
        raise
    finally:
        os.umask(own)
    transaction.tidy()
    return len(transaction.made)


class _Transaction:
    def __init__(self, root):
        self._root = root
        self._steps = []
        self._staged = []
        self._kept = []
        self.made = []

    def stage(self, change, real, content):
        """Checks one change and writes its content beside the target."""
        if change["kind"] == "write":
            self._stage_write(self._target(change["path"], True, real[0]), content, change.get("like"))
        elif change["kind"] == "remove":
            self._steps.append(("take", self._entry(change["path"], real[0])))
        else:
            source = self._entry(change["from"], real[0])
            target = self._target(change["to"], False, real[1])
            if target.info is not None:
                raise Refused("kind", "it exists already")
            self._steps.append(("move", source, target))

    def _target(self, path, follow, real):
        if path.endswith(("/", "/.")):
            raise Refused("kind", "it is a directory, not a regular file")
        place = self._root.place(path, follow, self._make)
        if place.name == ".":
            raise Refused("kind", "it is a directory, not a regular file")
        self._same(place, real)
        if place.info is not None and follow:
            require_file(place.info)
        return place

    def _entry(self, path, real):
        place = self._root.place(path, follow=False)
        if place.info is None:
            raise Refused("not_found")
        self._same(place, real)
        if not stat.S_ISLNK(place.info.st_mode):
            require_file(place.info)
        return place

    def _same(self, place, real):
        # The host judged that path; one that leads elsewhere by now was not judged.
        if self._root.text(place) != real:
            raise Refused("io", "the path changed meanwhile")

    def _make(self, fd, name, parts):
        os.mkdir(name, 0o777, dir_fd=fd)
        self.made.append((fd, name, parts))

    def _stage_write(self, target, content, like):
        mode = None
        if target.info is not None:
            # A rename needs no write permission on the old file, but a file that its owner made read-only was meant so.
            if not os.access(target.name, os.W_OK, dir_fd=target.directory, effective_ids=os.access in os.supports_effective_ids):
                raise Refused("denied", "permission denied: the file is read-only")
            mode = target.info.st_mode & 0o777
        elif like is not None:
            place = self._root.place(like)
            if place.info is None:
                raise Refused("not_found")
            mode = place.info.st_mode & 0o777
        name = STAGED + os.urandom(8).hex() + ".new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, 0o666, dir_fd=target.directory)
        self._staged.append((target.directory, name))
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view):]
            if mode is not None:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)
        self._steps.append(("put", target, name))

    def commit(self):
        """Takes every step; on a failure those taken are undone."""
        done = []
        try:
            for step in self._steps:
                done.append(self._forward(step))
        except OSError:
            for undo in reversed(done):
                undo()
            raise

    def _forward(self, step):
        place = step[1]
        if step[0] == "move":
            target = step[2]
            _rename_new(place, target)
            return lambda: _rename_new(target, place)
        old = None
        if place.info is not None:
            old = STAGED + os.urandom(8).hex() + ".old"
            if step[0] == "put":
                os.link(place.name, old, src_dir_fd=place.directory, dst_dir_fd=place.directory, follow_symlinks=False)
            else:
                os.rename(place.name, old, src_dir_fd=place.directory, dst_dir_fd=place.directory)
            self._kept.append((place.directory, old))
        if step[0] == "put":
            os.rename(step[2], place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
        if old is None:
            return lambda: os.unlink(place.name, dir_fd=place.directory)
        return lambda: os.rename(old, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)

    def tidy(self):
        """Removes what only the transaction needed."""
        for directory, name in self._staged + self._kept:
            try:
                os.unlink(name, dir_fd=directory)
            except OSError:
                pass

    def abandon(self):
        """Leaves nothing of a transaction that failed."""
        self.tidy()
        for fd, name, _ in reversed(self.made):
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError:
                pass


def _rename_new(source, target):
    # There is no rename without replacing in the standard library; the window is as small as it gets.
    try:
        os.stat(target.name, dir_fd=target.directory, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source.name, target.name, src_dir_fd=source.directory, dst_dir_fd=target.directory)
        return
    raise FileExistsError(17, "it exists already")


def use_umask(value):
    """The account's own umask, which new files of the workspace follow."""
    global _umask
    _umask = value


_umask = 0o022
