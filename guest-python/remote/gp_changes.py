"""Changes to a workspace, all of them or none.

New content is staged beside each target under a name of ours, then everything is renamed into place; what was replaced is kept
until the end, so that a failure half way is undone. A target is never opened for writing. The journal (`gp_journal`) holds what
is needed to finish or undo changes whose relay was killed.
"""

import os
import stat

import gp_journal as journal
from gp_paths import Refused, outside, refusal, require_file

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
    # The relay's own files are private; those of the workspace follow the account.
    own = os.umask(_umask)
    transaction = None
    try:
        transaction = _Transaction(root)
        offset = 0
        for change, real in zip(changes, expected):
            content = data[offset:offset + change.get("len", 0)]
            offset += change.get("len", 0)
            transaction.stage(change, real, content)
        transaction.commit()
    except OSError as error:
        if transaction is not None:
            transaction.abandon()
        raise refusal(error) from None
    except BaseException:
        if transaction is not None:
            transaction.abandon()
        raise
    finally:
        os.umask(own)
    transaction.finish()
    return len(transaction.made)


class _Transaction:
    def __init__(self, root):
        self._root = root
        self._steps = []
        self._staged = []
        self._stuck = False
        self._journal = journal.Journal(root)
        self.made = []

    def stage(self, change, real, content):
        """Checks one change and writes its content beside the target."""
        if change["kind"] == "write":
            self._stage_write(self._target(change["path"], True, real[0]), content, change.get("like"))
        elif change["kind"] == "remove":
            entry = self._entry(change["path"], real[0])
            step = {"dir": _directory(entry), "name": entry.name, "old": self._journal.name("old")}
            self._steps.append(("take", step, entry.directory, None))
        else:
            source = self._entry(change["from"], real[0])
            target = self._target(change["to"], False, real[1])
            if target.info is not None:
                raise Refused("kind", "it exists already")
            step = {"dir": _directory(source), "name": source.name, "to_dir": _directory(target), "to_name": target.name}
            self._steps.append(("move", step, source.directory, target.directory))

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
        self._journal.line({"stage": _directory(target)})
        name = self._journal.name("new")
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
        old = self._journal.name("old") if target.info is not None else None
        step = {"dir": _directory(target), "name": target.name, "new": name, "old": old}
        self._steps.append(("put", step, target.directory, None))

    def commit(self):
        """Takes every step; on a failure those taken are undone."""
        self._journal.line({"commit": [{kind: step} for kind, step, _, _ in self._steps]})
        taken = []
        try:
            for step in self._steps:
                journal.forward(*step, keep=True)
                taken.append(step)
        except OSError:
            self._undo(taken)
            raise

    def _undo(self, taken):
        # Until all is undone, what was kept is the only copy: the next start goes on with it.
        self._stuck = True
        self._journal.line("undo")
        for step in reversed(taken):
            journal.backward(*step)
        self._stuck = False

    def finish(self):
        """Removes what only the transaction needed."""
        try:
            self._journal.line("done")
        except OSError:
            # A full disk: whoever finds the journal takes the steps again, which changes nothing.
            pass
        self._tidy()
        self._journal.finish()

    def _tidy(self):
        for kind, step, directory, _ in self._steps:
            journal.tidy(kind, step, directory)
        for directory, name in self._staged:
            try:
                os.unlink(name, dir_fd=directory)
            except OSError:
                pass

    def abandon(self):
        """Leaves nothing of a transaction that failed."""
        if self._stuck:
            self._journal.finish(keep=True)
            return
        self._tidy()
        self._journal.finish()
        for fd, name, _ in reversed(self.made):
            try:
                os.rmdir(name, dir_fd=fd)
            except OSError:
                pass


def _directory(place):
    """The directory of a place, relative to the root."""
    return "/".join(place.parts[:-1])


def use_umask(value):
    """The account's own umask, which new files of the workspace follow."""
    global _umask
    _umask = value


_umask = 0o022
