"""Operations of the tools where the script runs: each is one frame, answered by one frame.

A request is JSON with `op`, `root`, and what the operation needs; content travels behind it. Commands run beside everything
else; the other operations are done at once and are bounded in size.
"""

import json
import os
import stat

import gp_changes as changes
import gp_commands as commands
import gp_frames as frames
import gp_journal as journal
from gp_paths import Refused, Root, refusal, require_file

MAX_READ = 8 << 20
MAX_LIST = 100000


class Files:
    """The workspace side of a relay."""

    def __init__(self, relay):
        self._relay = relay
        self._roots = {}
        self._commands = {}

    # --- frames -----------------------------------------------------------------------------------------------------------

    def request(self, payload):
        """Does one operation, or starts a command."""
        number, length = frames.SEQ.unpack_from(payload)[0], frames.SEQ.unpack_from(payload, 4)[0]
        wanted = json.loads(payload[8:8 + length].decode())
        data = memoryview(payload)[8 + length:]
        root = None
        try:
            root = self._root(wanted["root"])
            if wanted["op"] == "run":
                self._commands[number] = commands.Command(self, root, number, wanted)
                return
            answer, content = getattr(self, "_op_" + wanted["op"])(root, wanted, data)
        except Refused as refused:
            answer, content = {"family": refused.family, "message": refused.message}, b""
        except OSError as error:
            found = refusal(error)
            answer, content = {"family": found.family, "message": found.message}, b""
        finally:
            if root is not None:
                root.close_handles()
        self.answer(number, answer, content)

    def answer(self, number, answer, content=b""):
        """Sends what an operation came to."""
        text = json.dumps(answer).encode()
        self._relay.outbox.bulk(frames.FILED, frames.SEQ.pack(number), frames.SEQ.pack(len(text)), text, bytes(content))

    def _root(self, path):
        root = self._roots.get(path)
        if root is None:
            try:
                root = self._roots[path] = Root(path, os.environ.get("HOME"))
            except OSError as error:
                raise Refused("io", "the workspace %s is not there: %s" % (path, os.strerror(error.errno))) from None
        return root

    # --- looking ------------------------------------------------------------------------------------------------------------

    def _existing(self, root, path):
        place = root.place(path)
        if place.info is None:
            raise Refused("not_found")
        return place

    def _op_stat(self, root, wanted, _data):
        info = self._existing(root, wanted["path"]).info
        return {"kind": _kind(info.st_mode), "len": info.st_size, "modified_ns": info.st_mtime_ns, "mode": info.st_mode & 0o7777}, b""

    def _op_read(self, root, wanted, _data):
        place = self._existing(root, wanted["path"])
        require_file(place.info)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(place.name, flags, dir_fd=place.directory)
        try:
            require_file(os.fstat(fd))
            content = _read(fd, wanted["offset"], min(wanted["max"], MAX_READ))
        finally:
            os.close(fd)
        return {"real": root.text(place)}, content

    def _op_list(self, root, wanted, _data):
        place = self._existing(root, wanted["path"])
        if not stat.S_ISDIR(place.info.st_mode):
            raise Refused("kind", "it is not a directory")
        fd = os.open(place.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.directory)
        try:
            with os.scandir(fd) as entries:
                found = [_entry(entry) for _, entry in zip(range(min(wanted["max"], MAX_LIST)), entries)]
        finally:
            os.close(fd)
        return {"entries": found}, b""

    # --- changing -------------------------------------------------------------------------------------------------------------

    def _op_resolve(self, root, wanted, _data):
        """Where changes would end up, for the host's guard."""
        return {"real": changes.targets(root, wanted["changes"])}, b""

    def _op_apply(self, root, wanted, data):
        return {"directories": changes.apply(root, wanted["changes"], wanted["real"], data)}, b""

    def _op_dead(self, root, _wanted, _data):
        """Changes that a killed relay left half done, for the host's guard."""
        return {"journals": journal.dead(root)}, b""

    def _op_recover(self, root, wanted, _data):
        return {"recovered": journal.recover(root, wanted["journals"])}, b""

    # --- commands -------------------------------------------------------------------------------------------------------------

    def watch(self, fd, callback):
        """Listens to a command's output."""
        self._relay.watch_file(fd, callback)

    def unwatch(self, fd):
        """Stops listening."""
        self._relay.unwatch(fd)

    @property
    def umask(self):
        """The account's own umask."""
        return self._relay.umask

    def cancel(self, number):
        """The host does not wait for a command any more."""
        command = self._commands.get(number)
        if command is not None:
            command.end(cancelled=True)

    def child_ended(self, pid, status):
        """A child was reaped: perhaps a command."""
        for command in self._commands.values():
            command.child_ended(pid, status)

    def finished(self, number):
        """A command is over. Strays of commands go when the last one has ended and no script runs."""
        self._commands.pop(number, None)
        if not self._commands and self._relay.run is None:
            self._relay.kill_strays()

    def processes(self):
        """Processes of commands, spared when a script's are killed."""
        spared = set()
        for command in self._commands.values():
            spared.update(command.processes())
        return spared

    def tick(self, now):
        """Ends commands whose time is over. Returns when to be called again."""
        wake = now + 3600
        for command in list(self._commands.values()):
            wake = min(wake, command.tick(now))
        return wake


def _read(fd, offset, count):
    parts = []
    while count:
        part = os.pread(fd, count, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        count -= len(part)
    return b"".join(parts)


def _kind(mode):
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "special"


def _entry(entry):
    name = os.fsencode(entry.name).decode("utf-8", "replace")
    try:
        if entry.is_symlink():
            return [name, "symlink"]
        if entry.is_dir(follow_symlinks=False):
            return [name, "directory"]
        return [name, "file" if entry.is_file(follow_symlinks=False) else "special"]
    except OSError:
        return [name, "special"]
