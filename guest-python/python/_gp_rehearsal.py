"""Runs scripts while the snapshot is made, so that a run finds its code specialized and its caches filled.

What a first execution would write to is written already, and each page that a run does not write to is one page less to
be copied for it.
"""

import gc
import io
import json
import sys
import types

import _gp_loop
import _gp_run
import _gp_tools
import _gp_twin

_REHEARSAL = b"""
import json, re, sys, os
from hermes_tools import rehearsal, json_parse
def add(a, b=1):
    return a + b
class Thing:
    def __init__(self):
        self.items = [add(i) for i in range(3)]
    def total(self):
        return sum(self.items)
for i in range(4):
    text = f"{i}: {Thing().total():.2f}"
    try:
        json_parse(json.dumps({"a": [i, text]}))["a"][0] / i
    except ZeroDivisionError:
        pass
print(end="")
"""

_ASYNC_REHEARSAL = b"""
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import rehearsal
async def one(n):
    await asyncio.sleep(0)
    return n
async def main():
    tasks = [one(n) for n in range(2)]
    await asyncio.gather(*tasks, asyncio.create_task(one(2)), asyncio.to_thread(sum, [1, 2]))
asyncio.run(main())
def work(n):
    return n
with ThreadPoolExecutor(2) as pool:
    list(pool.map(work, range(2)))
thread = threading.Thread(target=work, args=(1,))
thread.start()
thread.join()
"""

_FAILING_REHEARSAL = b"""
def fail(n):
    return 1 / n
fail(0)
"""


def rehearse(run, times):
    """Runs a script several times, so that the code of a run is specialized and its first real execution writes to fewer
    pages. It prints nothing and calls no tool."""
    tool = '[{"name": "rehearsal", "doc": "", "params": [{"name": "a", "type": "str", "required": true}]}]'
    header = json.dumps({
        "argv": ["script.py"], "filename": "script.py", "cwd": None, "path": [], "module": "hermes_tools",
        "tools": tool, "tz": None, "project": True,
    }).encode()
    main = sys.modules["__main__"]
    path, argv = list(sys.path), list(sys.argv)
    # The interpreter numbers tasks for ever; a script's first one is to be Task-1.
    _gp_loop.default_task_name = "rehearsal"
    for _ in range(times):
        for source in (b"", b"print(end='')\n", _REHEARSAL, _ASYNC_REHEARSAL):
            if run(header, source) != 0:
                raise RuntimeError("the rehearsal failed")
            _gp_run.tool_module = _gp_tools.prebuild()
        sys.stderr = io.StringIO()
        if run(header, _FAILING_REHEARSAL) != 1:
            raise RuntimeError("the rehearsal of an error failed")
        sys.stderr = sys.__stderr__
    _gp_loop.default_task_name = None
    if _gp_run.sched.active():
        raise RuntimeError("the rehearsal left threads behind")
    # The tool module's name stays, for something that is set there in each run.
    sys.modules["__main__"] = main
    sys.modules[_gp_tools.module_name()] = None
    sys.path[:], sys.argv[:] = path, argv


def gather_code(run):
    """Gives the functions that a run calls new code objects, one beside the other. What a call counts in its code would
    otherwise write to as many pages as there are functions."""
    called = {}

    def watch(frame, event, argument):
        if event == "call":
            called.setdefault(id(frame.f_code), frame.f_code)

    sys.setprofile(watch)
    rehearse(run, 1)
    sys.setprofile(None)
    functions = {}
    for thing in gc.get_objects():
        # Inner functions take their code from the outer one's.
        if type(thing) is types.FunctionType and "<locals>" not in thing.__qualname__:
            functions.setdefault(id(thing.__code__), []).append(thing)
    for address, code in called.items():
        successor = code.replace()
        for function in functions.get(address, ()):
            function.__code__ = successor
            _gp_twin.moved(code, successor)


def warm_up():
    """Runs what most scripts run, so that caches and adaptive code are filled once and for all."""
    import collections
    import csv
    import dataclasses
    import datetime
    import io
    import json
    import re
    import traceback

    re.findall(r"\w+", "warm up")
    json.loads(json.dumps({"a": [1, 2.5, None, True, "é"]}, indent=1))
    f"{1.5:.2f} {1234567:,} {'x':>5}"
    datetime.datetime(2020, 1, 2).isoformat()
    datetime.datetime.strptime("2020-01-02", "%Y-%m-%d")
    list(csv.reader(io.StringIO("a,b\n1,2\n")))
    collections.Counter("abc").most_common(1)
    dataclasses.make_dataclass("Warm", ["a"])(1)
    exec(compile("import sys\nfor i in range(3):\n    f'{i}'\n", "warm", "exec"), {"__name__": "warm"})
    try:
        raise ValueError("warm")
    except ValueError:
        traceback.format_exc()
