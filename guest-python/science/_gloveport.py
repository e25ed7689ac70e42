"""The openings of the sandbox, for an image whose interpreter is not ours: what `base/module.c` is in the slim image.

The messages below 0xf0 go to the host. The rest are for the adapter, the functions that the build added to the module
(`src/making/adapter.rs`), which keeps addresses of this module's buffers.
"""

import _host
import gc
import sys
import types

_send = _host.call

_SETUP, _ENTRY, _ADDRESS, _ENVIRON, _IMMORTALIZE, _STATUS, _ZONE = range(0xF0, 0xF7)
_OP_OUTPUT = 5
_REFUSALS = {
    -1: (ValueError, "the host does not understand this message"),
    -2: (ValueError, "the request is longer than the host accepts"),
    -3: (RuntimeError, "too many tool calls are outstanding"),
    -4: (MemoryError, "no memory for the host's reply"),
}
# Bytes that a stream collects before it sends them.
_CAPACITY = 65536
_WORD = "little"


def _address(buffer):
    """Where the bytes of a buffer lie, which must not move from then on. The first byte is overwritten."""
    buffer[0] = _ADDRESS
    return int.from_bytes(_send(buffer), _WORD)


def call(message, /):
    """Send one message (bytes-like) to the host and return its reply as bytes."""
    try:
        return _send(message)
    except OSError:
        status = int.from_bytes(_send(bytes((_STATUS,))), _WORD, signed=True)
    kind, text = _REFUSALS.get(status, (RuntimeError, f"the host refused the call (status {status})"))
    raise kind(text)


# Two records of three words: address of the buffer, capacity, length. The host reads them at any time.
_table = memoryview(bytearray(24))
_words = _table.cast("I")
# The texts, ready to be sent in place: the two bytes before are opcode and stream.
_stdout = memoryview(bytearray(2 + _CAPACITY))
_stderr = memoryview(bytearray(2 + _CAPACITY))


def _set_up():
    for number, buffer in enumerate((_stdout, _stderr)):
        _words[3 * number] = _address(buffer) + 2
        _words[3 * number + 1] = _CAPACITY
        buffer[:2] = bytes((_OP_OUTPUT, number + 1))
    address = _address(_table)
    _words[0] = _address(_stdout) + 2
    _stdout[0] = _OP_OUTPUT
    _send(bytes((_SETUP, 0, 0, 0)) + address.to_bytes(4, _WORD))


_set_up()


def _flush_one(buffer, at):
    length = _words[at]
    if length:
        call(buffer[:2 + length])
        # The host has set it already, so that it never reads the same bytes twice.
        _words[at] = 0


def flush():
    """Send what the buffers of standard output and standard error hold."""
    _flush_one(_stdout, 2)
    _flush_one(_stderr, 5)


def _append(buffer, at, data):
    data = memoryview(data).cast("B")
    total = len(data)
    done = 0
    while done < total:
        length = _words[at]
        part = min(total - done, _CAPACITY - length)
        buffer[2 + length:2 + length + part] = data[done:done + part]
        # Bytes first, then the length: the host reads between any two instructions.
        _words[at] = length + part
        done += part
        if length + part == _CAPACITY:
            _flush_one(buffer, at)
    return total


def stdout_write(data, /):
    """Append to the buffer of standard output and return the number of bytes."""
    total = len(data)
    length = _words[2]
    end = length + total
    if type(data) is bytes and end < _CAPACITY:
        _stdout[2 + length:2 + end] = data
        _words[2] = end
        return total
    return _append(_stdout, 2, data)


def stderr_write(data, /):
    """Append to the buffer of standard error and return the number of bytes."""
    return _append(_stderr, 5, data)


def environ():
    """Read the environment from the host anew and return it as a dict of bytes."""
    entries = _send(bytes((_ENVIRON,))).split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def set_entry(function):
    """Makes `function(header, source) -> exit code` what `gloveport_run` calls."""
    global _entry
    _entry = function
    _send(bytes((_ENTRY, 0, 0, 0)) + id(function).to_bytes(4, _WORD))


_zone = None
_YEAR = (365 * 24 + 6) * 3600


def set_zone(data, name):
    """Makes a zone local time: `data` is a TZif file or None, `name` the value of TZ. Sets what `time.tzset` sets."""
    global _zone
    import time

    import _gp_zone_table as zone_table

    made = zone_table.from_tzif(data) if data else zone_table.from_rule(name) if name else None
    address = 0
    if made is not None:
        table, distance = made
        # In front, a place for the byte that asks for the address; the table keeps its alignment.
        made = memoryview(bytearray(8) + table)
        address = _address(made) + 8 + distance
    _send(bytes((_ZONE, 0, 0, 0)) + address.to_bytes(4, _WORD))
    _zone = made
    # As CPython does: the two offsets are those of January and July, more or less.
    january = time.time() // _YEAR * _YEAR
    one, other = time.localtime(january), time.localtime(january + _YEAR / 2)
    if one.tm_gmtoff > other.tm_gmtoff:
        one, other = other, one
    time.timezone, time.altzone = -one.tm_gmtoff, -other.tm_gmtoff
    time.daylight = int(one.tm_gmtoff != other.tm_gmtoff)
    time.tzname = (one.tm_zone, other.tm_zone)


_CODE_PARTS = ("co_consts", "co_names", "co_varnames", "co_filename", "co_name", "co_qualname", "co_linetable",
               "co_exceptiontable", "co_freevars", "co_cellvars")


def immortalize():
    """Exempt all objects that exist now from reference counting.

    A count that changes dirties the page it lies on, and each dirty page of a snapshot is copied.
    """
    immortal = getattr(sys, "_is_immortal", None)
    if immortal is None or sys.maxsize > 2**32:
        return
    gc.unfreeze()
    header = bytes((_IMMORTALIZE, 0, 0, 0))
    for tracked in gc.get_objects():
        stack = [tracked]
        while stack:
            thing = stack.pop()
            if immortal(thing):
                continue
            _send(header + id(thing).to_bytes(4, _WORD))
            parts = gc.get_referents(thing)
            if isinstance(thing, types.CodeType):
                parts += [getattr(thing, name) for name in _CODE_PARTS]
            elif isinstance(thing, dict):
                parts += dict.keys(thing)
            # What the collector tracks has its own turn.
            stack += [part for part in parts if not gc.is_tracked(part)]
    del tracked, stack, thing, parts
    gc.freeze()
