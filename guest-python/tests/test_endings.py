"""How scripts end: exit codes, tracebacks and last words are CPython's."""

import unittest

from helpers import SameAsCPython, run


class Endings(SameAsCPython):
    def test_exit_codes(self):
        for value in ("0", "1", "3", "126", "130", "255", "256", "-1", "-256", "None", "True", "False", "2**31", "2**32",
                      "2**32+5", "2**63-1", "-2**63", "'message'", "''", "1.5", "(1, 2)", "[]", "()",
                      "{'a': 1}", "b'x'", "ValueError('x')"):
            with self.subTest(value=value):
                self.same(f"import sys\nprint('out')\nsys.exit({value})\n")

    def test_full_exit_code_is_kept(self):
        self.assertEqual(run("import sys; sys.exit(70000)").exit, 70000)
        self.assertEqual(run("import sys; sys.exit(-7)").exit, -7)
        self.assertEqual(run("import sys; sys.exit(2**70)").exit, -1)

    def test_system_exit_forms(self):
        self.same("raise SystemExit")
        self.same("raise SystemExit(1, 2)")
        self.same("exit(4)")
        self.same("quit()")
        self.same("class E(SystemExit): pass\nraise E(9)")
        self.same("import sys\nsys.stderr.close()\nsys.stderr = None\nsys.exit(7)")

    def test_uncaught(self):
        self.same("1/0")
        self.same("def f(x):\n    return g(x)\ndef g(x):\n    return x['a']\nf({})\n")
        self.same("raise ValueError('a\\nb')")
        self.same("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e\n")
        self.same("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k')\n")
        self.same("raise ExceptionGroup('eg', [ValueError(1), TypeError(2)])")
        self.same("e = ValueError('x')\ne.add_note('note')\nraise e")
        self.same("class A(BaseException): pass\nraise A('b')")
        self.same("prin('x')")
        self.same("x = [1]\nx.foo")
        self.same("raise GeneratorExit")
        self.same("assert 1 == 2, 'no'")
        self.same("class C:\n  def __repr__(self): 1/0\nraise ValueError(C())")
        self.same("class E(Exception):\n  def __str__(self): raise RuntimeError\nraise E")
        self.same("class E(Exception):\n  def __str__(self): return 5\nraise E")

    def test_recursion(self):
        # The depth differs by the few frames below the script, so the script takes the tail of the traceback itself.
        self.same("import traceback\ndef f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as e:\n"
                  "    print(e, traceback.format_exc().count('f(n + 1)'))\n")
        self.same("e = ValueError('0')\nfor i in range(30):\n    try:\n        raise ValueError(str(i)) from e\n"
                  "    except ValueError as x:\n        e = x\nraise e\n")

    def test_syntax_errors(self):
        for code in ("def f(:\n  pass", "x = (1,\n", "print 'x'", "  x = 1", "if True:\nx", "a = 'abc", "return 5",
                     "x = 1 +", "f(**a, *b)", "é = 1\n1x", "\t\tx=1\n  y", "yield 1", "break"):
            with self.subTest(code=code):
                self.same(code if code.endswith("\n") else code + "\n")

    def test_source_forms(self):
        self.same("print('a')\r\nprint('b')\r\nx = '''1\r\n2'''\r\nprint(repr(x))\r\n1/0\r\n")
        self.same("# -*- coding: utf-8 -*-\nprint('é')\n")
        self.same("\ufeffprint('bom', 'é')\n1/0\n")
        self.same("print('no newline')")
        self.same("")
        self.same("print('€ 你好 🎉')\n")

    def test_surrogates(self):
        self.same("print('before')\nprint('\\ud800')\n")
        self.same("import sys\nsys.stderr.write('\\ud800 \\xe9\\n')\n")

    def test_keyboard_interrupt(self):
        result = run("print(1, flush=True)\nraise KeyboardInterrupt")
        self.assertEqual((result.exit, result.stdout), (130, "1\n"))
        self.assertEqual(result.stderr, 'Traceback (most recent call last):\n  File "script.py", line 2, in <module>\n'
                                        "    raise KeyboardInterrupt\nKeyboardInterrupt\n")

    def test_hooks(self):
        self.same("import sys\nsys.excepthook = lambda t, v, tb: print('hook', t.__name__, v)\n1/0")
        self.same("import sys\ndef hook(t, v, tb): raise KeyError('in hook')\nsys.excepthook = hook\n1/0\n")
        self.same("import sys\ndef hook(t, v, tb): sys.exit(5)\nsys.excepthook = hook\n1/0\n")
        self.same("import sys\ndel sys.excepthook\n1/0\n")

    def test_atexit(self):
        self.same("import atexit\natexit.register(print, 'bye')\natexit.register(print, 'first')\nprint('x')")
        self.same("import atexit, sys\natexit.register(print, 'bye')\nsys.exit(3)")
        self.same("import atexit\natexit.register(print, 'bye')\n1/0")

    def test_finalizers(self):
        self.same("class A:\n    def __del__(self): print('del')\na = A()\nprint('end')")
        self.same("class A:\n    def __del__(self): print('del', name)\nname = 'n'\na = A()\na.me = a\nprint('end')")
        self.same("def g():\n    try:\n        yield 1\n    finally:\n        print('closed')\nx = g()\nnext(x)\nprint('end')")
        self.same("import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')\nprint('end')")

    def test_broken_environment(self):
        for code in ("del __builtins__.print\n1/0\n",
                     "import builtins\nbuiltins.__dict__.clear()\n1/0\n",
                     "import sys\nsys.modules.clear()\n1/0\n",
                     "globals().clear()\nraise\n",
                     "import sys\ndel sys.stderr\n1/0\n",
                     "import sys\nsys.stderr.close()\n1/0\n",
                     "import builtins\ndel builtins.isinstance, builtins.len, builtins.str\n1/0\n"):
            with self.subTest(code=code):
                result = run(code)
                self.assertEqual(result.exit, 1)
                self.assertIn("Error", result.stderr)
        result = run("import builtins\nbuiltins.__dict__.clear()\n1/0\n")
        self.assertTrue(result.stderr.endswith("ZeroDivisionError: division by zero\n"), result)

    def test_replaced_streams(self):
        self.same("import sys, io\nsys.stdout = io.StringIO()\nprint('lost')")
        self.same("import sys\nsys.stdout = None\nprint('lost')")
        self.same("import sys\ndel sys.stdout\n")
        self.same("import sys\nprint('kept')\nsys.stdout.close()")
        self.same("import sys\nclass S:\n    def write(self, t): sys.__stdout__.write(t.upper())\n"
                  "    def flush(self): pass\nsys.stdout = S()\nprint('up')")
        self.same("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n    print('x')\nprint(f.getvalue())")

    def test_flush_failure(self):
        result = run("import sys\nclass S:\n    def write(self, t): pass\n    def flush(self): raise OSError('full')\n"
                     "sys.stdout = S()\n")
        self.assertEqual(result.exit, 120)

    def test_report(self):
        self.assertEqual(run("1/0").report, "ZeroDivisionError")
        self.assertEqual(run("raise MemoryError").report, "MemoryError")
        self.assertEqual(run("import sys; sys.exit(3)").report, None)
        self.assertEqual(run("class Mine(Exception): pass\nraise Mine").report, "Mine")

    def test_memory_error(self):
        self.same("def f():\n    x = 1\n    raise MemoryError('big')\nf()\n")

    def test_never_awaited(self):
        self.same("async def f(): pass\nf()\nprint('x')\n")
        self.check("async def f(): pass\nx = f()\nprint('x')\n", "x\n",
                   "<sys>:0: RuntimeWarning: coroutine 'f' was never awaited\n"
                   "RuntimeWarning: Enable tracemalloc to get the object allocation traceback\n")

    def test_warnings(self):
        self.same("import warnings\nwarnings.warn('careful')\n")
        self.same("x = '\\d'\nprint(1)\n")
        self.same("import warnings\ndef f():\n    warnings.warn('deep', DeprecationWarning, stacklevel=2)\nf()\n")

    def test_logging(self):
        self.same("import logging\nlogging.basicConfig(format='%(message)s')\nlogging.error('e')\nlogging.info('i')")
        self.same("import logging\nlogging.warning('w')")
        self.same("import logging\ntry:\n    1/0\nexcept Exception:\n    logging.exception('oops')")

    def test_print_stack(self):
        self.same("import traceback\ndef f():\n    traceback.print_stack()\nf()\nprint(traceback.format_exc())")

    def test_main_module(self):
        self.same("import sys\nm = sys.modules['__main__']\nprint(m.__name__, m.__file__.rpartition('/')[2], m.__spec__, m.__doc__,"
                  " m is __import__('__main__'))\nprint(sorted(globals()))\nprint(__name__)")
        self.same("'''doc'''\nprint(__doc__)\nx: int = 3\nprint(__annotations__)")
        self.same("import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))")
        self.same("import pickle\nclass A:\n    x = 1\nprint(pickle.loads(pickle.dumps(A())).x, A)")
        self.same("import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\nprint(P(1))")


if __name__ == "__main__":
    unittest.main()
