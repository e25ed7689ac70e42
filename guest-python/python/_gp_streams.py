"""The standard streams: text layers that hand every write straight to the C module's buffer.

The C buffer is what the host can read at any moment, so nothing may linger in a Python buffer, where it would be lost
when the run is stopped.
"""

import io
import os
import sys

import _gloveport


class _Output(io.BufferedIOBase):
    """The binary layer under `sys.stdout` or `sys.stderr`."""

    mode = "wb"

    def fileno(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._descriptor

    def writable(self):
        return True

    def isatty(self):
        return False

    def flush(self):
        if self.closed:
            raise ValueError("flush of closed file")
        _gloveport.flush()

    @property
    def raw(self):
        return self

    def __repr__(self):
        return f"<_io.BufferedWriter name={self.name!r}>"


class _Stdout(_Output):
    name = "<stdout>"
    _descriptor = 1
    write = staticmethod(_gloveport.stdout_write)


class _Stderr(_Output):
    name = "<stderr>"
    _descriptor = 2
    write = staticmethod(_gloveport.stderr_write)


class _NoInput(io.RawIOBase):
    """Standard input that is at its end."""

    name = "<stdin>"
    mode = "rb"

    def fileno(self):
        return 0

    def readable(self):
        return True

    def readinto(self, buffer):
        return 0


def _text(buffer, errors, line_buffering):
    stream = io.TextIOWrapper(
        buffer, encoding="utf-8", errors=errors, newline="\n", line_buffering=line_buffering, write_through=True
    )
    stream.mode = "w"
    return stream


# The shim's own references: reports and flushes must work after a script replaced or deleted the ones in `sys`.
stdout = _text(_Stdout(), "strict", False)
stderr = _text(_Stderr(), "backslashreplace", True)
stdin = io.TextIOWrapper(io.BufferedReader(_NoInput(), 1), encoding="utf-8", errors="strict")
stdin.mode = "r"


def install():
    sys.stdin = sys.__stdin__ = stdin
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    os.write = _ordered_write(os.write)


def _ordered_write(os_write):
    def write(fd, data, /):
        """Write a bytes object to a file descriptor."""
        # What was printed before must come out before; only then may bytes go around the buffer.
        if fd == 1 or fd == 2:
            _gloveport.flush()
        return os_write(fd, data)

    return write
