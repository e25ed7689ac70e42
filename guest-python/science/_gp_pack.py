"""The library of an image whose modules lie in an archive: what the pack of the slim image is, under the same names.

The archive stays readable during a run, for modules and data files that are not in the snapshot.
"""

import marshal
import zipimport
import zlib

import _gp_stack

# Where the image's interpreter has its library built in.
ARCHIVE = "/usr/local/lib/python315.zip"

# The slim image's pack, there while the snapshot is made: its time zones, and sources that the archive lacks.
_SLIM_PACK = "/boot/stdlib.blob"

_importers = {}
_names = set()
_zones = {}


def load():
    """Lists what the archive holds, and takes what it needs from the slim image's pack."""
    files = zipimport.zipimporter(ARCHIVE)._get_files()
    for path in files:
        name, dot, extension = path.replace("\\", "/").rpartition(".")
        if dot and extension == "pyc":
            _names.add(name.removesuffix("/__init__").replace("/", "."))


    _gp_stack.before_imports()
    with open(_SLIM_PACK, "rb") as pack:
        length = int.from_bytes(pack.read(4), "little")
        modules, zones = marshal.loads(pack.read(length))

        def read(offset, size):
            pack.seek(4 + length + offset)
            return pack.read(size)

        for key, place in zones.items():
            _zones[key] = read(*place)

        import _gp_sources
        import _gp_zone_table

        _gp_sources.adopt(lambda name: zlib.decompress(read(*modules[name][4:6])).decode("utf-8"))
        _gp_zone_table.prepare(_zones.values())


def module_names():
    """Modules to import before the snapshot."""
    return _gp_stack.to_import(_names)


def library_names():
    """All modules that the archive holds."""
    return _names


def zone_names():
    return set(_zones)


def zone(key):
    """The TZif bytes of an IANA zone, or None."""
    return _zones.get(key)


def keep_in_memory():
    """Nothing to do: the zones are in memory, and the archive stays."""


class PackFinder:
    """Finder of the archive's modules. All methods are static: there is one archive."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        tail = name
        if path is None:
            if name not in _names:
                return None
            path = (ARCHIVE,)
        for entry in path:
            if isinstance(entry, str) and entry.startswith(ARCHIVE):
                importer = _importers.get(entry)
                if importer is None:
                    importer = _importers[entry] = zipimport.zipimporter(entry)
                spec = importer.find_spec(tail)
                if spec is not None and spec.loader is not None:
                    return _gp_stack.adjust(spec)
        return None


def adopt_loaded_modules():
    """Nothing to do: what start-up imported came from the archive, which stays."""


warm_up = _gp_stack.warm_up

# Sizes of blocks, and how many of them a hole in the middle of the heap can at most be worth looking for.
_LARGE = 1 << 20
_SMALLEST = 32
_fillers = []


def fill_holes():
    """Fills the free places between the objects with zeros, so that a run's own objects come to lie side by side behind
    them, on fresh pages, instead of one each on pages that would have to be copied for it.

    This interpreter's objects come from the C library's allocator: what fits in no hole is taken from the end of the heap.
    """
    overhead = bytes.__basicsize__
    ending = [bytes(_LARGE)]
    # Blocks that follow one another come from the end.
    while len(ending) < 4 or id(ending[-1]) - id(ending[-3]) > 3 * _LARGE or id(ending[-1]) < id(ending[-3]):
        ending.append(bytes(_LARGE))
    edge = id(ending[-3])
    _fillers.extend(block for block in ending if id(block) < edge)
    del ending
    size = _LARGE
    while size >= _SMALLEST:
        while id(block := bytes(size - overhead)) < edge:
            _fillers.append(block)
        del block
        size = size * 3 // 4 & ~15 if size > 1024 else size - 16
