"""Imports from the granted workspace, their sources, and helpful errors for what cannot be imported."""

import linecache
import os
import sys
import zipimport
from importlib._bootstrap_external import FileFinder, PathFinder, SourceFileLoader, SourcelessFileLoader

import _gp_await as awaiting
import _gp_state as state
import _gp_tools as tools

_NATIVE_SUFFIXES = (".so", ".pyd", ".dylib")
_MAX_LISTED = 20_000

# Modules of CPython that no build for WASI has, and what stands in for them.
_NOT_HERE = {
    "ssl": "network",
    "_ssl": "network",
    "ctypes": "native code cannot be loaded here",
    "_ctypes": "native code cannot be loaded here",
    "cffi": "native code cannot be loaded here",
    "fcntl": "not available on this platform",
    "resource": "not available on this platform",
    "termios": "not available on this platform",
    "pwd": "not available on this platform",
    "grp": "not available on this platform",
    "tkinter": "there is no display here",
    "curses": "there is no terminal here",
    "readline": "there is no terminal here",
}
_NETWORK_PACKAGES = frozenset(
    ("requests", "httpx", "aiohttp", "urllib3", "websockets", "websocket", "paramiko", "boto3", "selenium", "playwright")
)

# What the science image has, by the names that scripts import.
_IN_SCIENCE = frozenset((
    "numpy", "pandas", "scipy", "sklearn", "statsmodels", "matplotlib", "mpl_toolkits", "seaborn", "PIL", "lxml", "bs4",
    "html5lib", "openpyxl", "xlsxwriter", "xlrd", "pypdf", "reportlab", "yaml", "jinja2", "markupsafe", "sympy",
    "mpmath", "networkx", "regex", "dateutil", "tabulate", "charset_normalizer", "xmltodict", "defusedxml", "tomli_w",
    "patsy", "formulaic", "attr", "attrs", "more_itertools", "toolz", "tlz", "tqdm", "typing_extensions", "joblib",
    "cloudpickle", "narwhals", "pyparsing", "packaging", "contourpy", "kiwisolver", "cycler", "fontTools", "six",
))

_workspace_modules = []


def remember_source(filename, data):
    state.run.sources[filename] = data


def source_of(filename):
    """The bytes a file name was compiled from, or None."""
    return state.run.sources.get(filename)


def source_names():
    return list(state.run.sources)


def running():
    """Whether a script was given to the run; before that everything happens while the snapshot is made."""
    return bool(state.run.sources)


class ScriptLoader:
    """The loader that `__main__` names; it only gives the source."""

    @staticmethod
    def get_source(name):
        module = sys.modules.get(name)
        data = state.run.sources.get(getattr(module, "__file__", None))
        return None if data is None else _decode(data)


def forget_workspace_modules():
    """Lets the workspace's modules die with the script."""
    for name in _workspace_modules:
        sys.modules.pop(name, None)


def keep_modules():
    """Makes the modules that were loaded so far part of the library."""
    _workspace_modules.clear()
    state.run.workspace_used = False


def compile_async(data, filename, top_level=False):
    """Compiles a source that mentions async code: calls that are awaited run concurrently on the host."""
    return awaiting.compile_source(data, filename, top_level)


class WorkspaceLoader(SourceFileLoader):
    """Loads a `.py` file of the workspace. Byte code is neither read nor written: a stale one could differ."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        data = self.get_data(path)
        remember_source(path, data)
        return self.source_to_code(data, path)

    def source_to_code(self, data, path, *, _optimize=-1):
        if isinstance(data, bytes) and (b"async" in data or b"await" in data):
            return compile_async(data, path)
        return compile(data, path, "exec", 0, True, _optimize)

    def exec_module(self, module):
        state.run.workspace_used = True
        _workspace_modules.append(module.__name__)
        super().exec_module(module)


class MissingModuleFinder:
    """The last finder: says what to do about a module that nobody has."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        # `importlib.util.find_spec(name) is None` is how scripts ask politely; only a real import gets the error.
        if path is None and _called_by_import():
            raise _missing(name)
        if path is not None and _called_by_import():
            native = _native_file(name.rpartition(".")[2], path)
            if native:
                raise ImportError(_native_text(name, native), name=name, path=native)
        return None


def _called_by_import():
    caller = sys._getframe(3)
    return caller.f_code.co_name == "_find_and_load_unlocked"


def _missing(name):
    native = _native_file(name, sys.path)
    if native:
        return ImportError(_native_text(name, native), name=name, path=native)
    return ModuleNotFoundError(f"No module named {name!r} ({_hint(name)})", name=name)


def _native_text(name, path):
    return (
        f"cannot import {name!r}: {os.path.basename(path)} is a native extension module, and native code cannot be "
        "loaded here (pure-Python modules only)"
    )


def _hint(name):
    reason = _NOT_HERE.get(name)
    if reason == "network" or name in _NETWORK_PACKAGES:
        return "there is no network here" + tools.suggestion("web_extract", "; use web_extract() from {module} instead")
    if reason:
        return reason
    if name in sys.stdlib_module_names:
        return "this part of the standard library is not in this image"
    if name == "tools" or name.endswith("_tools"):
        return f"the tools are in the module {tools.module_name()!r}"
    if name in _IN_SCIENCE:
        return "the image 'science' has it: `gloveport run --image science`"
    return "pip packages are not in this image; the standard library and pure-Python modules of the workspace are"


def _native_file(tail, path):
    prefix = tail + "."
    for entry in path:
        try:
            with os.scandir(entry or ".") as listing:
                for count, item in enumerate(listing):
                    if count > _MAX_LISTED:
                        break
                    if item.name.startswith(prefix) and item.name.endswith(_NATIVE_SUFFIXES):
                        return os.path.join(entry, item.name)
        except (OSError, TypeError, ValueError):
            continue
    return None


def _keep_sources_readable():
    """`linecache` shows the text that was really compiled, even if a file of that name lies in the directory."""
    original = linecache.updatecache

    def updatecache(filename, module_globals=None):
        data = state.run.sources.get(filename)
        if data is None:
            return original(filename, module_globals)
        lines = _decode(data).splitlines(keepends=True) or ["\n"]
        if not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        linecache.cache[filename] = (len(data), None, lines, filename)
        return lines

    linecache.updatecache = updatecache


def _decode(data):
    import io
    import tokenize

    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        text = data.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class OrdinaryLibraryFinder:
    """Development runs only: the standard library of the interpreter that runs the shim."""

    def __init__(self):
        self._path = [entry for entry in sys.path if entry.startswith(sys.base_prefix)]

    def find_spec(self, name, path=None, target=None):
        return PathFinder.find_spec(name, self._path) if path is None else None


def install(*finders):
    """Sets the import system up: built-in, frozen, our finders (the pack), then the workspace, then the hints."""
    sys.dont_write_bytecode = True
    loaders = [(WorkspaceLoader, [".py"]), (SourcelessFileLoader, [".pyc"])]
    workspace_hook = FileFinder.path_hook(*loaders)
    hooks = [zipimport.zipimporter, workspace_hook]
    if any(isinstance(finder, OrdinaryLibraryFinder) for finder in finders):
        library_hook = sys.path_hooks[-1]
        hooks[-1] = lambda path: (library_hook if path.startswith(sys.base_prefix) else workspace_hook)(path)
    sys.path_hooks[:] = hooks
    sys.path_importer_cache.clear()
    kept = [finder for finder in sys.meta_path if finder is not PathFinder and finder not in finders]
    sys.meta_path[:] = [*kept, *finders, PathFinder, MissingModuleFinder]
    _keep_sources_readable()

