"""Runs scripts under the shim in a child interpreter, with the mock host."""

import json
import os
import subprocess
import sys
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = [
    {"name": "read_file", "doc": "Read a file.", "returns": "dict", "params": [
        {"name": "path", "type": "str", "required": True},
        {"name": "offset", "type": "int", "required": False, "default": 1},
        {"name": "limit", "type": "int", "required": False, "default": 500}]},
    {"name": "raw", "doc": "Answer with given JSON.", "params": [{"name": "json", "type": "str", "required": True}]},
    {"name": "terminal", "doc": "Run a command.", "params": [{"name": "command", "type": "str", "required": True}]},
    {"name": "web_extract", "doc": "Read pages.", "params": [{"name": "urls", "type": "list", "required": True}]},
]


class Run:
    """What a run did. Unknown attributes come from the mock host's report."""

    def __init__(self, report):
        self.__dict__.update(report)

    def __repr__(self):
        return f"exit {self.exit}\n{self.stdout}\n--- stderr\n{self.stderr}"


def run(code, tools=None, dedent=True, **job):
    job["code"] = textwrap.dedent(code).lstrip("\n") if dedent else code
    job["tools"] = TOOLS if tools is None else [tool for tool in TOOLS if tool["name"] in tools]
    job["tool_names"] = [tool["name"] for tool in job["tools"]]
    # A program that takes the same jobs and runs them in the real guest may stand in for the mock host.
    real_host = os.environ.get("GLOVEPORT_TEST_HOST")
    command = [real_host, "job"] if real_host else [sys.executable, "-S", os.path.join(HERE, "_gp_mock_host.py")]
    child = subprocess.run(
        command, input=json.dumps(job).encode(),
        capture_output=True, timeout=job.get("limit", 60), env={"PATH": "/nowhere"})
    if child.returncode or not child.stdout:
        raise AssertionError(f"the driver failed ({child.returncode}):\n{child.stderr.decode()}")
    return Run(json.loads(child.stdout))


class ShimTest(unittest.TestCase):
    """Base of the tests: compares whole outputs."""

    maxDiff = None

    def check(self, code, stdout, stderr="", exit=0, **job):
        result = run(code, **job)
        self.assertEqual((result.stdout, result.stderr, result.exit),
                         (stdout, stderr, exit), f"\n{result!r}")
        return result


def run_cpython(code):
    """(stdout, stderr, exit) of the ordinary interpreter on the same file."""
    import tempfile

    data = textwrap.dedent(code).lstrip("\n").encode("utf-8", "surrogatepass") if isinstance(code, str) else code
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "script.py"), "wb") as file:
            file.write(data)
        child = subprocess.run(
            [sys.executable, "script.py"], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
            env={"PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"})
    # CPython names the script by its absolute path; here it is the name given.
    stderr = child.stderr.decode("utf-8", "replace").replace(folder + "/", "")
    return child.stdout.decode("utf-8", "replace"), stderr, child.returncode


class SameAsCPython(ShimTest):
    """Base of the tests that need no list of expected outputs: CPython itself is the reference."""

    def same(self, code, **job):
        stdout, stderr, exit = run_cpython(code)
        if exit < 0:
            exit = 128 - exit
        result = run(code, **job)
        self.assertEqual((result.stdout, result.stderr, result.exit & 0xFF), (stdout, stderr, exit), f"\n{result!r}")
        return result
