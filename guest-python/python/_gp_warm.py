"""What happens before the snapshot: imports, replacements, rehearsals, and the reset of what must be fresh."""

import atexit
import gc
import logging
import re
import sys
import types
import warnings

import _gloveport
import _gp_pack

# Modules that do something visible when imported, need what is not here, or are programs rather than libraries.
_NOT_IMPORTED = frozenset((
    "antigravity", "this", "idlelib", "turtledemo", "turtle", "tkinter", "test", "lib2to3", "ensurepip", "venv",
    "pydoc_data", "__phello__", "__hello__", "site", "sitecustomize", "usercustomize", "_pyrepl", "curses", "msilib",
    "distutils", "_gp_boot", "_aix_support", "_android_support", "_apple_support", "_ios_support", "_osx_support",
    "encodings.mbcs", "encodings.oem", "dbm.gnu", "dbm.ndbm",
))


# Enough for the interpreter to specialize all that a run executes once.
REHEARSALS = 12


def start(packed):
    """Imports and replaces. Returns `{module: error}` for what could not be imported."""
    _fake_build_details()
    _fake_pager()
    import _gp_threads

    # First of all, so that every module imported from here on gets the guest's locks and `threading.local`.
    _gp_threads.install()
    # Before the rest of the library, so that what runs use lies close together.
    import _gp_absent
    import _gp_errors
    import _gp_imports
    import _gp_kdf
    import _gp_loop
    import _gp_streams
    import _gp_threadpool
    import _gp_tools
    import _gp_tz

    failures = _import_pack() if packed else {}
    _gp_kdf.install()
    _gp_loop.install()
    _gp_absent.install()
    _gp_threadpool.install()
    _gp_errors.hide_shim_frames()
    _gp_streams.install()
    if packed:
        _gp_tz.install()
        _gp_pack.adopt_loaded_modules()
        _gp_pack.keep_in_memory()
    library = _gp_pack.PackFinder if packed else _gp_imports.OrdinaryLibraryFinder()
    _gp_imports.install(library, _gp_tools.ToolModuleFinder)
    _add_site_builtins()
    return failures


def seal(packed, run):
    """The last step: warm caches, no traces of the build."""
    import _gp_fresh
    import _gp_rehearsal

    _gp_rehearsal.warm_up()
    getattr(_gp_pack, "warm_up", int)()
    # Before freezing: the collector no longer lists what is frozen.
    _gp_fresh.collect()
    gc.collect()
    if packed:
        _settle()
        _gather_state()
        _gp_rehearsal.gather_code(run)
    # Frozen already, so that the collections at the end of each rehearsal only look at what it made.
    gc.collect()
    gc.freeze()
    _gp_rehearsal.rehearse(run, REHEARSALS if packed else 1)
    _forget_state()
    if packed:
        sys.path[:] = [entry for entry in sys.path if not entry.startswith("/boot")]
    sys.path_importer_cache.clear()
    gc.collect()
    if sys.platform == "wasi":
        _refuse_open_files()
    gc.freeze()
    # Counting references would write to every page that holds an object a run looks at, and each such page is copied.
    getattr(_gloveport, "immortalize", int)()
    gc.collect()
    # No script has a use for it.
    vars(_gloveport).pop("settle", None)
    # The last step before the snapshot. In the slim image, the C side does it.
    getattr(_gp_pack, "fill_holes", int)()


# Fills the free places of the heap, so that what is allocated from here on lies side by side.
_settle = getattr(_gp_pack, "fill_holes", None) or getattr(_gloveport, "settle", int)


def _gather_state():
    """Makes anew what each run writes to: it comes to lie side by side."""
    import os

    import _gp_run
    import _gp_state

    _gp_state.renew()
    os.environ._data = {}
    os.environb._data = os.environ._data
    _gp_run.gather()


# Descriptors that are looked at: the build opens few files at a time.
_DESCRIPTORS = range(3, 64)


def _refuse_open_files():
    """A file that is open when the snapshot is taken would be a bad descriptor in each run."""
    import os
    import stat

    for descriptor in _DESCRIPTORS:
        try:
            kind = os.fstat(descriptor).st_mode
        except OSError:
            continue
        # The directories that the build granted are open, too.
        if stat.S_ISREG(kind):
            raise RuntimeError(f"a file of {os.fstat(descriptor).st_size} bytes is still open; close it before the snapshot")


def _fake_build_details():
    """`sysconfig` wants the build's Makefile variables as a module; only the few below are ever asked for."""
    name = f"_sysconfigdata_{getattr(sys, 'abiflags', '')}_{sys.platform}_{getattr(sys.implementation, '_multiarch', '')}"
    if sys.platform == "wasi" and name not in sys.modules:
        module = types.ModuleType(name)
        module.build_time_vars = {
            "TZPATH": "", "prefix": "/", "exec_prefix": "/", "EXT_SUFFIX": ".wasm", "SOABI": "cpython-313",
        }
        sys.modules[name] = module


def _fake_pager():
    """`pydoc`, and so `help()`, takes its pager from a package that is a terminal program for the rest."""
    if "_pyrepl" in _gp_pack.module_names() or not _gp_pack.module_names():
        return
    pager = types.ModuleType("_pyrepl.pager")

    def plain_pager(text, title=""):
        sys.stdout.write(pager.plain(text))

    pager.plain = lambda text: re.sub(".\b", "", text)
    pager.get_pager = lambda: plain_pager
    pager.plain_pager = pager.tty_pager = plain_pager
    pager.pipe_pager = pager.tempfile_pager = lambda text, command, title="": plain_pager(text, title)
    package = sys.modules["_pyrepl"] = types.ModuleType("_pyrepl")
    package.__path__ = []
    package.pager = sys.modules["_pyrepl.pager"] = pager


def _skipped(name):
    top = name.partition(".")[0]
    return (top in _NOT_IMPORTED or name in _NOT_IMPORTED or name.endswith(".__main__") or name == "__main__"
            or name.startswith(("encodings.mbcs", "encodings.oem")) or ".tests" in name
            or "windows" in name.rpartition(".")[2] or name.rpartition(".")[2].startswith("popen_"))


def _import_pack():
    failures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _gp_pack.module_names():
            if name in sys.modules or _skipped(name):
                continue
            try:
                __import__(name)
            except BaseException as error:
                failures[name] = f"{type(error).__name__}: {error}"
                sys.modules.pop(name, None)
    return failures


def _add_site_builtins():
    """`exit`, `quit`, `help` and the like, which the module `site` adds to an ordinary interpreter."""
    import _sitebuiltins
    import builtins

    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()
    builtins.copyright = _sitebuiltins._Printer("copyright", sys.copyright)
    builtins.credits = _sitebuiltins._Printer("credits", "See www.python.org for more information.")
    builtins.license = _sitebuiltins._Printer("license", "See https://www.python.org/psf/license/")


def _forget_state():
    """Takes back what the imports above left in the process: exit hooks, caches, identifiers."""
    import itertools
    import linecache
    import os
    import tempfile
    import threading
    import uuid
    import weakref

    import _gp_pool
    import _gp_state
    import _gp_twin

    atexit._clear()
    threading._counter = itertools.count(1).__next__
    _gp_pool.ThreadPoolExecutor._counter = itertools.count().__next__
    _gp_pool.pools.clear()
    _gp_state.run.sources.clear()
    _gp_twin.forget()
    logging._startTime = _FirstRecord(logging._startTime)
    weakref.finalize._registered_with_atexit = False
    linecache.clearcache()
    re.purge()
    tempfile.tempdir = None
    tempfile._name_sequence = None
    uuid._node = None
    uuid._last_timestamp = None
    os.environ._data.clear()
    warnings.resetwarnings()
    _default_warning_filters()
    for module in list(sys.modules.values()):
        getattr(module, "__dict__", {}).pop("__warningregistry__", None)


class _FirstRecord(int):
    """The time at which `logging` was loaded, which was before the snapshot: a run's first record sets it."""

    def __rsub__(self, created):
        logging._startTime = created
        return 0


def _default_warning_filters():
    """The filters of an interpreter started without -W, as the C code sets them."""
    warnings.filters[:] = [
        ("default", None, DeprecationWarning, "__main__", 0),
        ("ignore", None, DeprecationWarning, None, 0),
        ("ignore", None, PendingDeprecationWarning, None, 0),
        ("ignore", None, ImportWarning, None, 0),
        ("ignore", None, ResourceWarning, None, 0),
    ]
    warnings._filters_mutated()
