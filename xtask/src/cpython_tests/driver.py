"""Runs one module of CPython's test package inside the guest; `cargo xtask cpython-tests` hands it to the CLI.

    driver.py MODULE OPTIONS      OPTIONS: JSON, {"leave_out": [pattern of test ids, ...], "pretend": [what, ...]}

`pretend` holds "threads", "sockets", "processes" and "hostname", which CPython's test support takes for absent on all of WASI and
asks for before whole modules of which only some tests need them, and names of modules that only the tests use: an empty
one stands in, and a test that calls what is in it is skipped.

Prints lines that start with MARK and hold one JSON object each: `{"start": id}` before each test, so that the host knows which
one never returned, and at the end
`{"passed": n, "skipped": {reason: n}, "failed": {id: start of the error}, "left_out": [id, ...]}`.
Test ids come without the leading "test.".
"""

import fnmatch
import gc
import importlib
import json
import os
import sys
import tempfile
import traceback
import types
import unittest

MARK = "@cpython-test@ "
ERROR_LENGTH = 300

_stdout = sys.stdout
_write = sys.stdout.write


def tell(record):
    # On a line of its own, whatever a test printed before.
    _write("\n" + MARK + json.dumps(record) + "\n")


def id_of(test):
    return test.id().removeprefix("test.")


class Result(unittest.TestResult):
    """Counts tests, not assertions: a test with several failing subtests is one failure."""

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.skips = {}
        self.failed = {}

    def startTest(self, test):
        super().startTest(test)
        tell({"start": id_of(test)})

    def add_failed(self, name, error):
        if name not in self.failed:
            lines = str(error).strip().splitlines() or [""]
            self.failed[name] = f"{type(error).__name__}: {lines[0]}"[:ERROR_LENGTH]
        forget(error)

    def addError(self, test, err):
        self.add_failed(id_of(test), err[1])

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.add_failed(id_of(test), err[1])

    def addSuccess(self, test):
        # Also called for a test with failed subtests.
        if id_of(test) not in self.failed:
            self.passed += 1

    def addExpectedFailure(self, test, err):
        self.passed += 1

    def addUnexpectedSuccess(self, test):
        self.failed[id_of(test)] = "unexpected success"

    def addSkip(self, test, reason):
        if id_of(test) not in self.failed:
            self.skips[reason] = self.skips.get(reason, 0) + 1


def forget(error):
    """Lets the frames of a failed test die, with all that they hold."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def without(suite, patterns, left_out):
    """The same suite without the tests that would end or outlast the guest."""
    # A package may return suites of its own class, with fixtures.
    kept = type(suite)()
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            kept.addTest(without(item, patterns, left_out))
        elif any(fnmatch.fnmatchcase(id_of(item), pattern) for pattern in patterns):
            left_out.append(id_of(item))
        else:
            kept.addTest(item)
    return kept


class Absent(types.ModuleType):
    """A module that only exists in builds for testing. What it holds can be imported; a test that calls it is skipped."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def absent(*args, **kwargs):
            raise unittest.SkipTest(f"needs {self.__name__}")

        return absent


def prepare(pretended):
    """What CPython's own runner sets, and what its support package cannot know of this guest."""
    from test import support
    from test.support import socket_helper, threading_helper

    # No test that needs a network, much memory or minutes of computing.
    support.use_resources = {}
    support.verbose = 0
    support.record_original_stdout(_stdout)
    switches = {
        "threads": (threading_helper, "can_start_thread"),
        "sockets": (support, "has_socket_support"),
        "processes": (support, "has_subprocess_support"),
        "hostname": (socket_helper, "has_gethostname"),
    }
    for what in pretended:
        if what in switches:
            setattr(*switches[what], True)
        else:
            sys.modules[what] = Absent(what)


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    # The tests make files in the current directory, and remove some from all of `sys.path`; the package itself is read-only.
    os.chdir(tempfile.mkdtemp())
    tell({"start": name})
    importlib.import_module("test")
    sys.path[:] = [os.getcwd()]
    prepare(options["pretend"])
    result, left_out = Result(), []
    try:
        module = importlib.import_module(f"test.{name}")
        suite = without(unittest.defaultTestLoader.loadTestsFromModule(module), options["leave_out"], left_out)
    except unittest.SkipTest as error:
        result.skips[str(error)] = 1
    except Exception as error:
        result.add_failed(name, error)
    else:
        suite.run(result)
    gc.collect()
    tell({"passed": result.passed, "skipped": result.skips, "failed": result.failed, "left_out": left_out})


main()
