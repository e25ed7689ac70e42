"""Pack the standard library for the guest.

    python3.13 mkblob.py LIB TZDATA_WHEEL OUT_DIR

LIB is the `Lib` folder of the CPython sources, TZDATA_WHEEL the wheel of the PyPI package tzdata. Writes, into OUT_DIR:

- `stdlib.blob`: u32 LE n, then n bytes `marshal` of `(modules, tz)`, then the body. `modules` maps a module's name to
  `(code_off, code_len, is_pkg, filename, src_off, src_len)`, `tz` maps a zone's key ("Europe/Paris") to `(off, len)`. Offsets count
  from the start of the body. Code is marshalled, source is zlib-compressed UTF-8, a zone is a TZif file. All code comes before
  all sources and zones, so that a reader may drop the code once everything is imported.
- `lib/`: the modules that the interpreter needs before any finder can exist, as .pyc files.

The bytecode is that of the Python which runs this program, so its magic number is checked against LIB's. The output depends on
nothing but the inputs: no times, no paths, files in sorted order.
"""

import importlib._bootstrap_external as bootstrap
import importlib.util
import io
import marshal
import os
import re
import sys
import tokenize
import zipfile
import zlib

# Where tracebacks and inspect say that the modules lie.
PREFIX = "/lib/python3.13"

# Packages and modules that WASI cannot carry, or that make no sense in it.
EXCLUDED_TOP = {
    # Tests and programs with a user interface.
    "test", "idlelib", "tkinter", "turtle", "turtledemo", "curses", "antigravity", "this", "__hello__", "__phello__",
    # Installing things.
    "ensurepip", "venv", "site-packages",
    # Need C modules that do not exist for WASI: _ctypes, _ssl, termios, msvcrt, _scproxy.
    "ctypes", "ssl", "pty", "tty", "_aix_support", "_android_support", "_apple_support", "_ios_support", "_osx_support",
}
EXCLUDED = {
    "asyncio.windows_events", "asyncio.windows_utils",
    "dbm.gnu", "dbm.ndbm",
    "encodings.mbcs", "encodings.oem",
    "multiprocessing.popen_spawn_win32",
    "xml.etree.cElementTree",
}

# Imported by the interpreter while it starts, or by the shim before its finder is there.
EARLY = ["encodings", "encodings.aliases", "encodings.utf_8", "importlib", "warnings"]

# `sysconfig` reads this module. The one that the build writes is full of the build machine's paths.
SYSCONFIG_NAME = "_sysconfigdata__wasi_wasm32-wasi"
SYSCONFIG_SOURCE = b'''"""What sysconfig reports of this build."""

build_time_vars = {
    "ABIFLAGS": "",
    "EXT_SUFFIX": ".cpython-313-wasm32-wasi.so",
    "HOST_GNU_TYPE": "wasm32-unknown-wasip1",
    "MACHDEP": "wasi",
    "MULTIARCH": "wasm32-wasi",
    "Py_DEBUG": 0,
    "Py_ENABLE_SHARED": 0,
    "Py_GIL_DISABLED": 0,
    "SIZEOF_VOID_P": 4,
    "SOABI": "cpython-313-wasm32-wasi",
    "TZPATH": "",
    "VERSION": "3.13",
    "WITH_PYMALLOC": 1,
    "exec_prefix": "/",
    "prefix": "/",
}
'''


def check_magic(lib):
    """Refuse to write bytecode that the guest's interpreter would not take."""
    header = os.path.join(lib, "importlib", "_bootstrap_external.py")
    with open(header, encoding="utf-8") as file:
        match = re.search(r"^MAGIC_NUMBER = \((\d+)\)", file.read(), re.MULTILINE)
    wanted = match and int(match[1])
    own = int.from_bytes(importlib.util.MAGIC_NUMBER[:2], "little")
    if wanted != own:
        sys.exit(f"mkblob: the bytecode of this Python is {own}, the sources need {wanted}")


def module_files(lib):
    """Yield (name, is_pkg, path relative to lib) of each module, in sorted order."""
    for folder, folders, files in os.walk(lib):
        at_top = folder == lib
        folders[:] = sorted(
            name for name in folders if name not in ("__pycache__", "tests") and not (at_top and name in EXCLUDED_TOP)
        )
        for file in sorted(files):
            if not file.endswith(".py"):
                continue
            relative = os.path.relpath(os.path.join(folder, file), lib).replace(os.sep, "/")
            parts = relative[:-3].split("/")
            is_pkg = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_pkg else parts)
            if name in EXCLUDED or (at_top and name in EXCLUDED_TOP):
                continue
            yield name, is_pkg, relative


def as_utf8(source):
    """Source text as inspect and linecache want it: UTF-8, whatever the coding cookie says."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return io.TextIOWrapper(io.BytesIO(source), encoding, newline=None).read().encode("utf-8")


def read_modules(lib):
    """Return [(name, is_pkg, filename, code object, source as UTF-8)]."""
    modules = []
    for name, is_pkg, relative in module_files(lib):
        with open(os.path.join(lib, relative), "rb") as file:
            source = file.read()
        filename = f"{PREFIX}/{relative}"
        code = compile(source, filename, "exec", dont_inherit=True, optimize=0)
        modules.append((name, is_pkg, filename, code, as_utf8(source)))
    filename = f"{PREFIX}/{SYSCONFIG_NAME}.py"
    code = compile(SYSCONFIG_SOURCE, filename, "exec", dont_inherit=True, optimize=0)
    modules.append((SYSCONFIG_NAME, False, filename, code, SYSCONFIG_SOURCE))
    return modules


def read_zones(wheel):
    """Return {key: contents} of the zone files, in sorted order."""
    prefix = "tzdata/zoneinfo/"
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith(prefix) and not name.endswith("/"))
        contents = {name.removeprefix(prefix): archive.read(name) for name in names}
    return {key: data for key, data in contents.items() if data.startswith(b"TZif")}


class Body:
    """The part of the file that the index points into."""

    def __init__(self):
        self.data = bytearray()

    def add(self, data):
        """Append, and return (offset, length)."""
        offset = len(self.data)
        self.data += data
        return offset, len(data)


def build_blob(modules, zones):
    body = Body()
    codes = {name: body.add(marshal.dumps(code)) for name, _, _, code, _ in modules}
    index = {}
    for name, is_pkg, filename, _, source in modules:
        index[name] = (*codes[name], is_pkg, filename, *body.add(zlib.compress(source, 9)))
    tz = {key: body.add(data) for key, data in zones.items()}
    head = marshal.dumps((index, tz))
    return len(head).to_bytes(4, "little") + head + bytes(body.data)


def write_early(modules, out):
    for name, is_pkg, _, code, _ in modules:
        if name not in EARLY:
            continue
        path = os.path.join(out, "lib", *name.split("."), *(["__init__"] if is_pkg else [])) + ".pyc"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(bootstrap._code_to_timestamp_pyc(code))


def main():
    lib, wheel, out = sys.argv[1:]
    check_magic(lib)
    modules = read_modules(lib)
    zones = read_zones(wheel)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "stdlib.blob"), "wb") as file:
        file.write(build_blob(modules, zones))
    write_early(modules, out)
    print(f"{len(modules)} modules, {len(zones)} zones")


if __name__ == "__main__":
    main()
