"""Runs once, before the snapshot."""

import os
import sys

# Where most runs start, which then need not go there.
os.chdir("/work")
sys.path.insert(0, "/boot")

import _gloveport  # noqa: E402
import _gp_boot  # noqa: E402

_gloveport.set_entry(_gp_boot.run)
