"""Frames between the host and the relay: a length, a kind, a payload.

Both directions: ``u32`` payload length, ``u8`` kind, payload; integers are little-endian. A length is checked before anything is
allocated for it. The kinds are mirrored in ``backends/src/frame.rs``.
"""

import collections
import errno
import os
import struct

HEADER = struct.Struct("<IB")
SEQ = struct.Struct("<I")

# Host to relay.
START = 0x01  # u32 length of JSON, JSON, script
ANSWER = 0x02  # u32 seq, u32 number of the ring to ring, content of the answer file
KILL = 0x03  # the run is over; kill it, clean up, send EXIT
PING = 0x04
CREDIT = 0x05  # u32 more bytes of output that the host takes
FILE = 0x07  # u32 id, u32 length of JSON, JSON, data: one operation of the workspace
CANCEL = 0x08  # u32 id of a FILE operation
SWEEP = 0x09  # JSON: remove what a lost relay left

# Relay to host.
HELLO = 0x81  # JSON: what was found here
OUTPUT = 0x82  # u8 stream (1, 2), bytes
CALL = 0x83  # u32 seq, u8 fault (0 = none), content of the request file or a reason
EXIT = 0x84  # JSON: how the run ended and what is left of it
FILED = 0x85  # u32 id, u32 length of JSON, JSON, data
PONG = 0x86
FAILED = 0x87  # JSON: the run could not start, or the relay can't go on
STARTED = 0x88  # JSON: the run's directory and doorbells
UNSENT = 0x89  # u32 seq, u32 errno: an answer could not be written
SWEPT = 0x8A  # JSON

# An answer, a request or a script with its frame around it. The host sends its own bound when it starts a relay.
DEFAULT_MAX_FRAME = 64 << 20


class FrameError(Exception):
    """The host's bytes are not frames."""


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self, max_frame=DEFAULT_MAX_FRAME):
        self.max_frame = max_frame
        self._parts = collections.deque()
        self._have = 0
        self._head = None

    def feed(self, data):
        """Takes bytes and returns the frames that they complete, as a list of (kind, payload)."""
        self._parts.append(data)
        self._have += len(data)
        frames = []
        while True:
            if self._head is None:
                if self._have < HEADER.size:
                    return frames
                self._head = HEADER.unpack(self._take(HEADER.size))
                if self._head[0] > self.max_frame:
                    raise FrameError("frame of %d bytes" % self._head[0])
            length, kind = self._head
            if self._have < length:
                return frames
            frames.append((kind, self._take(length)))
            self._head = None

    def _take(self, count):
        taken = []
        self._have -= count
        while count:
            part = self._parts[0]
            if len(part) <= count:
                taken.append(self._parts.popleft())
                count -= len(part)
            else:
                view = memoryview(part)
                taken.append(bytes(view[:count]))
                self._parts[0] = bytes(view[count:])
                count = 0
        return taken[0] if len(taken) == 1 else b"".join(taken)


class Outbox:
    """Frames on their way to the host. Calls overtake output, so that a flood of output can't starve them."""

    def __init__(self, fd):
        self._fd = fd
        self._urgent = collections.deque()
        self._bulk = collections.deque()
        self._partial = collections.deque()
        self.bulk_bytes = 0

    def __bool__(self):
        return bool(self._partial or self._urgent or self._bulk)

    def urgent(self, kind, *parts):
        """Queues a frame that goes before any output that waits."""
        self._urgent.append(_frame(kind, parts))

    def bulk(self, kind, *parts):
        """Queues a frame that keeps its place behind the output before it."""
        frame = _frame(kind, parts)
        self.bulk_bytes += sum(map(len, frame))
        self._bulk.append(frame)

    def flush(self):
        """Writes what the pipe takes. Raises OSError when the host is gone."""
        while True:
            if not self._partial and not self._next_frames():
                return
            try:
                sent = os.writev(self._fd, list(self._partial)[:64])
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    return
                raise
            while sent:
                part = self._partial[0]
                if len(part) <= sent:
                    self._partial.popleft()
                    sent -= len(part)
                else:
                    self._partial[0] = memoryview(part)[sent:]
                    sent = 0

    def _next_frames(self):
        while self._urgent:
            self._partial.extend(self._urgent.popleft())
        if not self._partial and self._bulk:
            frame = self._bulk.popleft()
            self.bulk_bytes -= sum(map(len, frame))
            self._partial.extend(frame)
        return bool(self._partial)


def _frame(kind, parts):
    return [HEADER.pack(sum(map(len, parts)), kind)] + [part for part in parts if part]
