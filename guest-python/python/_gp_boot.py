"""Starts the guest while the snapshot is made: everything that a run should not have to do again.

`run(header, code)` is what the C side calls once per instance; `prepare` and `finish` are its two halves for a C side
that evaluates the script's code object itself. `failures` lists the packed modules that cannot be imported.
"""

import sys

import _gp_pack

PACKED = True
try:
    _gp_pack.load()
except FileNotFoundError:
    # A development run on an ordinary interpreter, whose own library serves as the pack.
    PACKED = False

if PACKED:
    # After the built-in and frozen finders, before anything that looks into files.
    sys.meta_path.insert(2, _gp_pack.PackFinder)

import _gp_warm  # noqa: E402

failures = _gp_warm.start(PACKED)

import _gp_extra  # noqa: E402

_gp_extra.apply()

from _gp_run import finish, prepare, run  # noqa: E402

_gp_warm.seal(PACKED, run)

__all__ = ["failures", "finish", "prepare", "run"]
