"""The work that the guest's interpreter is optimized for: what scripts of agents do between their calls."""

import ast
import asyncio
import collections
import csv
import dataclasses
import datetime
import io
import itertools
import json
import random
import re
import statistics
import string
import textwrap

WORDS = [f"{a}{b}{n}" for a in ("read", "patch", "search") for b in ("_file", "-line", ".match") for n in range(40)]


def numbers(n):
    total = 0
    for i in range(n):
        if i % 3 == 0 or i % 5 == 0:
            total += i * i % 7
        else:
            total ^= i << 1
    values = [x * 0.5 + 1 for x in range(n)]
    return total + sum(v * v for v in values if v > 2.0) / (1 + max(values))


def words(n):
    counts = {}
    for i in range(n):
        key = f"k{i * 7919 % 977}"
        counts[key] = counts.get(key, 0) + i % 13
    text = " ".join(sorted(counts))
    return len([w for w in text.split() if w.endswith("3")]) + sum(counts.values())


def grid(n):
    cells = [[(x * y) % 17 for x in range(n)] for y in range(n)]
    return sum(cells[y][x] * cells[x][y] for x in range(n) for y in range(n))


@dataclasses.dataclass(order=True)
class Hit:
    path: str
    line: int
    text: str = ""
    tags: list = dataclasses.field(default_factory=list)

    def short(self):
        return f"{self.path}:{self.line:>5}: {self.text.strip()[:60]!r}"


class Base:
    def __init__(self, name):
        self.name = name
        self._seen = set()

    @property
    def size(self):
        return len(self._seen)

    def add(self, item):
        if item in self._seen:
            raise KeyError(item)
        self._seen.add(item)


class Derived(Base):
    def add(self, item, *, quiet=True):
        try:
            super().add(item)
        except KeyError:
            if not quiet:
                raise
        return self.size


def objects(n):
    hits = [Hit(random.choice(WORDS), random.randrange(2000), "  value = compute(%d)\n" % i) for i in range(n)]
    by_path = collections.defaultdict(list)
    for hit in sorted(hits):
        by_path[hit.path].append(hit)
    box = Derived("box")
    for hit in hits:
        box.add((hit.path, hit.line))
    lines = [h.short() for group in by_path.values() for h in group[:3]]
    top = collections.Counter(h.path for h in hits).most_common(5)
    return len("\n".join(lines)) + box.size + len(top)


def texts(n):
    source = "\n".join(f"def function_{i}(a, b={i}):\n    return a + b  # TODO({i}): check {WORDS[i % len(WORDS)]}" for i in range(n))
    found = re.findall(r"def (\w+)\(.*?=(\d+)\)", source)
    todo = [m.group(1) for m in re.finditer(r"TODO\((\d+)\): (\w+)", source)]
    changed = re.sub(r"function_(\d+)", lambda m: "f" + m.group(1).zfill(4), source)
    lines = [line.rstrip().replace("return", "yield") for line in changed.splitlines() if line and not line.startswith("#")]
    wrapped = textwrap.fill(" ".join(lines[:40]), 72)
    table = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
    parts = [part.partition("=")[2].strip().split(",") for part in lines]
    return len(found) + len(todo) + len(wrapped.translate(table)) + len(parts)


def data(n):
    rows = [{"id": i, "name": WORDS[i % len(WORDS)], "score": i * 1.25, "tags": ["a", "b", None, True], "at": f"2026-01-{i % 28 + 1:02}T10:00:00"} for i in range(n)]
    again = json.loads(json.dumps(rows))
    pretty = json.dumps(again[:20], indent=2, sort_keys=True)
    out = io.StringIO()
    writer = csv.DictWriter(out, ["id", "name", "score"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(again)
    read = list(csv.DictReader(io.StringIO(out.getvalue())))
    when = [datetime.datetime.fromisoformat(row["at"]) + datetime.timedelta(days=i % 9) for i, row in enumerate(again)]
    mean = statistics.mean(float(row["score"]) for row in read)
    groups = itertools.groupby(sorted(again, key=lambda row: row["name"]), key=lambda row: row["name"])
    return len(pretty) + mean + len({w.date() for w in when}) + sum(1 for _ in groups)


def generators(n):
    def walk(depth):
        if depth:
            yield depth
            yield from walk(depth - 1)
            yield from walk(depth - 2 if depth > 1 else 0)

    def pairs(items):
        a, b = itertools.tee(items)
        next(b, None)
        return zip(a, b)

    return sum(walk(n)) + sum(a * b for a, b in pairs(range(2000)))


def errors(n):
    caught = 0
    for i in range(n):
        try:
            if i % 4 == 0:
                [][i]
            elif i % 4 == 1:
                {}[i]
            elif i % 4 == 2:
                int("x")
            else:
                1 / (i % 4 - 3)
        except (IndexError, KeyError) as error:
            caught += len(error.args)
        except Exception as error:
            caught += len(str(error))
    return caught


def compiles(n):
    source = "\n".join(
        f"class C{i}:\n    def m(self, x, *a, **k):\n        for j in range(x):\n            if j % 2:\n                k[f'{{j}}'] = [y for y in a if y]\n"
        f"        return {{**k, 'n': {i}}}\n" for i in range(n))
    return len(list(ast.walk(ast.parse(source)))) + len(compile(source, "train", "exec").co_names)


def tasks(n):
    async def one(i):
        await asyncio.sleep(0)
        return i * 2

    async def main():
        return sum(await asyncio.gather(*(one(i) for i in range(n))))

    return asyncio.run(main())


def main():
    random.seed(1)
    for _ in range(6):
        print(numbers(60_000), words(60_000), grid(150), objects(4_000), texts(1_500), data(2_500), generators(17), errors(20_000), compiles(250), tasks(500))


main()
