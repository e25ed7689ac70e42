"""Local time for a C library that knows only UTC: time-zone tables in the form that the adapter reads.

A table is a header of 16 bytes (u32 number of entries, u32 whether the entries repeat every 400 years, i64 second from
which they do) and entries of 24 bytes (i64 first second, i32 offset, i32 is-DST, i32 offset of the neighbor with the
other is-DST, i32 distance of the name from the header). The first entry holds since ever. The names lie in front.
"""

import bisect
import struct
from datetime import date

_ENTRY = struct.Struct("<qiiii")
_HEADER = struct.Struct("<IIq")
_EVER = -1 << 63
_CYCLE = 146_097 * 86_400
_NAME_BYTES = 16
# Names of the rule have fixed places, so that its entries are the same bytes in every table.
_STANDARD, _DAYLIGHT = -_NAME_BYTES, -2 * _NAME_BYTES
# The years that a rule's entries are made for: from the first zone that has one, and 400 from the last.
_YEARS = range(1900, 2440)

_EPOCH = date(1970, 1, 1).toordinal()
_rules = {}


def prepare(zones):
    """Works out the rules of all zones, while the snapshot is made."""
    for data in zones:
        footer = _footer(data)
        if footer and footer not in _rules:
            _rules[footer] = _expand(footer)


def from_tzif(data):
    """The table of a TZif file, with the names in front; and where its header is."""
    times, kinds, footer = _read(data)
    rule = _rules.get(footer) or _rules.setdefault(footer, _expand(footer))
    return _assemble(times, kinds, rule)


def from_rule(text):
    """The table of a POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`, or None."""
    try:
        rule = _expand(text)
    except ValueError:
        return None
    first = (rule.offset, 0, rule.names[0])
    return _assemble([_EVER], [first], rule)


class _Rule:
    """`names`, `offset` and, with daylight saving time, `times` and the packed `entries`."""

    def __init__(self, names, offset, times=(), entries=b""):
        self.names, self.offset, self.times, self.entries = names, offset, times, entries


def _assemble(times, kinds, rule):
    names = bytearray()
    places = {}
    for _, _, name in kinds:
        if name not in places:
            places[name] = len(names)
            names += name.encode("ascii", "replace")[:_NAME_BYTES - 1] + b"\0"
    names += bytes(-len(names) % 8)
    # From the header back to the first name.
    distance = len(names) + 2 * _NAME_BYTES
    packed = bytearray()
    last = len(times) - 1
    for i, (start, (offset, is_dst, name)) in enumerate(zip(times, kinds)):
        opposite = offset
        for neighbor in (i - 1, i + 1):
            if 0 <= neighbor <= last and kinds[neighbor][1] != is_dst:
                opposite = kinds[neighbor][0]
                break
        packed += _ENTRY.pack(start, offset, is_dst, opposite, places[name] - distance)
    repeats, limit, count = 0, 0, len(times)
    if rule is not None and rule.times:
        first = bisect.bisect_right(rule.times, times[-1])
        end = bisect.bisect_left(rule.times, rule.times[first] + _CYCLE)
        packed += rule.entries[first * _ENTRY.size:end * _ENTRY.size]
        count += end - first
        repeats, limit = 1, rule.times[first] + _CYCLE
    fixed = bytearray(2 * _NAME_BYTES)
    if rule is not None:
        for place, name in zip((_STANDARD, _DAYLIGHT), rule.names):
            text = name.encode("ascii", "replace")[:_NAME_BYTES - 1]
            fixed[place + 2 * _NAME_BYTES:place + 2 * _NAME_BYTES + len(text)] = text
    return bytes(names + fixed + _HEADER.pack(count, repeats, limit) + packed), distance


def _read(data):
    """Transition times (the first is "ever"), what holds from each, and the rule behind the last."""
    position = 0
    for width, size in ((4, 4), (8, 8)):
        version = data[position + 4:position + 5]
        utc, standard, leaps, count, types, chars = struct.unpack(">6I", data[position + 20:position + 44])
        start = position + 44
        position = start + count * (size + 1) + types * 6 + chars + leaps * (size + 4) + standard + utc
        if version == b"\0" or size == 8:
            break
    times = list(struct.unpack(f">{count}{'q' if size == 8 else 'i'}", data[start:start + count * size]))
    indexes = data[start + count * size:start + count * (size + 1)]
    at = start + count * (size + 1)
    infos = []
    for i in range(types):
        offset, is_dst, name = struct.unpack(">iBB", data[at + 6 * i:at + 6 * i + 6])
        infos.append((offset, is_dst, name))
    texts = data[at + 6 * types:at + 6 * types + chars]
    kinds = [(offset, is_dst, texts[name:texts.index(b"\0", name)].decode("ascii", "replace"))
             for offset, is_dst, name in infos]
    before = next((kind for kind in kinds if not kind[1]), kinds[0])
    footer = data[position:].strip(b"\n").decode("ascii", "replace") if size == 8 else ""
    return [_EVER, *times], [before, *(kinds[i] for i in indexes)], footer


def _footer(data):
    return data[data.rindex(b"\n", 0, -1) + 1:-1].decode("ascii", "replace") if data[-1:] == b"\n" else ""


def _expand(footer):
    if not footer:
        return None
    from zoneinfo import _zoneinfo

    parsed = _zoneinfo._parse_tz_str(footer)
    if not hasattr(parsed, "transitions"):
        return _Rule((parsed.tzname, ""), round(parsed.utcoff.total_seconds()))
    standard, daylight = (round(info.utcoff.total_seconds()) for info in (parsed.std, parsed.dst))
    times, entries = [], bytearray()
    for year in _YEARS:
        # Local seconds of the two changes, the one to daylight saving time by standard time and the other way round.
        begin, end = parsed.transitions(year)
        changes = sorted(((begin - standard, daylight, 1, standard, _DAYLIGHT),
                          (end - daylight, standard, 0, daylight, _STANDARD)))
        for change in changes:
            times.append(change[0])
            entries += _ENTRY.pack(*change)
    names = (parsed.std.tzname, parsed.dst.tzname)
    return _Rule(names, standard, times, bytes(entries))
