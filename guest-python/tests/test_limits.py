"""Deep nesting, little memory, big output: errors of the script, never of the shim."""

import unittest

from helpers import ShimTest, run


class Deep(ShimTest):
    def test_deep_answer(self):
        result = run("""
            from hermes_tools import raw
            for text in ("[" * 100_000 + "]" * 100_000, "{"):
                try: raw(text)
                except (RecursionError, ValueError) as e: print(type(e).__name__)
            print(raw("[" * 200 + "]" * 200) is not None)
            """)
        self.assertEqual(result.stdout, "RecursionError\nJSONDecodeError\nTrue\n", result)

    def test_deep_source(self):
        for source in ("x = " + "(" * 150 + "1" + ")" * 150, "x = " + "-" * 3000 + "1", "x = " + "+".join(["1"] * 3000),
                       "x = " + "[" * 90 + "]" * 90, "\n".join(" " * i + "if 1:" for i in range(95)) + "\n" + " " * 95 + "x = 1"):
            for prefix in ("", "async def f(): await g()\n"):
                with self.subTest(source=source[:20], prefix=prefix):
                    result = run(prefix + source + "\nprint('ran')\n", dedent=False)
                    self.assertTrue(result.stdout == "ran\n" or "Error" in result.stderr, result)
                    self.assertIn(result.exit, (0, 1))

    def test_long_expression_in_async_script(self):
        result = run("import asyncio\nfrom hermes_tools import read_file\nx = " + " + ".join(["1"] * 400) + "\n"
                     "async def main(): print(x, [r['path'] for r in await asyncio.gather(*[read_file(p) for p in 'abc'])])\n"
                     "asyncio.run(main())\n", dedent=False)
        self.assertEqual(result.stdout, "400 ['a', 'b', 'c']\n", result)

    def test_recursion_in_thread_and_repr(self):
        result = run("""
            import threading
            def f(): return f()
            def g():
                try: f()
                except RecursionError: print("recursion")
            t = threading.Thread(target=g); t.start(); t.join()
            x = []
            for _ in range(100_000): x = [x]
            try: repr(x)
            except RecursionError: print("repr")
            """)
        self.assertEqual(result.stdout, "recursion\nrepr\n", result)

    def test_many_threads(self):
        result = run("""
            import threading, time
            from concurrent.futures import ThreadPoolExecutor
            from hermes_tools import read_file
            def f(i): return read_file(str(i))["path"]
            with ThreadPoolExecutor(100) as ex: print(len(set(ex.map(f, range(300)))))
            lock, n = threading.Lock(), 0
            def g():
                global n
                x = [time.sleep(0) for _ in range(2)]
                with lock: n += 1
            ts = [threading.Thread(target=g) for _ in range(300)]
            [t.start() for t in ts]; [t.join() for t in ts]
            print(n)
            """)
        self.assertEqual(result.stdout, "300\n300\n", result)
        self.assertEqual(result.at_once, 100)

    def test_output(self):
        result = run("import sys\nfor i in range(20000): print('x' * 99)\nprint('y' * 3_000_000)\nsys.stderr.write('z' * 200_000)")
        self.assertEqual((len(result.stdout), len(result.stderr)), (5_000_001, 200_000))


if __name__ == "__main__":
    unittest.main()
