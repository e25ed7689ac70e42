"""The process as a script sees it: environment, arguments, paths, streams, imports, what is absent."""

import os
import tempfile
import unittest

from helpers import SameAsCPython, ShimTest, run


class State(ShimTest):
    def test_environment(self):
        self.check("""
            import os, sys
            print(dict(os.environ), os.environb[b"A"], os.getenv("NOPE"), sys.argv)
            os.environ["B"] = "x"; print(os.environ["B"], "B" in os.environ)
            """, "{'A': '1', 'ü': 'é'} b'1' None ['script.py', 'x y']\nx True\n", environ={"A": "1", "ü": "é"},
                   argv=["script.py", "x y"])

    def test_cwd_and_path(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            self.check("import os, sys\nprint(os.getcwd(), sys.path)\nopen('f', 'w').write('1')\nprint(os.listdir())",
                       f"{folder} ['{folder}']\n['f']\n", cwd=folder, path=[folder])

    def test_fresh_random_state(self):
        code = """
            import random, secrets, uuid, os, tempfile
            print(random.random(), random.getrandbits(64), random.gauss(0, 1), secrets.token_hex(8), uuid.uuid4(), uuid.uuid1(),
                  os.urandom(8).hex(), next(tempfile._get_candidate_names()), random.SystemRandom().random(),
                  random.Random().random(), random.choice(range(10**9)))
            """
        first, second = run(code).stdout.split(), run(code).stdout.split()
        self.assertEqual(len(first), 11)
        for a, b in zip(first, second):
            self.assertNotEqual(a, b)

    def test_stdin_is_empty(self):
        self.check("""
            import sys
            try: input("name? ")
            except EOFError as e: print(repr(e))
            print(repr(sys.stdin.read()), sys.stdin.isatty(), sys.stdin.fileno(), list(sys.stdin), sys.stdin.buffer.read())
            """, "name? EOFError('EOF when reading a line')\n'' False 0 [] b''\n")

    def test_streams(self):
        self.check("""
            import sys
            for s in (sys.stdout, sys.stderr):
                print(s.name, s.mode, s.fileno(), s.isatty(), s.encoding, s.errors, s.writable(), s.readable(), s.seekable(),
                      s.buffer.fileno(), s.closed, s.buffer.name)
            sys.stdout.buffer.write(b"bytes\\n"); sys.stdout.buffer.write(memoryview(b"view\\n")); sys.stdout.flush()
            sys.stdout.write("a\\r\\nb\\n"); print("x", "y", sep="-", end="!\\n", file=sys.stderr)
            print(sys.__stdout__ is sys.stdout)
            sys.stdout.reconfigure(encoding="utf-8", errors="replace"); print("\\ud800")
            print("kept", end="")
            """, "<stdout> w 1 False utf-8 strict True False False 1 False <stdout>\n"
                 "<stderr> w 2 False utf-8 backslashreplace True False False 2 False <stderr>\n"
                 "bytes\nview\na\r\nb\nTrue\n?\nkept", "x-y!\n")

    def test_time_zone_functions(self):
        result = run("import time, os\nprint(time.tzname, time.localtime(0).tm_hour)\nos.environ['TZ'] = 'Asia/Tokyo'\n"
                     "time.tzset()\nprint(time.tzname, time.localtime(0).tm_hour)\n", pack=PACK) if PACK else None
        if result:
            self.assertEqual((result.stderr, result.exit), ("", 0), result)

    def test_builtins_of_site(self):
        self.check("print(callable(exit), callable(quit), callable(help), repr(exit))",
                   "True True True Use exit() or Ctrl-D (i.e. EOF) to exit\n")


PACK = "/tmp/pk/stdlib.blob" if os.path.exists("/tmp/pk/stdlib.blob") else None


class Imports(ShimTest):
    def workspace(self, files):
        folder = tempfile.mkdtemp()
        self.addCleanup(__import__("shutil").rmtree, folder)
        for name, text in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        return os.path.realpath(folder)

    def test_workspace_modules(self):
        folder = self.workspace({
            "mine.py": "x = 5\ndef boom():\n    return 1 / 0\n", "pkg/__init__.py": "from .sub import y\n",
            "pkg/sub.py": "y = 6\n", "json.py": "raise SystemExit('shadowed')\n", "ns/inner.py": "z = 7\n"})
        self.check(f"""
            import mine, pkg, json, ns.inner, sys
            print(mine.x, pkg.y, json.dumps([1]), ns.inner.z, mine.__file__ == {folder!r} + "/mine.py", mine.__cached__ is not None)
            mine.boom()
            """, "5 6 [1] 7 True True\n", f"""Traceback (most recent call last):
  File "script.py", line 3, in <module>
    mine.boom()
    ~~~~~~~~~^^
  File "{folder}/mine.py", line 3, in boom
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero
""", 1, path=[folder])
        self.assertEqual(os.path.exists(os.path.join(folder, "__pycache__")), False)

    def test_async_in_workspace_module(self):
        folder = self.workspace({"work.py": """
import asyncio
from hermes_tools import read_file
async def fetch(ps): return [r["path"] for r in await asyncio.gather(*[read_file(p) for p in ps])]
def plain(p):
    return read_file(p)["path"]
"""})
        result = run("import asyncio, work\nprint(asyncio.run(work.fetch('abc')))\n"
                     "from concurrent.futures import ThreadPoolExecutor\n"
                     "with ThreadPoolExecutor() as ex: print(list(ex.map(work.plain, 'xyz')))", path=[folder])
        self.assertEqual((result.stdout, result.at_once), ("['a', 'b', 'c']\n['x', 'y', 'z']\n", 3), result)

    def test_syntax_error_in_workspace(self):
        folder = self.workspace({"bad.py": "x = (\n"})
        result = run("import bad", path=[folder])
        self.assertEqual(result.stderr, f'Traceback (most recent call last):\n  File "script.py", line 1, in <module>\n'
                         f'    import bad\n  File "{folder}/bad.py", line 1\n    x = (\n        ^\n'
                         "SyntaxError: '(' was never closed\n", result)

    def test_missing(self):
        for name, hint in (("pandas", "the image 'science' has it: `gloveport run --image science`"),
                           ("absent", "pip packages are not in this image; the standard library and pure-Python modules of "
                                      "the workspace are"),
                           ("requests", "there is no network here; use web_extract() from hermes_tools instead"),
                           ("tools", "the tools are in the module 'hermes_tools'")):
            with self.subTest(name=name):
                self.check(f"import {name}", "", 'Traceback (most recent call last):\n  File "script.py", line 1, in <module>\n'
                           f"    import {name}\nModuleNotFoundError: No module named '{name}' ({hint})\n", 1)
        self.check("""
            import importlib.util
            print(importlib.util.find_spec("pandas"))
            try: import pandas
            except ModuleNotFoundError as e: print(e.name, type(e) is ModuleNotFoundError, e.args[0].split(" (")[0])
            try: import os.nope
            except ModuleNotFoundError as e: print(e)
            try: import json.nope
            except ModuleNotFoundError as e: print(e)
            """, "None\npandas True No module named 'pandas'\nNo module named 'os.nope'; 'os' is not a package\n"
                 "No module named 'json.nope'\n")
        self.assertNotIn("web_extract", run("import requests", tools=[]).stderr)

    def test_native_extension(self):
        folder = self.workspace({"fast.cpython-313-x86_64-linux-gnu.so": "", "pkg/__init__.py": "",
                                 "pkg/_speed.abi3.so": ""})
        for code, name, file in (("import fast", "fast", "fast.cpython-313-x86_64-linux-gnu.so"),
                                 ("import pkg._speed", "pkg._speed", "_speed.abi3.so"),
                                 ("from pkg import _speed", "pkg._speed", "_speed.abi3.so")):
            with self.subTest(code=code):
                result = run(code, path=[folder])
                self.assertTrue(result.stderr.endswith(
                    f"ImportError: cannot import '{name}': {file} is a native extension module, and native code cannot be "
                    "loaded here (pure-Python modules only)\n"), result)


class Absent(ShimTest):
    def test_processes(self):
        self.check("""
            import subprocess, os, errno
            for call in (lambda: subprocess.run(["ls", "-l"]), lambda: subprocess.check_output("echo hi", shell=True),
                         lambda: os.system("ls"), lambda: os.popen("ls"), lambda: os.fork()):
                try: call()
                except OSError as e: print(e.errno == errno.ENOTSUP, e.strerror)
            """, "True subprocess ('ls'): processes cannot be started here; use terminal() from hermes_tools instead\n"
                 "True subprocess ('echo'): processes cannot be started here; use terminal() from hermes_tools instead\n"
                 "True os.system: processes cannot be started here; use terminal() from hermes_tools instead\n"
                 "True os.popen: processes cannot be started here; use terminal() from hermes_tools instead\n"
                 "True os.fork: processes cannot be started here; use terminal() from hermes_tools instead\n")
        self.assertNotIn("terminal", run("import os; os.system('ls')", tools=["read_file"]).stderr.split("Error")[-1])

    def test_network(self):
        self.check("""
            import socket, urllib.request, http.client
            for call in (lambda: socket.create_connection(("example.com", 80)), lambda: socket.socket(),
                         lambda: http.client.HTTPConnection("example.com").request("GET", "/"),
                         lambda: http.client.HTTPSConnection("example.com").request("GET", "/"),
                         lambda: urllib.request.urlopen("https://example.com"), lambda: socket.gethostbyname("example.com")):
                try: call()
                except OSError as e: print(str(e).partition("]")[2].strip())
            print(urllib.request.urlopen("data:,hello").read())
            """, "socket.create_connection: there is no network here; use web_extract() from hermes_tools instead\n"
                 "socket.socket: there is no network here; use web_extract() from hermes_tools instead\n"
                 "socket.create_connection: there is no network here; use web_extract() from hermes_tools instead\n"
                 "socket.create_connection: there is no network here; use web_extract() from hermes_tools instead\n"
                 "https: there is no network here; use web_extract() from hermes_tools instead>\n"
                 "socket.gethostbyname: there is no network here; use web_extract() from hermes_tools instead\nb'hello'\n")

    def test_multiprocessing(self):
        result = run("""
            import multiprocessing, concurrent.futures
            def f(x): return x
            for call in (lambda: multiprocessing.Pool(2), lambda: multiprocessing.Process(target=f).start(),
                         lambda: concurrent.futures.ProcessPoolExecutor(), lambda: multiprocessing.Queue()):
                try: call()
                except (OSError, NotImplementedError) as e: print(type(e).__name__, "ThreadPoolExecutor" in str(e))
            from multiprocessing.pool import ThreadPool
            from multiprocessing.dummy import Pool
            with ThreadPool(3) as p: print(p.map(f, [1, 2]), p.starmap(max, [(1, 2)]), p.apply(f, (3,)), list(p.imap(f, [4])),
                p.map_async(f, [5]).get(), sorted(p.imap_unordered(f, [1, 0])))
            with Pool(2) as p: print(p.map(f, "ab"))
            """)
        self.assertEqual(result.stdout, "OSError True\nOSError True\nNotImplementedError True\nOSError True\n"
                                        "[1, 2] [2] 3 [4] [5] [0, 1]\n['a', 'b']\n", result)

    def test_interaction(self):
        result = run("""
            import pdb, webbrowser
            for call in (breakpoint, pdb.set_trace, lambda: webbrowser.open("http://x")):
                try: call()
                except Exception as e: print(type(e).__name__, e)
            """)
        self.assertEqual(result.stdout,
                         "RuntimeError breakpoint(): there is no terminal to debug from; print what you want to see\n"
                         "RuntimeError pdb: there is no terminal to debug from; print what you want to see\n"
                         "Error there is no browser here; use web_extract() from hermes_tools to read a page\n", result)


class Programs(SameAsCPython):
    def test_signal_and_sleep(self):
        self.same("import signal, time\nprint(signal.SIGINT.name)\nt = time.time(); time.sleep(0.01); print(time.time() - t >= 0.01)\n"
                  "for bad in (-1, float('nan'), 'x', None):\n    try: time.sleep(bad)\n"
                  "    except (ValueError, TypeError) as e: print(type(e).__name__, e)\n")

    def test_tempfile(self):
        self.same("import tempfile, os\nwith tempfile.TemporaryDirectory() as d:\n    p = os.path.join(d, 'x')\n"
                  "    open(p, 'w').write('1')\n    print(os.listdir(d))\nwith tempfile.NamedTemporaryFile('w+') as f:\n"
                  "    f.write('a'); f.seek(0); print(f.read())\n")

    def test_unclosed_files_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f")
            run(f"f = open({path!r}, 'w')\nf.write('data')\nclass A:\n    def __init__(self): self.me = self; "
                f"self.f = open({path!r} + '2', 'w'); self.f.write('more')\na = A()\n", files=folder)
            texts = []
            for name in (path, path + "2"):
                with open(name) as file:
                    texts.append(file.read())
            self.assertEqual(texts, ["data", "more"])


if __name__ == "__main__":
    unittest.main()
