"""Runs one module of CPython's test package inside the guest; `cargo xtask cpython-tests` gives it to the CLI.

    driver.py MODULE OPTIONS      OPTIONS: JSON, {"skip": [test id, ...], "pretend": ["threads", "sockets"]}

Writes lines that start with a mark and hold one JSON object each: `{"start": id}` before each test, so that the host knows which one
did not return, and at the end `{"passed": n, "skipped": {reason: n}, "failed": {test id: last line of the error}}`.
"""

import gc
import importlib
import json
import os
import sys
import tempfile
import unittest

MARK = "@cpython-test@ "
_stdout = sys.stdout
_write = sys.stdout.write


def tell(record):
    _write("\n" + MARK + json.dumps(record) + "\n")


class Result(unittest.TestResult):
    """Counts tests, not assertions: a test with several failing subtests is one failure."""

    def __init__(self, unwanted):
        super().__init__()
        self.unwanted = unwanted
        self.passed = 0
        self.skips = {}
        self.failed = {}

    def startTest(self, test):
        super().startTest(test)
        self.before = len(self.failed)
        tell({"start": test.id()})

    def _fail(self, test, error):
        lines = str(error).strip().splitlines() or [""]
        # A SkipTest or assertion message may be pages long; its first line names the matter.
        self.failed.setdefault(test.id(), f"{type(error).__name__}: {lines[0]}"[:300])

    def addError(self, test, err):
        self._fail(test, err[1])
        _forget(err[1])

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._fail(test, err[1])
            _forget(err[1])

    def addSuccess(self, test):
        # Reported also after subtests that failed.
        if test.id() not in self.failed:
            self.passed += 1

    def addExpectedFailure(self, test, err):
        self.passed += 1

    def addUnexpectedSuccess(self, test):
        self.failed[test.id()] = "unexpected success"

    def addSkip(self, test, reason):
        if test.id() not in self.failed:
            self.skips[reason] = self.skips.get(reason, 0) + 1


def _forget(error):
    """Lets the frames of a failed test die, with all that they hold."""
    import traceback

    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def without(suite, unwanted):
    """The tests of a suite, in order, without those that would end or outlast the guest."""
    kept = unittest.TestSuite()
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            kept.addTest(_like(item, without(item, unwanted)))
        elif item.id() not in unwanted:
            kept.addTest(item)
    return kept


def _like(original, kept):
    # A package may return suites of its own class, with fixtures.
    copy = type(original)()
    copy.addTests(kept)
    return copy


def prepare(options):
    """What CPython's own runner sets, and what its support module cannot know of this guest."""
    from test import support
    from test.support import socket_helper, threading_helper

    support.use_resources = {}
    support.verbose = 0
    if "threads" in options["pretend"]:
        threading_helper.can_start_thread = True
    if "sockets" in options["pretend"]:
        support.has_socket_support = True
    support.record_original_stdout(_stdout)
    _ = socket_helper


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    os.chdir(tempfile.mkdtemp())
    unwanted = frozenset(options["skip"])
    prepare(options)
    result = Result(unwanted)
    tell({"start": name})
    try:
        module = importlib.import_module(f"test.{name}")
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    except unittest.SkipTest as error:
        result.skips[str(error)] = 1
    else:
        without(suite, unwanted).run(result)
    gc.collect()
    tell({"passed": result.passed, "skipped": result.skips, "failed": result.failed})


main()
