"""What an image of a user's own has beyond the one that it was made from: pure-Python packages and prepared data."""

import json
import sys
import types
from importlib._bootstrap_external import PathFinder

import _gp_imports as imports

_ORDER = "/boot/extra.json"
_PREPARE = "/boot/prepare.py"
# Where the packages lie, while the snapshot is made and in each run.
SITE = "/usr/local/lib/site"
# The module that the preparing script becomes.
_PREPARED = "prepared"


class SiteFinder:
    """Finder of the packages that were added."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [SITE]) if path is None else None


def apply():
    """Imports and prepares what the order says, before the snapshot. Without an order there is nothing to do."""
    try:
        with open(_ORDER, encoding="utf-8") as file:
            order = json.load(file)
    except OSError:
        return
    sys.meta_path.insert(sys.meta_path.index(PathFinder), SiteFinder)
    for name in order["imports"]:
        __import__(name)
    if order["run"]:
        _prepare()
    # They are part of the image, and stay when a script's own modules go.
    imports.keep_modules()


def _prepare():
    with open(_PREPARE, "rb") as file:
        source = file.read()
    module = types.ModuleType(_PREPARED)
    module.__file__ = "prepare.py"
    sys.modules[_PREPARED] = module
    exec(compile(source, "prepare.py", "exec", 0, True, 0), module.__dict__)
