"""Threads, pools and their primitives: CPython's results, tool calls at the same time, no hangs."""

import unittest

from helpers import SameAsCPython, ShimTest, run

PRELUDE = """
import threading, time, queue
from concurrent.futures import ThreadPoolExecutor, as_completed, wait, FIRST_COMPLETED
from hermes_tools import read_file
"""


class Concurrent(ShimTest):
    def concurrent(self, body, stdout, at_once=3, stderr="", **job):
        result = run(PRELUDE + body, dedent=False, **job)
        self.assertEqual((result.stdout, result.stderr, result.exit), (stdout, stderr, 0), f"\n{result!r}")
        self.assertEqual(result.at_once, at_once, f"\n{result!r}")
        return result

    def test_pool_of_tools(self):
        for body in ('with ThreadPoolExecutor() as ex: r = list(ex.map(read_file, "abc"))',
                     'with ThreadPoolExecutor() as ex: r = [f.result() for f in [ex.submit(read_file, p) for p in "abc"]]',
                     'with ThreadPoolExecutor() as ex: r = list(ex.map(lambda p: read_file(p), "abc"))',
                     'ex = ThreadPoolExecutor(max_workers=3)\nr = list(ex.map(lambda p: read_file(path=p), "abc"))',
                     'with ThreadPoolExecutor() as ex:\n    fs = {ex.submit(read_file, p): p for p in "abc"}\n'
                     '    r = sorted((f.result() for f in as_completed(fs)), key=lambda x: x["path"])',
                     'with ThreadPoolExecutor() as ex:\n    fs = [ex.submit(read_file, p) for p in "abc"]\n'
                     'r = [f.result() for f in fs]',
                     'with ThreadPoolExecutor() as ex:\n    fs = [ex.submit(read_file, p) for p in "abc"]\n'
                     '    done, pending = wait(fs, timeout=5)\n    r = [f.result() for f in fs if f in done]',
                     'from functools import partial\nwith ThreadPoolExecutor() as ex: '
                     'r = list(ex.map(partial(read_file, offset=2), "abc"))'):
            with self.subTest(body=body):
                self.concurrent(f'{body}\nprint([x["path"] for x in r])\n', "['a', 'b', 'c']\n")

    def test_plain_functions(self):
        for definition in (
                'def f(p):\n    r = read_file(p)\n    return r["path"]',
                'def f(p):\n    """doc"""\n    try:\n        r = read_file(p)\n    except Exception as e:\n        return str(e)\n'
                '    finally:\n        pass\n    return r["path"]',
                'def f(p, *, n=2):\n    out = []\n    for i in range(n):\n        out.append(read_file(p, offset=i))\n'
                '    return out[0]["path"]',
                'def f(p):\n    return [read_file(p, offset=i)["path"] for i in range(2)][0]',
                'def inner(p): return read_file(p)\ndef f(p): return inner(p)["path"]',
                'class C:\n    def __init__(self): self.n = 0\n    def get(self, p):\n        self.n += 1\n        '
                'return read_file(p)["path"]\nc = C()\nf = c.get',
                'class C:\n    def __call__(self, p): return self.__get(p)\n    def __get(self, p): return read_file(p)["path"]\nf = C()',
                'class A:\n    def get(self, p): return read_file(p)["path"]\nclass B(A):\n    def get(self, p): return super().get(p)\n'
                'f = B().get',
                'def outer():\n    cache = {}\n    def f(p):\n        if p not in cache: cache[p] = read_file(p)\n        '
                'return cache[p]["path"]\n    return f\nf = outer()',
                'import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    def wrapper(*a, **k): return fn(*a, **k)\n'
                '    return wrapper\n@deco\ndef f(p): return read_file(p)["path"]',
                'lock = threading.Lock()\ndef f(p):\n    r = read_file(p)\n    with lock:\n        return r["path"]',
                'def f(p):\n    while True:\n        r = read_file(p)\n        if r: break\n    return f"{r[\'path\']}"',
                'f = lambda p: (lambda q: read_file(q))(p)["path"]',
                'reader = read_file\ndef f(p): return reader(p)["path"]',
                'def call(fn, *a): return fn(*a)\ndef f(p): return call(read_file, p)["path"]',
                'import hermes_tools\ndef f(p): return hermes_tools.read_file(p)["path"]',
                'def f(p):\n    from hermes_tools import read_file as rf\n    return rf(p)["path"]',
                'from hermes_tools import retry\ndef f(p): return retry(lambda: read_file(p))["path"]',
                'def f(p):\n    match read_file(p):\n        case {"path": x}: return x'):
            with self.subTest(definition=definition):
                self.concurrent(f'{definition}\nwith ThreadPoolExecutor() as ex: print(list(ex.map(f, "abc")))\n'
                                'ts = []\nout = {}\n'
                                'for p in "abc":\n    t = threading.Thread(target=lambda p=p: out.__setitem__(p, f(p)))\n'
                                '    t.start(); ts.append(t)\n'
                                'for t in ts: t.join()\nprint([out[p] for p in "abc"])\n',
                                "['a', 'b', 'c']\n['a', 'b', 'c']\n")

    def test_threads_of_tools(self):
        self.concurrent("""
results = {}
def work(p): results[p] = read_file(p)["path"]
ts = [threading.Thread(target=work, args=(p,)) for p in "abc"]
for t in ts: t.start()
print([t.is_alive() for t in ts])
for t in ts: t.join()
print(sorted(results), [t.is_alive() for t in ts])
t = threading.Thread(target=read_file, args=("z",)); t.start(); t.join()
class T(threading.Thread):
    def __init__(self, p): super().__init__(); self.p = p
    def run(self): self.r = read_file(self.p)["path"]
ts = [T(p) for p in "xyz"]
[t.start() for t in ts]; [t.join() for t in ts]
print([t.r for t in ts])
""", "[True, True, True]\n['a', 'b', 'c'] [False, False, False]\n['x', 'y', 'z']\n")

    def test_max_workers(self):
        self.concurrent('with ThreadPoolExecutor(max_workers=2) as ex: print(len(list(ex.map(read_file, "abcdef"))))', "6\n", 2)

    def test_starts_at_once(self):
        self.concurrent("""
ex = ThreadPoolExecutor()
f = ex.submit(read_file, "a", delay=0.5)
end = time.monotonic() + 0.6
while time.monotonic() < end: pass
t = time.monotonic(); f.result()
print(time.monotonic() - t < 0.3)
""", "True\n", 1)

    def test_plain_call_beside_threads(self):
        self.concurrent("""
ex = ThreadPoolExecutor()
f = ex.submit(read_file, "a"); g = ex.submit(lambda: read_file("b"))
print(read_file("c")["path"], f.result()["path"], g.result()["path"])
""", "c a b\n")

    def test_worker_queue(self):
        self.concurrent("""
q, out = queue.Queue(), []
def worker():
    while True:
        item = q.get()
        if item is None: break
        out.append(read_file(item)["path"])
        q.task_done()
ts = [threading.Thread(target=worker) for _ in range(3)]
for t in ts: t.start()
for p in "abcdef": q.put(p)
q.join()
for _ in ts: q.put(None)
for t in ts: t.join()
print(sorted(out))
""", "['a', 'b', 'c', 'd', 'e', 'f']\n")

    def test_iter_get(self):
        self.concurrent("""
q, out = queue.Queue(), []
def worker():
    for item in iter(q.get, None): out.append(read_file(item)["path"])
ts = [threading.Thread(target=worker) for _ in range(3)]
for t in ts: t.start()
for p in "abc": q.put(p)
for _ in ts: q.put(None)
for t in ts: t.join()
print(sorted(out))
""", "['a', 'b', 'c']\n")

    def test_semaphore(self):
        self.concurrent("""
sem = threading.Semaphore(2)
def f(p):
    with sem: return read_file(p)["path"]
with ThreadPoolExecutor() as ex: print(list(ex.map(f, "abcdef")))
""", "['a', 'b', 'c', 'd', 'e', 'f']\n", 2)

    def test_sleeping_threads_overlap(self):
        result = run("""
            import threading, time
            from concurrent.futures import ThreadPoolExecutor
            def nap(i): time.sleep(0.3); return i
            with ThreadPoolExecutor() as ex: print(list(ex.map(nap, range(8))))
            with ThreadPoolExecutor() as ex: list(ex.map(time.sleep, [0.3] * 8))
            ts = [threading.Thread(target=time.sleep, args=(0.3,)) for _ in range(8)]
            [t.start() for t in ts]; [t.join() for t in ts]
            """)
        self.assertEqual(result.stdout, "[0, 1, 2, 3, 4, 5, 6, 7]\n", result)
        # One after the other it would be 7.2 seconds.
        self.assertLess(result.seconds, 3)

    def test_traceback_of_twin(self):
        self.check("""
            from concurrent.futures import ThreadPoolExecutor
            from hermes_tools import read_file
            def f(p):
                r = read_file(p)
                return r["nope"]
            import traceback
            with ThreadPoolExecutor() as ex:
                future = ex.submit(f, "a")
            print("".join(traceback.format_exception(future.exception())), end="")
            """, 'Traceback (most recent call last):\n  File "script.py", line 5, in f\n    return r["nope"]\n'
                 "           ~^^^^^^^^\nKeyError: 'nope'\n")

    def test_end_of_script_waits(self):
        self.concurrent("""
def f(p): print(read_file(p)["path"])
for p in "abc": threading.Thread(target=f, args=(p,)).start()
ex = ThreadPoolExecutor(); ex.submit(f, "d")
print("main ends")
""", "main ends\na\nb\nc\nd\n", 4)

    def test_daemon_is_left(self):
        self.concurrent("""
def f():
    try: read_file("a", delay=30)
    finally: print("never")
threading.Thread(target=f, daemon=True).start()
print("end")
""", "end\n", 1)

    def test_deadlocks(self):
        for body in ("threading.Event().wait()", "queue.Queue().get()", "l = threading.Lock(); l.acquire(); l.acquire()",
                     "threading.Condition().acquire() and 0\n    c = threading.Condition()\n    c.acquire(); c.wait()",
                     "threading.Barrier(2).wait()", "threading.Semaphore(0).acquire()",
                     "q = queue.Queue(); t = threading.Thread(target=q.get, daemon=True); t.start(); t.join()",
                     "import concurrent.futures as c; c.Future().result()"):
            with self.subTest(body=body):
                result = run(f"import threading, queue\ntry:\n    {body}\nexcept RuntimeError as e: print(type(e), e)\n")
                self.assertTrue(result.stdout.startswith("<class '_gp_sched.Deadlock'> deadlock: ")
                                or result.stdout.startswith("<class 'RuntimeError'> deadlock: "), result)

    def test_forgotten_worker(self):
        result = run("import threading, queue\nq = queue.Queue()\ndef w(): q.get()\nthreading.Thread(target=w).start()\nprint(1)")
        self.assertEqual((result.stdout, result.exit), ("1\n", 0), result)
        self.assertIn("Thread-1 (w)", result.stderr)


class Same(SameAsCPython):
    def test_thread_api(self):
        self.same("""
            import threading
            def f(n, k=0):
                print(threading.current_thread().name, n, k, threading.current_thread() is not threading.main_thread())
            t = threading.Thread(target=f, args=(1,), kwargs={"k": 2}); t.start(); t.join()
            t = threading.Thread(target=f, args=(3,), name="mine", daemon=True); t.start(); t.join(1)
            print(t.is_alive(), t.daemon, t.name, threading.active_count(), threading.current_thread().name)
            try: t.start()
            except RuntimeError as e: print(e)
            try: threading.Thread(target=f).join()
            except RuntimeError as e: print(e)
            try: threading.current_thread().join()
            except RuntimeError as e: print(e)
            class T(threading.Thread):
                def run(self): print("run", self.name)
            t = T(); t.start(); t.join()
            t = threading.Timer(0.01, print, ["timer"]); t.start(); t.join()
            t = threading.Timer(10, print, ["never"]); t.start(); t.cancel(); t.join()
            print(threading.get_ident() == threading.main_thread().ident)
            """)

    def test_local(self):
        self.same("""
            import threading
            l = threading.local(); l.x = "main"
            class L(threading.local):
                def __init__(self, v): self.v = v
            m = L(5)
            def f():
                print(hasattr(l, "x"), m.v); l.x = "thread"; m.v = 6
            t = threading.Thread(target=f); t.start(); t.join()
            print(l.x, m.v)
            """)

    def test_locks(self):
        self.same("""
            import threading
            l = threading.Lock()
            print(l.acquire(), l.acquire(False), l.acquire(timeout=0.01), l.locked()); l.release()
            try: l.release()
            except RuntimeError as e: print(e)
            r = threading.RLock()
            with r:
                with r: print("re")
            try: r.release()
            except RuntimeError as e: print(e)
            for call in (lambda: l.acquire(False, 1), lambda: l.acquire(True, -2)):
                try: call()
                except ValueError as e: print(e)
            c = threading.Condition()
            with c: print(c.wait(0.01), c.wait_for(lambda: True))
            try: c.wait()
            except RuntimeError as e: print(e)
            e = threading.Event(); print(e.wait(0.01), e.is_set()); e.set(); print(e.wait())
            s = threading.BoundedSemaphore(1)
            with s: print(s.acquire(blocking=False))
            try: s.release()
            except ValueError as e: print(e)
            print(type(l).__name__, isinstance(l, type(threading.Lock())))
            """)

    def test_producer_consumer(self):
        self.same("""
            import threading, queue
            q = queue.Queue(maxsize=2)
            out = []
            def produce():
                for i in range(10): q.put(i)
                q.put(None)
            def consume():
                while True:
                    x = q.get()
                    if x is None: break
                    out.append(x)
            a, b = threading.Thread(target=produce), threading.Thread(target=consume)
            b.start(); a.start(); a.join(); b.join()
            print(out)
            """)

    def test_condition_ping_pong(self):
        self.same("""
            import threading
            c = threading.Condition(); turn = ["a"]; out = []
            def play(me, other):
                for _ in range(3):
                    with c:
                        c.wait_for(lambda: turn[0] == me)
                        out.append(me); turn[0] = other; c.notify_all()
            ts = [threading.Thread(target=play, args=p) for p in (("a", "b"), ("b", "a"))]
            [t.start() for t in ts]; [t.join() for t in ts]
            print("".join(out))
            """)

    def test_barrier(self):
        self.same("""
            import threading
            b = threading.Barrier(3); out = []
            def f(i): out.append(("before", i)); b.wait(); out.append(("after", i))
            ts = [threading.Thread(target=f, args=(i,)) for i in range(3)]
            [t.start() for t in ts]; [t.join() for t in ts]
            print([x[0] for x in out])
            """)

    def test_thread_exceptions(self):
        result = run("import threading\ndef f(): 1/0\nt = threading.Thread(target=f); t.start(); t.join(); print('on')")
        self.assertEqual((result.stdout, result.exit), ("on\n", 0), result)
        self.assertTrue(result.stderr.startswith("Exception in thread Thread-1 (f):\nTraceback (most recent call last):\n"), result)
        self.assertTrue(result.stderr.endswith('  File "script.py", line 2, in f\n    def f(): 1/0\n             ~^~\n'
                                               "ZeroDivisionError: division by zero\n"), result)
        self.same("import threading\nthreading.excepthook = lambda a: print('hook', a.exc_type.__name__, a.thread.name)\n"
                  "def f(): raise KeyError(1)\nt = threading.Thread(target=f); t.start(); t.join()\n"
                  "def g(): raise SystemExit(4)\nt = threading.Thread(target=g); t.start(); t.join()\nprint('end')")

    def test_pool_api(self):
        self.same("""
            from concurrent.futures import *
            import threading
            def f(x):
                if x == 3: raise ValueError(x)
                return x * x
            with ThreadPoolExecutor(max_workers=2) as ex:
                fs = [ex.submit(f, i) for i in range(5)]
            print([x.exception() or x.result() for x in fs], [x.done() for x in fs], fs[0].cancel())
            done, pending = wait(fs); print(len(done), len(pending))
            with ThreadPoolExecutor(2) as ex:
                it = ex.map(f, range(5))
                print(next(it))
                try: print(list(it))
                except ValueError as e: print("error", e)
                print(list(ex.map(lambda a, b: a + b, [1, 2], [3, 4])))
                fu = ex.submit(f, 2); fu.add_done_callback(lambda x: print("callback", x.result()))
            try: ex.submit(f, 1)
            except RuntimeError as e: print(e)
            for bad in (lambda: ThreadPoolExecutor(0), lambda: ThreadPoolExecutor(1, initializer=5)):
                try: bad()
                except (ValueError, TypeError) as e: print(e)
            with ThreadPoolExecutor(1, "name", initializer=print, initargs=("init",)) as ex:
                print(ex.submit(lambda: threading.current_thread().name).result())
            fu = Future(); fu.set_result(3); print(fu.result(timeout=0))
            try: Future().result(timeout=0.01)
            except TimeoutError as e: print("timeout", repr(e))
            def boom(): raise RuntimeError("init")
            """)

    def test_nested_pools(self):
        self.same("""
            from concurrent.futures import ThreadPoolExecutor
            def inner(x): return x + 1
            def outer(x):
                with ThreadPoolExecutor(2) as ex: return sum(ex.map(inner, range(x)))
            with ThreadPoolExecutor(2) as ex: print(list(ex.map(outer, range(4))))
            """)

    def test_shared_state(self):
        self.same("""
            import threading
            total, lock = 0, threading.Lock()
            def add(n):
                global total
                for _ in range(n):
                    with lock: total += 1
            ts = [threading.Thread(target=add, args=(100,)) for _ in range(5)]
            [t.start() for t in ts]; [t.join() for t in ts]
            print(total)
            """)

    def test_stop_event(self):
        self.same("""
            import threading, time
            stop = threading.Event(); n = 0
            def loop():
                global n
                while not stop.is_set():
                    n += 1
                    time.sleep(0.001)
                print("stopped")
            t = threading.Thread(target=loop); t.start()
            time.sleep(0.05); stop.set(); t.join()
            print(n > 0)
            """)

    def test_simple_queue_and_priority(self):
        self.same("""
            import queue, threading
            s = queue.SimpleQueue(); threading.Thread(target=s.put, args=(5,)).start(); print(s.get(), s.empty())
            p = queue.PriorityQueue(); [p.put(x) for x in (3, 1, 2)]; print([p.get() for _ in range(3)])
            try: queue.Queue().get(timeout=0.01)
            except queue.Empty as e: print(repr(e))
            try: queue.Queue().get_nowait()
            except queue.Empty as e: print(repr(e))
            """)


if __name__ == "__main__":
    unittest.main()
