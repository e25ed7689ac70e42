"""Operations on a workspace, and commands in it."""

import json
import os
import time
import unittest

from host import frames
from test_relay import RelayCase, alive


class FilesCase(RelayCase):
    def setUp(self):
        super().setUp()
        self.root = os.path.join(self.place, "ws")
        os.mkdir(self.root)
        self.relay = self.host()
        self.number = 0

    def send(self, op, data=b"", **wanted):
        self.number += 1
        wanted.update(op=op, root=self.root)
        text = json.dumps(wanted).encode()
        self.relay.send(frames.FILE, frames.SEQ.pack(self.number), frames.SEQ.pack(len(text)), text, data)
        return self.number

    def answer(self):
        payload = self.relay.expect(frames.FILED)
        number, length = frames.SEQ.unpack_from(payload)[0], frames.SEQ.unpack_from(payload, 4)[0]
        return number, json.loads(payload[8:8 + length].decode()), payload[8 + length:]

    def ask(self, op, data=b"", **wanted):
        number = self.send(op, data, **wanted)
        answered, answer, content = self.answer()
        self.assertEqual(answered, number)
        return answer, content

    def refused(self, op, **wanted):
        answer, _ = self.ask(op, **wanted)
        self.assertIn("family", answer)
        return answer["family"], answer["message"]

    def write(self, *changes, **options):
        described = [dict(kind="write", path=path, len=len(content), like=None) for path, content in changes]
        real = options.get("real") or self.ask("resolve", changes=described)[0]
        if "family" in real:
            return real
        data = b"".join(content for _, content in changes)
        return self.ask("apply", data, changes=described, real=real["real"])[0]

    def command(self, line, **changes):
        wanted = dict(command=line, workdir=None, env={}, timeout=10.0, keep=[1000, 1000])
        wanted.update(changes)
        return self.ask("run", **wanted)


class Looking(FilesCase):
    def test_reads_and_lists(self):
        self.assertEqual(self.write(("a/b", b"hello")), {"directories": 1})
        self.assertEqual(self.ask("read", path="a/b", offset=1, max=3), ({"real": os.path.join(self.root, "a/b")}, b"ell"))
        self.assertEqual(self.ask("list", path="a", max=9)[0], {"entries": [["b", "file"]]})
        stat, _ = self.ask("stat", path=os.path.join(self.root, "a/b"))
        self.assertEqual((stat["kind"], stat["len"], stat["mode"]), ("file", 5, 0o644))

    def test_outside_is_one_answer(self):
        os.symlink("/etc", os.path.join(self.root, "abs"))
        os.symlink("../..", os.path.join(self.root, "rel"))
        for path in ("/etc/passwd", "/nothing", "..", "../" * 40 + "etc/passwd", "abs/passwd", "abs/nothing", "rel/x", "a/../.."):
            self.assertEqual(self.refused("read", path=path, offset=0, max=9), ("outside", ""), path)
            self.assertEqual(self.write((path, b"x")).get("family"), "outside", path)

    def test_other_kinds(self):
        os.mkfifo(os.path.join(self.root, "fifo"))
        self.assertEqual(self.refused("read", path="fifo", offset=0, max=9), ("kind", "it is a FIFO, not a regular file"))
        self.assertEqual(self.refused("read", path=".", offset=0, max=9), ("kind", "it is a directory, not a regular file"))
        self.assertEqual(self.refused("read", path="fifo/x", offset=0, max=9)[0], "kind")
        self.assertEqual(self.refused("list", path="fifo", max=9), ("kind", "it is not a directory"))
        self.assertEqual(self.refused("read", path="", offset=0, max=9), ("not_found", ""))

    def test_missing_root(self):
        self.root = "/nowhere/at/all"
        self.assertEqual(self.refused("list", path=".", max=1)[0], "io")

    def test_no_descriptor_stays_open(self):
        def count():
            return len(os.listdir("/proc/%d/fd" % self.relay.process.pid))

        self.write(("a/b/c/d", b"x"))
        before = count()
        for _ in range(30):
            self.ask("read", path="a/b/c/d", offset=0, max=1)
            self.refused("read", path="a/b/../../..", offset=0, max=1)
            self.write(("a/b/c/d", b"y"))
            self.command("true")
        self.assertEqual(count(), before)


class Changing(FilesCase):
    def test_all_or_nothing(self):
        self.write(("keep", b"old"))
        os.mkdir(os.path.join(self.root, "dir"))
        answer = self.write(("keep", b"new"), ("x/y", b"1"), ("dir", b"2"))
        self.assertEqual(answer, {"family": "kind", "message": "it is a directory, not a regular file"})
        with open(os.path.join(self.root, "keep")) as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(sorted(os.listdir(self.root)), ["dir", "keep"])

    def test_a_path_that_changed_after_the_judgement(self):
        os.mkdir(os.path.join(self.root, "real"))
        os.symlink("real", os.path.join(self.root, "link"))
        described = [dict(kind="write", path="link/f", len=1, like=None)]
        real = self.ask("resolve", changes=described)[0]["real"]
        self.assertEqual(real, [[os.path.join(self.root, "real/f")]])
        os.mkdir(os.path.join(self.root, ".git"))
        os.unlink(os.path.join(self.root, "link"))
        os.symlink(".git", os.path.join(self.root, "link"))
        answer, _ = self.ask("apply", b"x", changes=described, real=real)
        self.assertEqual(answer["message"], "the path changed meanwhile")
        self.assertEqual(os.listdir(os.path.join(self.root, ".git")), [])

    def test_resolving_makes_nothing(self):
        described = [dict(kind="write", path="a/b/c", len=1, like=None)]
        self.assertEqual(self.ask("resolve", changes=described)[0]["real"], [[os.path.join(self.root, "a/b/c")]])
        self.assertEqual(os.listdir(self.root), [])

    def test_renames_and_removes(self):
        self.write(("a", b"1"), ("b", b"2"))
        for change, outcome in (
            (dict(kind="rename", **{"from": "a", "to": "b"}), "it exists already"),
            (dict(kind="rename", **{"from": "a", "to": "d/c"}), None),
            (dict(kind="remove", path="b"), None),
            (dict(kind="remove", path="b"), ""),
        ):
            real = self.ask("resolve", changes=[change])[0]["real"]
            answer, _ = self.ask("apply", changes=[change], real=real)
            self.assertEqual(answer.get("message"), outcome, change)
        self.assertEqual(sorted(os.listdir(self.root)), ["d"])


class Recovery(FilesCase):
    """What a relay makes of changes that another one left half done."""

    def journal(self, *lines, files=()):
        for path, content in files:
            os.makedirs(os.path.dirname(os.path.join(self.root, path)) or self.root, exist_ok=True)
            with open(os.path.join(self.root, path), "w") as file:
                file.write(content)
        with open(os.path.join(self.root, ".gloveport-journal-ab"), "w") as file:
            file.write("".join(line if line.startswith("cut") else line + "\n" for line in map(str, lines)))

    def recover(self):
        dead = self.ask("dead")[0]["journals"]
        return dead, self.ask("recover", journals=dead)[0]["recovered"]

    def state(self):
        found = {}
        for directory, _, names in os.walk(self.root):
            for name in names:
                with open(os.path.join(directory, name)) as file:
                    found[os.path.relpath(os.path.join(directory, name), self.root)] = file.read()
        return found

    def put(self, name, number, old):
        step = {"dir": "d", "name": name, "new": ".gloveport-ab.%d.new" % number, "old": ".gloveport-ab.%d.old" % old if old else None}
        return {"put": step}

    def test_steps_that_had_begun_are_finished(self):
        steps = [self.put("a", 1, 2), self.put("b", 3, None), {"take": {"dir": "", "name": "c", "old": ".gloveport-ab.4.old"}}]
        # `a` was done, `b` and `c` were not.
        self.journal(
            json.dumps({"stage": "d"}), json.dumps({"commit": steps}),
            files=(("d/a", "new"), ("d/.gloveport-ab.2.old", "old"), ("d/.gloveport-ab.3.new", "fresh"), ("c", "gone"), ("other", "x")),
        )
        dead, count = self.recover()
        self.assertEqual(dead, [[".gloveport-journal-ab", [[self.root + "/d/a"], [self.root + "/d/b"], [self.root + "/c"]]]])
        self.assertEqual((count, self.state()), (1, {"d/a": "new", "d/b": "fresh", "other": "x"}))
        self.assertEqual(self.recover(), ([], 0))

    def test_an_undoing_that_had_begun_is_finished(self):
        steps = [self.put("a", 1, 2), self.put("b", 3, None)]
        self.journal(
            json.dumps({"commit": steps}), '"undo"',
            files=(("d/a", "new"), ("d/.gloveport-ab.2.old", "old"), ("d/.gloveport-ab.3.new", "never")),
        )
        self.assertEqual(self.recover()[1], 1)
        self.assertEqual(self.state(), {"d/a": "old"})

    def test_what_was_only_staged_goes(self):
        self.journal(json.dumps({"stage": "d"}), "cut{", files=(("d/.gloveport-ab.1.new", "x"), ("d/keep", "y")))
        self.assertEqual((self.recover()[1], self.state()), (1, {"d/keep": "y"}))

    def test_forged_steps_lead_nowhere(self):
        outside = os.path.join(self.place, "outside")
        with open(outside, "w") as file:
            file.write("safe")
        own = ".gloveport-ab.1.new"
        bad = [
            {"put": {"dir": "..", "name": "outside", "new": own, "old": None}},
            {"put": {"dir": "", "name": "../outside", "new": own, "old": None}},
            {"put": {"dir": "", "name": "f", "new": "other", "old": None}},
            {"put": {"dir": "", "name": "f", "new": own, "old": "../outside"}},
            {"take": {"dir": "", "name": "other", "old": "x"}}, {"put": 1}, [], {"put": {}, "take": {}}, None,
            {"move": {"dir": "", "name": "other", "to_dir": "../x", "to_name": "y"}},
        ]
        self.journal(json.dumps({"commit": bad}), json.dumps({"stage": ".."}), "[[", files=((own, "evil"), ("other", "x")))
        self.assertEqual(self.recover()[0], [[".gloveport-journal-ab", []]])
        self.assertEqual(self.state(), {own: "evil", "other": "x"})
        with open(outside) as file:
            self.assertEqual(file.read(), "safe")

    def test_a_living_journal_is_left_alone(self):
        import fcntl

        self.journal(json.dumps({"stage": ""}))
        with open(os.path.join(self.root, ".gloveport-journal-ab")) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.assertEqual(self.recover(), ([], 0))

    def test_a_failure_half_way_is_undone(self):
        self.write(("a", b"1"), ("b", b"2"))
        changes = [dict(kind="write", path="a", len=1, like=None), dict(kind="rename", **{"from": "b", "to": "c"})]
        real = self.ask("resolve", changes=changes)[0]["real"]
        changes += [dict(kind="remove", path="b")]
        real += [[os.path.join(self.root, "b")]]
        self.assertEqual(self.ask("apply", b"9", changes=changes, real=real)[0]["family"], "not_found")
        self.assertEqual(self.state(), {"a": "1", "b": "2"})


class Commands(FilesCase):
    def test_output_code_and_time(self):
        answer, out = self.command("echo a; echo b >&2; exit 4")
        self.assertEqual((answer, out), ({"total": 4, "head": 4, "exit_code": 4}, b"a\nb\n"))
        self.assertEqual(self.command("kill -9 $$")[0]["exit_code"], 137)
        answer, out = self.command("seq 1 1000", keep=[4, 5])
        self.assertEqual((answer, out), ({"total": 3893, "head": 4, "exit_code": 0}, b"1\n2\n1000\n"))
        started = time.monotonic()
        answer, out = self.command("echo x; sleep 60 & sleep 60", timeout=0.3)
        self.assertEqual((answer["exit_code"], out), (None, b"x\n"))
        self.assertLess(time.monotonic() - started, 3)

    def test_commands_run_beside_each_other_and_can_be_cancelled(self):
        first = self.send("run", command="sleep 0.5; echo 1", workdir=None, env={}, timeout=5.0, keep=[9, 9])
        second = self.send("run", command="echo 2", workdir=None, env={}, timeout=5.0, keep=[9, 9])
        third = self.send("run", command="echo $$ > pid; sleep 60", workdir=None, env={}, timeout=90.0, keep=[9, 9])
        self.assertEqual(self.answer()[0], second)
        self.assertEqual(self.answer()[0], first)
        with open(os.path.join(self.root, "pid")) as file:
            pid = int(file.read())
        self.relay.send(frames.CANCEL, frames.SEQ.pack(third))
        time.sleep(0.5)
        self.assertFalse(alive(pid))

    def test_daemons_of_commands_go_with_them(self):
        self.command("(setsid sleep 606 & echo $! > pid) > /dev/null 2>&1; sleep 0.2")
        with open(os.path.join(self.root, "pid")) as file:
            pid = int(file.read())
        time.sleep(0.3)
        self.assertFalse(alive(pid))


if __name__ == "__main__":
    unittest.main()
