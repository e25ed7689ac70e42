"""The rewrite pass by itself, on the running CPython and on every older one that is installed (3.8 and later)."""

import asyncio
import glob
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
import _gp_rewrite as rewrite  # noqa: E402

log = []


class Deferred:
    """What a deferred tool returns: must be awaited."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        log.append("awaited")
        return self.value
        yield

    def __hash__(self):
        return id(self)


class Defer:
    def __matmul__(self, function):
        if function is tool:
            return lambda *args: log.append("deferred") or Deferred(args[0])
        return function


class Await:
    def __matmul__(self, value):
        return Deferred(value) if isinstance(value, (str, dict, list)) else value


def tool(x):
    log.append("plain")
    return x


def run(source):
    """Executes a source and returns (what it left in `out`, the log of tool calls)."""
    log.clear()
    code = rewrite.compile_source(source, "script.py", Await(), Defer())
    namespace = {"tool": tool, "asyncio": asyncio, "__name__": "test"}
    exec(code, namespace)
    return namespace.get("out"), list(log), namespace


def body(text):
    return run("import asyncio\nasync def main():\n    " + text.replace("\n", "\n    ")
               + "\nout = asyncio.get_event_loop_policy().new_event_loop().run_until_complete(main())\n")[:2]


class Rewrite(unittest.TestCase):
    def deferred(self, text, out, count):
        self.assertEqual(body(text), (out, ["deferred"] * count + ["awaited"] * count))

    def plain(self, text, out, count):
        result, calls = body(text)
        self.assertEqual((result, calls[:count]), (out, ["plain"] * count))

    def test_awaited(self):
        self.assertEqual(body("return [await tool('a'), await tool('b')]"), (["a", "b"], ["deferred", "awaited"] * 2))

    def test_sinks(self):
        self.deferred("return await asyncio.gather(tool('a'), tool('b'))", ["a", "b"], 2)
        self.deferred("return await asyncio.gather(*[tool(x) for x in 'ab'])", ["a", "b"], 2)
        self.deferred("return await asyncio.gather(*map(tool, 'ab'))", ["a", "b"], 2)
        self.deferred("return await asyncio.wait_for(tool('a'), 5)", "a", 1)
        self.deferred("return await asyncio.gather(*(tool(x) if x else tool('z') for x in 'ab'))", ["a", "b"], 2)
        self.deferred("return await asyncio.gather(*{x: tool(x) for x in 'ab'}.values())", ["a", "b"], 2)
        self.deferred("return await asyncio.gather(*([tool('a')] + [tool('b')]))", ["a", "b"], 2)

    def test_names(self):
        self.deferred("ts = [tool(x) for x in 'ab']\nreturn await asyncio.gather(*ts)", ["a", "b"], 2)
        self.deferred("ts = []\nfor x in 'ab':\n    ts.append(tool(x))\nif ts and len(ts):\n"
                      "    return await asyncio.gather(*ts)", ["a", "b"], 2)
        self.deferred("d = {}\nfor x in 'ab':\n    d[x] = tool(x)\nreturn dict(zip(d, await asyncio.gather(*d.values())))",
                      {"a": "a", "b": "b"}, 2)
        self.deferred("t, = 'x',\na = tool('a')\nreturn await a", "a", 1)

    def test_plain_uses(self):
        self.plain("t = tool('a')\nreturn t.upper()", "A", 1)
        self.plain("t = tool('a')\nprint(t, end='') if 0 else None\nx = t + 'b'\nreturn x, await asyncio.gather(t) if 0 else 1",
                   ("ab", 1), 1)
        self.plain("ts = [tool('a')]\nx = ts[0].upper()\nreturn x", "A", 1)
        self.plain("ts = [tool('a')]\nreturn [t.upper() for t in ts]", ["A"], 1)
        self.plain("ts = [tool('a')]\ndef f(): return ts[0]\nreturn f()", "a", 1)
        self.plain("ts = [tool('a')]\nother = ts\nreturn other", ["a"], 1)
        self.plain("return tool('a')", "a", 1)
        self.plain("class C:\n    async def run(self, x): return x\nreturn await C().run(tool('a'))", "a", 1)

    def test_nothing_is_added_to_namespaces(self):
        source = "async def f(t): return await t\nx = 1\ndel x\n"
        plain, rewritten = {}, run(source)[2]
        exec(compile(source, "script.py", "exec"), plain)
        self.assertEqual(sorted(set(rewritten) - {"tool", "asyncio", "__name__"}), sorted(plain))
        self.assertEqual(rewritten["f"].__code__.co_names, plain["f"].__code__.co_names)
        self.assertEqual(rewritten["f"].__code__.co_varnames, plain["f"].__code__.co_varnames)

    def test_positions(self):
        source = "import asyncio\nasync def f():\n    return [\n        await g(1),\n        await asyncio.gather(tool('x')),\n    ]\n"
        plain = compile(source, "script.py", "exec")
        code = rewrite.compile_source(source, "script.py", Await(), Defer())

        def inner(code):
            return next(c for c in code.co_consts if hasattr(c, "co_code") and c.co_name == "f")

        def places(code):
            if hasattr(code, "co_positions"):
                return {p for p in code.co_positions()}
            import dis
            return {line for _, line in dis.findlinestarts(code)}

        self.assertLessEqual(places(inner(code)), places(inner(plain)))

    def test_sources(self):
        self.assertEqual(run(b"\xef\xbb\xbfout = 'bom'\nasync def f(): await f()\n")[0], "bom")
        self.assertEqual(run("# coding: latin-1\nout = '\xe9'\nasync def f(): await f()\n".encode("latin-1"))[0], "\xe9")
        self.assertEqual(run("out = 1\r\nasync def f():\r\n    await f()\r\n")[0], 1)
        with self.assertRaises(SyntaxError):
            run("async def f(: pass")

    def test_deep_expression_still_compiles(self):
        self.assertEqual(run("out = " + "+".join(["1"] * 900) + "\nasync def f(): await f()\n")[0], 900)

    @unittest.skipIf("GLOVEPORT_NESTED" in os.environ, "already the nested run")
    def test_other_versions(self):
        found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
        usable = [path for path in found if int(path.split("/versions/3.")[1].split(".")[0]) >= 8]
        if not usable:
            self.skipTest("no other CPython is installed")
        for path in usable:
            with self.subTest(path=path):
                child = subprocess.run([path, os.path.abspath(__file__)], capture_output=True,
                                       env={**os.environ, "GLOVEPORT_NESTED": "1"})
                self.assertEqual(child.returncode, 0, child.stderr.decode())


if __name__ == "__main__":
    unittest.main()
