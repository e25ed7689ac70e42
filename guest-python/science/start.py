"""Runs once, before the snapshot."""

import sys

sys.path.insert(0, "/boot")

import _gloveport  # noqa: E402
import _gp_boot  # noqa: E402

_gloveport.set_entry(_gp_boot.run)
