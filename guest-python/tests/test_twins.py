"""A function's twin does exactly what the function does: each case runs plainly and in a pool, and must not differ."""

import unittest

from helpers import ShimTest, run

COMPARE = '''
import traceback
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import read_file
def outcome(call):
    log.clear()
    try: value = repr(call())
    except BaseException as e:
        frames = [(f.lineno, f.name, f.colno, f.end_colno, f.line) for f in traceback.extract_tb(e.__traceback__)
                  if f.filename == "script.py" and f.name not in ("outcome", "<lambda>", "pooled")]
        value = repr((type(e), str(e), frames, type(e.__cause__), type(e.__context__), e.__suppress_context__))
    return value, list(log)
log = []
def compare(f, *args, **kwargs):
    plain = outcome(lambda: f(*args, **kwargs))
    def pooled():
        with ThreadPoolExecutor() as pool: return pool.submit(f, *args, **kwargs).result()
    pooled = outcome(pooled)
    print("same" if plain == pooled else f"DIFFERENT\\n{plain}\\n{pooled}")
def note(x):
    log.append(x)
    return x
def get(p="a"): return read_file(p)["path"]
'''

CASES = {
    "arguments": """
        def f(a, b=2, *args, c, d=4, **kw): get(); return a, b, args, c, d, kw
        compare(f, 1, c=3); compare(f, 1, 2, 3, 4, c=5, e=6); compare(f, 1); compare(f); compare(f, 1, c=1, a=2)
        def g(a, /, b, *, c=1): get(); return a, b, c
        compare(g, 1, 2); compare(g, a=1, b=2); compare(g, 1, 2, 3)
        """,
    "control flow": """
        def f(n):
            out = []
            for i in range(n):
                if i == 2: continue
                if i == 5: break
                out.append(get(str(i)))
            else: out.append("else")
            while n > 0:
                n -= 1
                if n == 1: break
            else: out.append("while else")
            return out, n
        compare(f, 3); compare(f, 9); compare(f, 0)
        """,
    "exceptions": """
        def f(kind):
            try:
                try:
                    get()
                    if kind == 1: raise ValueError("v")
                    if kind == 2: return 1 / 0
                    if kind == 3: raise KeyboardInterrupt
                except ValueError as e:
                    get()
                    raise KeyError("k") from e
                except ZeroDivisionError:
                    raise TypeError("t")
                else: return "else"
                finally: get("finally")
            finally:
                note("f")
        for kind in range(4): compare(f, kind)
        def g():
            try: get(); raise ValueError
            finally: return 5
        compare(g)
        def h():
            get()
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        compare(h)
        def i():
            try: h()
            except* ValueError as e: note((get(), len(e.exceptions)))
        compare(i)
        """,
    "with": """
        class M:
            def __init__(self, swallow=False): self.swallow = swallow
            def __enter__(self): note("enter"); return 7
            def __exit__(self, t, v, tb): note(("exit", t and t.__name__)); return self.swallow
        def f(s):
            with M(s) as a, M() as b:
                get()
                raise ValueError(a + b)
            return "after"
        compare(f, True); compare(f, False)
        def g():
            with M(): return get()
        compare(g)
        def h():
            get()
            with 5: pass
        compare(h)
        class N:
            def __enter__(self): pass
        def i():
            get()
            with N(): pass
        compare(i)
        import contextlib
        @contextlib.contextmanager
        def cm():
            note("in")
            try: yield 3
            finally: note("out")
        def j():
            with cm() as x: return x, get()
        compare(j)
        def k():
            with contextlib.suppress(ZeroDivisionError): get(); 1 / 0
            return "fine"
        compare(k)
        """,
    "comprehensions": """
        def f(n): return ([get(str(i)) for i in range(n) if get()], {get(str(i)) for i in range(n)}, {i: get(str(i)) for i in range(n)},
                          list(get(str(i)) for i in range(n)), [[get(str(i + j)) for j in range(2)] for i in range(n)])
        compare(f, 2)
        def g(xs): return sum(len(get(x)) for x in xs), sorted(xs, key=lambda x: get(x)), [y for x in xs for y in get(x)]
        compare(g, ["bb", "a"])
        """,
    "closures": """
        def outer():
            n = 0
            def f(k):
                nonlocal n
                before = n
                n += k
                get()
                return n - before
            return f
        compare(outer(), 3)
        def g(x):
            def inner(y): return get(str(x + y))
            k = lambda z: get(str(z)) + str(x)
            return inner(1), k(2), [inner(i) for i in range(2)]
        compare(g, 5)
        counter = 0
        def h():
            global counter
            counter = 1
            get()
            counter += 1
            return counter
        compare(h)
        def unbound():
            if False: x = 1
            get()
            return x
        compare(unbound)
        """,
    "classes": """
        class A:
            __secret = 5
            def m(self, x): return get(x), self.__secret, __class__.__name__
            @classmethod
            def c(cls, x): return cls.__name__, get(x)
            @staticmethod
            def s(x): return get(x)
            @property
            def p(self): return get("prop")
            def __call__(self, x): return self.m(x)
        class B(A):
            def m(self, x): return super().m(x), super(B, self).m(x)
            def q(self): return self.p
        compare(A().m, "x"); compare(B().m, "x"); compare(A.c, "x"); compare(B.c, "x"); compare(A.s, "x"); compare(A(), "x"); compare(B().q)
        compare(A.m, B(), "y")
        """,
    "frames": """
        import sys
        def f(a):
            b = get()
            return sorted(locals()), sorted(vars()), sys._getframe().f_code.co_name, sys._getframe().f_lineno, eval("a + b"), dir()
        compare(f, "x")
        def g():
            get()
            exec("z = 1")
            return "z" in locals(), f.__name__
        compare(g)
        """,
    "expressions": """
        def f(x):
            y = (z := get(x)) and get("b") or get("c")
            return y, z, not get(), -len(get()), get("q") if get() else 0, f"{get()!r:>5}{get('w')}", get()[0:1], [*get("ab")], {**{"a": get()}}
        compare(f, "k")
        def g():
            a = [0, 0]
            a[len(get()) - 1] = get("1")
            a[1] += len(get("22"))
            b, *c = get("xyz")
            del a[len(get()) - 1]
            assert get(), get()
            return a, b, c
        compare(g)
        def h(**k): return get(**k) if k else note(get())
        compare(h)
        def i(*a): return max(*[get(x) for x in a], key=len)
        compare(i, "a", "bb")
        def j():
            match get("m"):
                case "x": return 1
                case str(s) if get() == "a": return s
        compare(j)
        def k(): return get().upper().lower().join(["a", get()])
        compare(k)
        def l(): return get(1, 2, 3)
        compare(l)
        def m(): return None.x if get() else 0
        compare(m)
        def n(): return 1 < len(get("abc")) < 5 == True
        compare(n)
        """,
    "values": """
        async def co(): return 1
        def f():
            get()
            c = co()
            c.close()
            return type(c).__name__
        compare(f)
        def gen():
            yield get()
            yield get("b")
        def g(): return list(gen()), get(), next(gen())
        compare(g)
        def h():
            get()
            return lambda: 1
        def i(): return h()()
        compare(i)
        def j(x):
            if x == 0: return get()
            return j(x - 1) + "."
        compare(j, 5)
        def k(n): return k(n - 1) if n else 1
        def l(): get(); return k(50)
        compare(l)
        def m():
            get()
            def deep(n): return deep(n + 1)
            try: deep(0)
            except RecursionError: return "recursion"
        compare(m)
        """,
    "stop iteration": """
        def f(): return get() + next(iter([]))
        compare(f)
        def g():
            get()
            raise StopIteration(3)
        compare(g)
        def h():
            try: next(iter([]))
            except StopIteration: return get()
        compare(h)
        """,
    "order": """
        def f():
            return [note(1), get(note("a")), note(2), get(note("b")), note(3)], list(log)
        compare(f)
        def g():
            note("x"); r = (note(1), get(), note(2), {note("k"): get(), note("l"): note("m")})
            return r, list(log)
        compare(g)
        def h():
            try: get(note(1)); note(2); int("x")
            except ValueError: note(3)
            return list(log)
        compare(h)
        """,
    "decorators": """
        import functools
        def deco(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                note("before")
                try: return f(*args, **kwargs)
                finally: note("after")
            return wrapper
        @deco
        def f(x, y=1): return get(x), y
        compare(f, "x"); compare(f, "x", y=2)
        @functools.lru_cache
        def g(x): return get(x)
        compare(g, "x")
        @functools.cache
        def h(): return get()
        def i(): return h(), h()
        compare(i)
        compare(functools.partial(f, "p"), y=3)
        """,
    "future annotations and types": """
        def f(x: "nope" = None, *, y: undefined_later = 1) -> other: z: list[int] = [get()]; return z, x, y
        undefined_later = other = int
        compare(f)
        def g[T](x: T) -> T: return get(), x
        compare(g, 3)
        """,
}


class Twins(ShimTest):
    def test_cases(self):
        import textwrap

        for name, body in CASES.items():
            with self.subTest(name=name):
                body = textwrap.dedent(body)
                if "undefined_later" in body:
                    body = body.replace("undefined_later = other = int\n", "")
                    code = "from __future__ import annotations\n" + COMPARE + body
                else:
                    code = COMPARE + body
                result = run(code, dedent=False)
                expected = body.count("compare(") + (3 if "for kind in" in body else 0)
                self.assertEqual((result.stdout, result.stderr, result.exit), ("same\n" * expected, "", 0), f"\n{result!r}")

    def test_pure_functions_run_at_full_speed(self):
        result = run("""
            from concurrent.futures import ThreadPoolExecutor
            import time
            def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
            def best(call):
                times = []
                for _ in range(10):
                    t = time.perf_counter(); call(); times.append(time.perf_counter() - t)
                return min(times)
            with ThreadPoolExecutor() as ex: print(best(lambda: ex.submit(fib, 20).result()) < best(lambda: fib(20)) * 2)
            """)
        self.assertEqual(result.stdout, "True\n", result)


if __name__ == "__main__":
    unittest.main()
