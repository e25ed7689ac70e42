"""Random generators that exist before the snapshot, and so would give the same numbers in every run: each run reseeds them."""

import gc
import os
import random
import sys

_generators = []
_LOW_128 = (1 << 128) - 1


def collect():
    """Finds them, once, before the snapshot. `random`'s own is the run's business."""
    random._inst.gauss_next = None
    numpy = sys.modules.get("numpy.random")
    for thing in gc.get_objects():
        if isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom):
            if thing is not random._inst:
                _generators.append(_reseed_python(thing))
        elif numpy is not None:
            # Some objects answer questions about their class with code of their own.
            kind = type(thing)
            if issubclass(kind, numpy.RandomState):
                _generators.append(_reseed_numpy(thing._bit_generator))
            elif issubclass(kind, numpy.Generator):
                _generators.append(_reseed_numpy(thing.bit_generator))


def reseed():
    for generator in _generators:
        generator()


def _reseed_python(generator):
    seed = generator.seed
    return lambda: seed(int.from_bytes(os.urandom(32)))


def _reseed_numpy(generator):
    if hasattr(generator, "_legacy_seeding"):
        from numpy import frombuffer, uint32

        seed = generator._legacy_seeding
        return lambda: seed(frombuffer(os.urandom(32), uint32))
    kind = type(generator)
    if kind.__name__ == "PCG64":
        # Made by hand, a state costs a quarter of what a new generator does. Any is as good as any other, if only `inc` is odd.
        def fresh_state():
            bits = int.from_bytes(os.urandom(32))
            generator.state = {
                "bit_generator": "PCG64", "state": {"state": bits >> 128, "inc": bits & _LOW_128 | 1}, "has_uint32": 0,
                "uinteger": 0,
            }

        return fresh_state

    def fresh():
        generator.state = kind().state

    return fresh
