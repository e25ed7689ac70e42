"""The standard library's pack: an index plus marshalled code, zlib-compressed sources and time-zone files.

It is read once, while the snapshot is made, and stays in the guest's memory: a run needs no file for an import,
for the source lines of a traceback or for a time zone.
"""

import marshal
import sys
from importlib.machinery import ModuleSpec

PACK_PATH = "/boot/stdlib.blob"

# A process-wide singleton: the finder, its loader methods and the time zones all read the same bytes.
_file = None
_body = b""
_base = 0
_modules = {}
_zones = {}


def load(path=PACK_PATH):
    """Opens the pack. The names it holds are then importable through `PackFinder`."""
    global _file, _base, _modules, _zones
    _file = open(path, "rb")
    index_length = int.from_bytes(_file.read(4), "little")
    _modules, _zones = marshal.loads(_file.read(index_length))
    _base = 4 + index_length


def module_names():
    """Modules to import before the snapshot, in this order."""
    return sorted(_modules)


def zone_names():
    return set(_zones)


def zone(key):
    """The TZif bytes of an IANA zone, or None."""
    entry = _zones.get(key)
    return None if entry is None else bytes(_read(*entry))


def _read(offset, length):
    if _file is None:
        return _body[offset:offset + length]
    _file.seek(_base + offset)
    return _file.read(length)


def keep_in_memory():
    """Takes what a run may need into memory and closes the file: sources, zones, and the code of what is not imported.

    The byte code of what is imported already is about half of the pack, and every instance would carry it. Until here
    the pack was only read piece by piece, because memory that was used once stays part of the snapshot.
    """
    global _file, _body
    kept = {name: entry for name, entry in _modules.items() if name not in sys.modules}
    # One buffer of the right size: one that grew would leave copies of itself behind in the snapshot.
    total = (sum(entry[1] for entry in kept.values()) + sum(entry[5] for entry in _modules.values())
             + sum(entry[1] for entry in _zones.values()))
    body = memoryview(bytearray(total))
    end = 0

    def keep(offset, length):
        nonlocal end
        start, end = end, end + length
        body[start:end] = _read(offset, length)
        return start, length

    for name, (code, code_length, is_package, filename, source, source_length) in list(_modules.items()):
        code_place = keep(code, code_length) if name in kept else (0, 0)
        _modules[name] = (*code_place, is_package, filename, *keep(source, source_length))
    for key, entry in list(_zones.items()):
        _zones[key] = keep(*entry)
    _file.close()
    _file, _body = None, body.toreadonly()


class PackFinder:
    """Finder and loader of the packed modules. All methods are static: there is one pack."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        entry = _modules.get(name)
        if entry is None:
            return None
        spec = ModuleSpec(name, PackFinder, origin=entry[3], is_package=entry[2])
        spec.has_location = True
        if entry[2]:
            spec.submodule_search_locations = [entry[3].rpartition("/")[0]]
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        exec(PackFinder.get_code(module.__spec__.name), module.__dict__)

    @staticmethod
    def get_code(name):
        entry = PackFinder._entry(name)
        if not entry[1]:
            # Dropped after the import; only a reload asks again.
            return compile(PackFinder.get_source(name), entry[3], "exec", dont_inherit=True, optimize=0)
        return marshal.loads(_read(entry[0], entry[1]))

    @staticmethod
    def get_source(name):
        import zlib

        entry = PackFinder._entry(name)
        return zlib.decompress(_read(entry[4], entry[5])).decode("utf-8")

    @staticmethod
    def get_filename(name):
        return PackFinder._entry(name)[3]

    @staticmethod
    def is_package(name):
        return PackFinder._entry(name)[2]

    @staticmethod
    def _entry(name):
        try:
            return _modules[name]
        except KeyError:
            raise ImportError(f"no packed module named {name!r}", name=name) from None


def adopt_loaded_modules():
    """Points modules that start-up imported from files (encodings, codecs) at the pack, whose bytes outlive the build."""
    for name, module in list(sys.modules.items()):
        if name not in _modules or getattr(getattr(module, "__spec__", None), "loader", None) is PackFinder:
            continue
        entry = _modules[name]
        spec = PackFinder.find_spec(name)
        origin = getattr(module.__spec__, "origin", None)
        if origin in ("built-in", "frozen"):
            # Frozen modules keep their spec; only the source that tracebacks and inspect ask for comes from here.
            module.__file__ = entry[3]
            continue
        module.__spec__ = spec
        module.__loader__ = PackFinder
        module.__file__ = entry[3]
        if entry[2]:
            module.__path__ = spec.submodule_search_locations
