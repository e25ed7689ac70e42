"""The tool module: signatures, argument checks, answers, helpers."""

import unittest

from helpers import ShimTest, run


class Module(ShimTest):
    def test_function(self):
        self.check("""
            import inspect
            from hermes_tools import read_file
            print(read_file.__name__, read_file.__doc__, inspect.signature(read_file), read_file.__module__)
            print(inspect.isfunction(read_file), callable(read_file), read_file.__annotations__)
            print(inspect.getfullargspec(read_file).args)
            """, "read_file Read a file. (path: str, offset: int = 1, limit: int = 500) -> dict hermes_tools\n"
                 "True True {'path': <class 'str'>, 'offset': <class 'int'>, 'limit': <class 'int'>, 'return': <class 'dict'>}\n"
                 "['path', 'offset', 'limit']\n")

    def test_sends_only_what_was_given(self):
        result = run("""
            from hermes_tools import read_file
            read_file("a"); read_file(path="b"); read_file("c", 2); read_file("d", limit=3); read_file("e", nope=1); read_file()
            """)
        self.assertEqual([args for _, args in result.calls], [
            {"path": "a"}, {"path": "b"}, {"path": "c", "offset": 2}, {"path": "d", "limit": 3}, {"path": "e", "nope": 1}, {}])

    def test_not_enabled(self):
        self.check("from hermes_tools import terminal", "",
                   'Traceback (most recent call last):\n  File "script.py", line 1, in <module>\n'
                   "    from hermes_tools import terminal\n"
                   "ImportError: cannot import name 'terminal' from 'hermes_tools': this tool is not enabled here. "
                   "Available: read_file, raw\n", 1, tools=["read_file", "raw"])
        self.check("""
            import hermes_tools
            print(hasattr(hermes_tools, "terminal"), getattr(hermes_tools, "terminal", None))
            print(dir(hermes_tools)[-4:], hermes_tools.__all__)
            """, "False None\n['json_parse', 'read_file', 'retry', 'shell_quote'] "
                 "['read_file', 'json_parse', 'shell_quote', 'retry']\n", tools=["read_file"])

    def test_star_and_module_name(self):
        self.check("from box import *\nprint(read_file('x')['path'], retry.__name__)", "x retry\n", module="box")
        self.check("import box as b\nprint(b.read_file('x')['path'], b.__name__)", "x box\n", module="box")

    def test_import_inside_function_and_twice(self):
        self.check("""
            def f():
                from hermes_tools import read_file
                return read_file
            import hermes_tools
            print(f() is f() is hermes_tools.read_file)
            """, "True\n")

    def test_a_default_of_the_script(self):
        self.check("""
            import json, pathlib
            from hermes_tools import read_file
            json.JSONEncoder.default = lambda self, value: str(value)
            print(read_file(pathlib.PurePosixPath("a/b"))["path"])
            """, "a/b\n")

    def test_arguments_that_json_cannot_carry(self):
        cases = [
            ("float('nan')", "ValueError"), ("[1, float('inf')]", "ValueError"), ("'\\ud800'", "ValueError"),
            ("{'a': '\\udfff'}", "ValueError"), ("{'\\ud800': 1}", "ValueError"), ("{1, 2}", "TypeError"),
            ("b'x'", "TypeError"), ("{1: 2}", "TypeError"), ("{None: 2}", "TypeError"), ("{'a': {True: 2}}", "TypeError"),
            ("[object()]", "TypeError"), ("(lambda: 1)", "TypeError"), ("1j", "TypeError"),
            ("__import__('pathlib').Path('x')", "TypeError"), ("__import__('datetime').date(2020, 1, 1)", "TypeError"),
            ("cyclic", "ValueError"), ("cyclic_dict", "ValueError"), ("deep", "RecursionError"),
        ]
        for text, kind in cases:
            with self.subTest(text=text):
                result = run(f"""
                    from hermes_tools import read_file
                    cyclic = []; cyclic.append(cyclic)
                    cyclic_dict = {{}}; cyclic_dict["x"] = [cyclic_dict]
                    deep = []
                    for _ in range(200_000): deep = [deep]
                    try:
                        read_file({text})
                    except Exception as e:
                        print(type(e).__name__, str(e).startswith("read_file() argument 'path': ") or e)
                    """)
                self.assertEqual(result.stdout.split()[:2], [kind, "True"] if kind != "RecursionError" else [kind, "maximum"],
                                 result)
                self.assertEqual(result.calls, [])

    def test_good_values(self):
        result = run("""
            import enum, collections
            from hermes_tools import raw
            class E(enum.IntEnum): A = 1
            raw({"é": [1, 2.5, None, True, "x\\n", (1, 2), E.A, collections.OrderedDict(a=1), 10**15]})
            shared = [1]; raw([shared, shared])
            """)
        self.assertEqual(result.calls[0][1]["json"], {"é": [1, 2.5, None, True, "x\n", [1, 2], 1, {"a": 1}, 10**15]})
        self.assertEqual(result.calls[1][1]["json"], [[1], [1]])

    def test_answers_are_decoded_once(self):
        self.check(r"""
            from hermes_tools import raw
            for text in ('{"a": [1]}', '[]', '"text"', '"{\\"a\\": 1}"', '1.5', 'null', 'true', '"\\u00e9\\ud83d\\ude00"'):
                print(repr(raw(text)))
            """, "{'a': [1]}\n[]\n'text'\n'{\"a\": 1}'\n1.5\nNone\nTrue\n'é😀'\n")

    def test_refused_call_returns(self):
        result = run("import hermes_tools as h\nf = h.read_file\nprint(f())", tools=["read_file"])
        self.assertEqual(result.exit, 0)

    def test_wrong_positionals(self):
        self.check("""
            from hermes_tools import read_file
            for call in (lambda: read_file(1, 2, 3, 4), lambda: read_file("a", path="b")):
                try: call()
                except TypeError as e: print(e)
            """, "read_file() takes at most 3 positional arguments but 4 were given\n"
                 "read_file() got multiple values for argument 'path'\n")

    def test_no_shim_frames(self):
        self.check("from hermes_tools import read_file\nread_file({1})\n", "",
                   'Traceback (most recent call last):\n  File "script.py", line 2, in <module>\n    read_file({1})\n'
                   "    ~~~~~~~~~^^^^^\nTypeError: read_file() argument 'path': Object of type set is not JSON serializable\n", 1)


class Helpers(ShimTest):
    def test_json_parse(self):
        self.check(r"""
            from hermes_tools import json_parse
            print(json_parse('{"a": "x\ny"}'), json_parse('\ufeff[1]'), json_parse({"a": 1}), json_parse(None), json_parse(b"[2]"))
            """.replace("\\n", "\\n"), "{'a': 'x\\ny'} [1] {'a': 1} None [2]\n")

    def test_shell_quote(self):
        self.check("from hermes_tools import shell_quote\nprint(shell_quote(\"a b'c\"))", "'a b'\"'\"'c'\n")

    def test_retry(self):
        result = self.check("""
            import time
            from hermes_tools import retry
            calls = []
            def flaky():
                calls.append(time.monotonic())
                if len(calls) < 4: raise OSError(len(calls))
                return "done"
            print(retry(flaky, max_attempts=4, delay=0.02))
            gaps = [b - a for a, b in zip(calls, calls[1:])]
            print([gap >= 0.02 * times for gap, times in zip(gaps, (1, 2, 4))])
            calls.clear()
            try: retry(flaky, 2, delay=0)
            except OSError as e: print("last", e)
            """, "done\n[True, True, True]\nlast 2\n")
        self.assertEqual(result.exit, 0)

    def test_retry_with_coroutines(self):
        self.check("""
            import asyncio
            from hermes_tools import retry, read_file
            n = 0
            async def flaky():
                global n
                n += 1
                if n < 3: raise OSError(n)
                return n
            print(asyncio.run(retry(flaky, delay=0)))
            print(retry(lambda: read_file("a"))["path"])
            """, "3\na\n")


if __name__ == "__main__":
    unittest.main()
