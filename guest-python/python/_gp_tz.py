"""Local time from the pack: `time.tzset` finds the zone that `TZ` names, and `zoneinfo` reads the same data."""

import io
import os
import re
import time
import zoneinfo
import zoneinfo._common

import _gloveport
import _gp_pack

_UNITED_STATES = ",M3.2.0,M11.1.0"
_RULE_WITHOUT_DATES = re.compile(r"[A-Za-z]{3,}[+-]?[0-9:]+[A-Za-z]{3,}").fullmatch
_libc_tzset = getattr(time, "tzset", lambda: None)
# An image whose C library has no time zones brings its own.
_set_zone = getattr(_gloveport, "set_zone", None)


def apply(name):
    """Makes `name` (IANA name, POSIX rule or None) the local zone. A zone nobody knows is UTC, as libc has it."""
    data = None
    if name:
        key = name.removeprefix(":").removeprefix("/usr/share/zoneinfo/")
        data = _gp_pack.zone(key)
        match = _RULE_WITHOUT_DATES(name)
        if match:
            # Names such as EST5EDT are zones and rules at once. The C library reads them as a rule and has no dates for
            # it; glibc takes the zone, or the dates of the United States. Only the C environment is told.
            os.putenv("TZ", f":{key}" if data else name + _UNITED_STATES)
    if _set_zone is not None:
        _set_zone(data, name)
        return
    _gloveport.set_tzif(data)
    _libc_tzset()


def _tzset():
    """Initialize, or reinitialize, the local timezone to the value stored in os.environ['TZ']."""
    apply(os.environ.get("TZ"))


def _load_tzdata(key):
    data = _gp_pack.zone(key)
    if data is None:
        raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
    return io.BytesIO(data)


def _available_timezones():
    """Return a set of all available time zones."""
    return _gp_pack.zone_names()


def install():
    _tzset.__name__ = _tzset.__qualname__ = "tzset"
    time.tzset = _tzset
    zoneinfo._common.load_tzdata = _load_tzdata
    zoneinfo.available_timezones = _available_timezones
    zoneinfo._tzpath.available_timezones = _available_timezones
    zoneinfo.reset_tzpath(to=())
    if _set_zone is not None:
        # What `time` took for the names of UTC when it was imported was no zone of ours.
        _set_zone(None, None)
