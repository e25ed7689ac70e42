"""Tool calls in asyncio code: right values, at the same time on the host, and an event loop that behaves."""

import unittest

from helpers import SameAsCPython, ShimTest, run

PRELUDE = """
import asyncio, time
from hermes_tools import read_file
def names(results): return [r["path"] for r in results]
"""


class Concurrent(ShimTest):
    def concurrent(self, body, stdout, at_once=3):
        result = run(PRELUDE + body, dedent=False)
        self.assertEqual((result.stdout, result.stderr, result.exit), (stdout, "", 0), f"\n{result!r}")
        self.assertEqual(result.at_once, at_once, f"\n{result!r}")
        return result

    def test_await(self):
        self.concurrent("""
async def main():
    r = await read_file("a")
    print(type(r).__name__, r["path"])
    print((await read_file("b"))["path"], [await read_file(p) for p in "cd"][1]["path"])
asyncio.run(main())
""", "dict a\nb d\n", 1)

    def test_top_level_await(self):
        self.concurrent("""
r = await read_file("a")
print(r["path"], names(await asyncio.gather(*(read_file(p) for p in "bcd"))))
async def agen():
    for i in range(2): yield i
async for i in agen(): print(i)
async with asyncio.timeout(5):
    print((await read_file("z"))["path"])
async def main(): return 7
print(asyncio.run(main()))
""", "a ['b', 'c', 'd']\n0\n1\nz\n7\n")

    def test_gather_forms(self):
        for expression in ('asyncio.gather(read_file("a"), read_file("b"), read_file("c"))',
                           'asyncio.gather(*[read_file(p) for p in "abc"])',
                           'asyncio.gather(*(read_file(p) for p in "abc"))',
                           'asyncio.gather(*map(read_file, "abc"))',
                           'asyncio.gather(*[read_file("a"), read_file("b")], read_file("c"))',
                           'asyncio.gather(*{p: read_file(p) for p in "abc"}.values())',
                           'asyncio.gather(*[asyncio.create_task(read_file(p)) for p in "abc"])',
                           'asyncio.gather(*[asyncio.ensure_future(read_file(p)) for p in "abc"])',
                           'asyncio.gather(*[asyncio.wait_for(read_file(p), 5) for p in "abc"])',
                           'asyncio.gather(*[asyncio.shield(read_file(p)) for p in "abc"])',
                           'asyncio.gather(*[asyncio.to_thread(read_file, p) for p in "abc"])',
                           'asyncio.gather(*[asyncio.to_thread(lambda p=p: read_file(p)) for p in "abc"])',
                           'asyncio.gather(*[asyncio.get_running_loop().run_in_executor(None, read_file, p) for p in "abc"])',
                           'asyncio.gather(*[one(p) for p in "abc"])',
                           'asyncio.gather(*[aplain(p) for p in "abc"])'):
            with self.subTest(expression=expression):
                at_once = 3
                self.concurrent(f"""
async def one(p): return await read_file(p)
async def aplain(p): return await asyncio.to_thread(plain, p)
def plain(p):
    r = read_file(p)
    return r
async def main():
    print(names(await {expression}))
asyncio.run(main())
""", "['a', 'b', 'c']\n", at_once)

    def test_collected_in_names(self):
        for body in ('ts = [read_file(p) for p in "abc"]; r = await asyncio.gather(*ts)',
                     'ts = []\n    for p in "abc": ts.append(read_file(p))\n    r = await asyncio.gather(*ts)',
                     'ts = [asyncio.create_task(read_file(p)) for p in "abc"]\n    r = [await t for t in ts]',
                     'ts = [read_file(p) for p in "abc"]\n    r = [await t for t in ts]',
                     'ts = [read_file(p) for p in "abc"]\n    r = []\n    for t in ts: r.append(await t)',
                     'ts = [read_file(p) for p in "abc"]\n    print(len(ts) and "") \n    if ts: r = await asyncio.gather(*ts)',
                     'a = read_file("a"); b = read_file("b"); c = read_file("c")\n    r = [await a, await b, await c]',
                     'a = read_file("a"); b = read_file("b"); c = read_file("c")\n    r = await asyncio.gather(a, b, c)',
                     'd = {p: read_file(p) for p in "abc"}\n    r = await asyncio.gather(*d.values())',
                     'd = {p: read_file(p) for p in "abc"}\n    r = [await t for k, t in d.items()]',
                     'd = {p: read_file(p) for p in "abc"}\n    r = [await d[k] for k in d]',
                     'd = {}\n    for p in "abc": d[p] = read_file(p)\n    r = list(dict(zip(d, await asyncio.gather(*d.values()))).values())',
                     'ts = []\n    ts += [read_file("a")]\n    ts.extend(read_file(p) for p in "bc")\n    r = await asyncio.gather(*ts)',
                     'ts = [read_file(p) for p in "abc"]\n    r = [await t for i, t in enumerate(ts)]',
                     'ts = [read_file(p) for p in "abc"]\n    r = [await t for p, t in zip("abc", ts)]',
                     'g = (read_file(p) for p in "abc")\n    r = await asyncio.gather(*g)',
                     'async with asyncio.TaskGroup() as tg:\n        ts = [tg.create_task(read_file(p)) for p in "abc"]\n'
                     '    r = [t.result() for t in ts]',
                     'ts = [read_file(p) for p in "abc"]\n    r = []\n    for t in asyncio.as_completed(ts): r.append(await t)'
                     '\n    r.sort(key=lambda x: x["path"])',
                     'ts = [asyncio.create_task(read_file(p)) for p in "abc"]\n    done, _ = await asyncio.wait(ts)\n'
                     '    r = sorted((t.result() for t in done), key=lambda x: x["path"])'):
            with self.subTest(body=body):
                stdout = "\n" if "print(" in body else ""
                self.concurrent(f"""
async def main():
    {body}
    print(names(r))
asyncio.run(main())
""", stdout + "['a', 'b', 'c']\n")

    def test_plain_use_stays_plain(self):
        for body in ('t = read_file("a"); print(t["path"]); r = await asyncio.gather(t)',
                     'ts = [read_file(p) for p in "a"]; print(ts[0]["path"]); r = await asyncio.gather(*ts)',
                     't = read_file("a")\n    def f(): return t["path"]\n    print(f()); r = [await t]',
                     't = read_file("a")\n    print(t["path"])\n    r = [await asyncio.create_task(t)]',
                     't = read_file("a")\n    print(t["path"])\n    r = [await asyncio.ensure_future(t)]',
                     't = read_file("a"); print("path" in t and "a"); r = [await t]'):
            with self.subTest(body=body):
                self.concurrent(f"""
async def main():
    {body}
    print(names(r))
asyncio.run(main())
""", "a\n['a']\n", 1)

    def test_plain_call_in_coroutine(self):
        self.concurrent("""
async def main():
    r = read_file("a")
    print(type(r) is dict, r["path"])
    return read_file("b")
print(asyncio.run(main())["path"], asyncio.run(read_file("c"))["path"])
""", "True a\nb c\n", 1)

    def test_semaphore_bounds(self):
        self.concurrent("""
async def one(sem, p):
    async with sem:
        return await read_file(p)
async def main():
    sem = asyncio.Semaphore(2)
    print(names(await asyncio.gather(*[one(sem, p) for p in "abcdef"])))
asyncio.run(main())
""", "['a', 'b', 'c', 'd', 'e', 'f']\n", 2)

    def test_partial_and_alias(self):
        self.concurrent("""
from functools import partial
f = partial(read_file, offset=2)
g = read_file
async def main():
    print(names(await asyncio.gather(f("a"), g("b"), partial(read_file, "c")())))
asyncio.run(main())
""", "['a', 'b', 'c']\n")

    def test_mixed_with_other_awaitables(self):
        result = self.concurrent("""
async def main():
    start = time.monotonic()
    r = await asyncio.gather(read_file("a"), asyncio.sleep(0.02, "slept"), read_file("b"))
    print(r[0]["path"], r[1], r[2]["path"], time.monotonic() - start < 0.15)
asyncio.run(main())
""", "a slept b True\n", 2)
        self.assertEqual(result.running, 0)

    def test_cancel_drops(self):
        result = run(PRELUDE + """
async def main():
    t = asyncio.create_task(read_file("a", delay=30))
    await asyncio.sleep(0.01)
    t.cancel()
    try: await t
    except asyncio.CancelledError: print("cancelled")
    try: await asyncio.wait_for(read_file("b", delay=30), 0.02)
    except TimeoutError: print("timeout")
    try:
        async with asyncio.timeout(0.02): await read_file("c", delay=30)
    except TimeoutError: print("timeout")
asyncio.run(main())
""", dedent=False)
        self.assertEqual((result.stdout, result.stderr, result.dropped), ("cancelled\ntimeout\ntimeout\n", "", 3), result)

    def test_errors_in_arguments(self):
        self.concurrent("""
async def main():
    try: await read_file({1})
    except TypeError as e: print(e)
    r = await asyncio.gather(read_file("a"), bad(), return_exceptions=True)
    print(r[0]["path"], repr(r[1]))
async def bad(): raise KeyError("x")
asyncio.run(main())
""", "read_file() argument 'path': Object of type set is not JSON serializable\na KeyError('x')\n", 1)

    def test_many(self):
        result = run(PRELUDE + """
async def main():
    r = await asyncio.gather(*[read_file(str(i)) for i in range(200)])
    print(names(r) == [str(i) for i in range(200)])
asyncio.run(main())
""", dedent=False, max_running=16)
        self.assertEqual((result.stdout, result.at_once), ("True\n", 16), result)

    def test_imported_names(self):
        self.concurrent("""
from asyncio import gather as g, run
async def main():
    ts = [read_file(p) for p in "abc"]
    print(names(await g(*ts)))
run(main())
""", "['a', 'b', 'c']\n")

    def test_old_loop_api(self):
        self.concurrent("""
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
print(names(loop.run_until_complete(asyncio.gather(*[read_file(p) for p in "ab"], loop.create_task(read_file("c"))))))
print(loop.run_until_complete(read_file("d"))["path"])
loop.close()
""".replace('asyncio.gather(*[read_file(p) for p in "ab"], loop.create_task(read_file("c")))', 'main()').replace(
            "loop = ", """
async def main():
    return await asyncio.gather(*[read_file(p) for p in "ab"], asyncio.get_running_loop().create_task(read_file("c")))
loop = """, 1), "['a', 'b', 'c']\nd\n")

    def test_traceback_positions(self):
        result = run(PRELUDE + """
async def main():
    x = [await read_file("a"), 1 / 0]
asyncio.run(main())
""", dedent=False)
        lines = result.stderr.split("\n")
        self.assertEqual(lines[:4] + lines[-5:], [
            "Traceback (most recent call last):", '  File "script.py", line 8, in <module>', "    asyncio.run(main())",
            "    ~~~~~~~~~~~^^^^^^^^", '  File "script.py", line 7, in main', '    x = [await read_file("a"), 1 / 0]',
            "                               ~~^~~", "ZeroDivisionError: division by zero", ""], result)
        # asyncio's own frames are there, as in CPython; ours are not.
        self.assertEqual([line.split("/")[-1].split('"')[0] for line in lines if line.startswith("  File")],
                         ["  File ", "runners.py", "runners.py", "base_events.py", "  File "], result)


class Loop(SameAsCPython):
    def test_standard_programs(self):
        self.same("""
            import asyncio
            async def producer(q):
                for i in range(3):
                    await q.put(i); await asyncio.sleep(0)
                await q.put(None)
            async def consumer(q):
                while (x := await q.get()) is not None: print("got", x)
            async def main():
                q = asyncio.Queue(1)
                await asyncio.gather(producer(q), consumer(q))
                e = asyncio.Event(); asyncio.get_running_loop().call_later(0.01, e.set); await e.wait()
                lock = asyncio.Lock()
                async with lock: print("locked", lock.locked())
                print(await asyncio.wait_for(asyncio.sleep(0, 5), 1))
                try: await asyncio.wait_for(asyncio.sleep(10), 0.01)
                except TimeoutError as e: print("timeout", repr(e))
                async with asyncio.TaskGroup() as tg:
                    ts = [tg.create_task(asyncio.sleep(0.001 * i, i)) for i in range(3)]
                print([t.result() for t in ts])
                for c in asyncio.as_completed([asyncio.sleep(0.02, "b"), asyncio.sleep(0.001, "a")]): print(await c)
                print(await asyncio.to_thread(sum, [1, 2]))
                print(await asyncio.get_running_loop().run_in_executor(None, lambda: 9))
            asyncio.run(main())
            """)

    def test_exceptions(self):
        self.same("import asyncio\nasync def main():\n    async with asyncio.TaskGroup() as tg:\n"
                  "        tg.create_task(asyncio.sleep(5))\n        tg.create_task(bad())\n"
                  "async def bad(): raise ValueError('x')\n"
                  "try: asyncio.run(main())\nexcept* ValueError as e: print(e.exceptions)\n")
        self.same("import asyncio\nasync def main(): asyncio.run(main2())\nasync def main2(): pass\n"
                  "try: asyncio.run(main())\nexcept RuntimeError as e: print(e)\n")
        self.same("import asyncio\nasync def main(): raise SystemExit(3)\nasyncio.run(main())\n")
        self.same("import asyncio\nasync def f(): await 5.5j\ntry: asyncio.run(f())\nexcept TypeError as e: print(e)\n")

    def test_async_generators_and_contextvars(self):
        self.same("""
            import asyncio, contextvars
            v = contextvars.ContextVar("v", default=0)
            async def gen():
                try:
                    for i in range(3): yield i
                finally: print("closed")
            async def child(): v.set(5); return v.get()
            async def main():
                async for i in gen():
                    if i: break
                print([i async for i in gen()], await asyncio.create_task(child()), v.get())
                v.set(7)
                print(await asyncio.to_thread(v.get))
            asyncio.run(main())
            """)

    def test_thread_safe_calls(self):
        self.same("""
            import asyncio, threading
            async def work(x): await asyncio.sleep(0.001); return x * 2
            async def main():
                loop = asyncio.get_running_loop()
                done = asyncio.Event()
                threading.Thread(target=loop.call_soon_threadsafe, args=(done.set,)).start()
                await done.wait()
                print("set")
                print(await asyncio.to_thread(asyncio.run, work(4)))
            asyncio.run(main())
            """)

    def test_deadlock(self):
        result = run("import asyncio\nasync def main(): await asyncio.Event().wait()\n"
                     "try: asyncio.run(main())\nexcept RuntimeError as e: print(type(e), str(e)[:9])")
        self.assertIn("deadlock:", result.stdout)

    def test_no_network_or_processes(self):
        result = run("""
            import asyncio
            async def main():
                for c in (asyncio.open_connection("example.com", 80), asyncio.create_subprocess_shell("ls")):
                    try: await c
                    except NotImplementedError as e: print(e)
            asyncio.run(main())
            """)
        self.assertEqual(result.stdout, "there is no network here; use web_extract() from hermes_tools instead\n"
                                        "processes cannot be started here; use terminal() from hermes_tools instead\n", result)


if __name__ == "__main__":
    unittest.main()
