"""The file protocol: calls from every kind of script, and from somebody who forges, floods and stands in the way."""

import os
import time
import unittest

from host import frames
from test_relay import IMPORTS, RelayCase

FORGE = """
import os, sys, time
rpc = os.environ['HERMES_RPC_DIR']
os.chdir(rpc)
def ring():
    fd = os.open('bell', os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, b'x')
    os.close(fd)
def answer(seq, seconds=3):
    end = time.time() + seconds
    while time.time() < end:
        try:
            return open('res_%06d' % seq, 'rb').read()
        except FileNotFoundError:
            time.sleep(0.005)
"""


class Calls(RelayCase):
    def test_plain_call(self):
        _, out, err = self.run_script(IMPORTS + "print(echo('ä\\n'), echo(value=[1, {'a': None}]))")
        self.assertEqual((out, err), ("{'ok': {'value': 'ä\\n'}} {'ok': {'value': [1, {'a': None}]}}\n", ""))

    def test_answers_are_decoded_once(self):
        host = self.host(handler=lambda request: request["args"]["value"])
        for value in ("[1,2]", "", "{\"error\": 1}", None, 0, 2 ** 63 + 1, [], "\u2028\x00"):
            _, out, err = host.run(IMPORTS + "print(repr(echo(%r)))" % (value,))
            self.assertEqual(out, repr(value) + "\n", err)

    def test_sizes_around_powers_of_two(self):
        host = self.host(handler=lambda request: request["args"]["value"])
        script = IMPORTS + "for p in range(10, 18):\n for d in (-1, 0, 1):\n  v = 'x\\n' * (2 ** p // 2) + 'y' * (1 + d)\n  assert echo(v) == v\nprint('ok')"
        self.assertEqual(host.run(script)[1], "ok\n")

    def test_ten_megabytes_both_ways(self):
        host = self.host(handler=lambda request: request["args"]["value"])
        script = IMPORTS + "v = 'ab\\n\\u00e9' * 2_000_000\nassert echo(v) == v\nprint('ok')"
        report, out, err = host.run(script, max_request=64 << 20)
        self.assertEqual((out, err), ("ok\n", ""))

    def test_too_long_a_request_is_refused_in_the_script(self):
        _, out, err = self.run_script(IMPORTS + "echo('x' * 2000)", max_request=1000)
        self.assertTrue(err.endswith("ValueError: the request is longer than the host accepts\n"), err)

    def test_threads_and_forks_get_their_own_answers(self):
        script = IMPORTS + """
import os, threading, sys
from concurrent.futures import ThreadPoolExecutor
def check(base):
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(echo, range(base, base + 40)))
    assert got == [{'ok': {'value': i}} for i in range(base, base + 40)], got
echo('before')
pids = []
for base in (1000, 2000, 3000):
    pid = os.fork()
    if pid == 0:
        try:
            check(base)
            os._exit(0)
        except BaseException as e:
            print(repr(e))
            os._exit(1)
    pids.append(pid)
check(0)
print([os.waitpid(p, 0)[1] for p in pids])
"""
        host = self.host()
        report, out, err = host.run(script)
        self.assertEqual((out, err), ("[0, 0, 0]\n", ""))
        self.assertEqual(sorted(seq for seq, _, _ in host.calls), list(range(1, 162)))

    def test_awaited_calls_run_at_the_same_time(self):
        script = IMPORTS + """
import asyncio, time
async def main():
    started = time.monotonic()
    got = await asyncio.gather(*[slow(0.5) for _ in range(8)])
    print(got == [{'ok': {'seconds': 0.5}}] * 8, time.monotonic() - started < 2)
    print(await echo(1), await asyncio.to_thread(echo, 2) if hasattr(asyncio, 'to_thread') else 0)
asyncio.run(main())
"""
        _, out, err = self.run_script(script)
        self.assertEqual(out.splitlines()[0], "True True", err)
        self.assertEqual(err, "")

    def test_top_level_await(self):
        _, out, err = self.run_script(IMPORTS + "import asyncio\nx = await echo(1)\nprint(x, await asyncio.gather(echo(2), echo(3)))")
        self.assertEqual((out, err), ("{'ok': {'value': 1}} [{'ok': {'value': 2}}, {'ok': {'value': 3}}]\n", ""))

    def test_plain_values_where_awaitables_are_wanted(self):
        script = IMPORTS + """
import asyncio
x = await echo(1)
async def main():
    values = [echo(i) for i in range(3)]
    print(values[0])
    print(await asyncio.gather(*values))
    task = asyncio.create_task(echo(7))
    print(await task, await asyncio.wait_for(echo(8), 5))
asyncio.run(main())
"""
        _, out, err = self.run_script(script)
        one = "{'ok': {'value': %d}}"
        expected = [one % 0, "[%s]" % ", ".join(one % n for n in range(3)), "%s %s" % (one % 7, one % 8)]
        self.assertEqual((out.splitlines(), err), (expected, ""))

    def test_more_calls_than_may_be_under_way(self):
        script = IMPORTS + "import asyncio\nasync def main():\n  print(len(await asyncio.gather(*[echo(i) for i in range(100)])))\nasyncio.run(main())"
        self.assertEqual(self.run_script(script, outstanding=4)[1], "100\n")

    def test_without_doorbells(self):
        host = self.host(doorbell="poll")
        self.assertEqual(host.hello["bell"], "poll")
        started = time.monotonic()
        _, out, err = host.run(IMPORTS + "for i in range(20): echo(i)\nprint('ok')")
        self.assertEqual((out, err), ("ok\n", ""))
        self.assertLess(time.monotonic() - started, 5)

    def test_values_that_json_cannot_carry(self):
        for value, kind in (("float('nan')", "ValueError"), ("'\\ud800'", "ValueError"), ("{1}", "TypeError"), ("b'x'", "TypeError")):
            host = self.hosts[0] if self.hosts else self.host()
            _, _, err = host.run(IMPORTS + "echo(%s)" % value)
            self.assertIn(kind, err.splitlines()[-1])
            self.assertNotIn("_gp_", err)
        self.assertEqual(host.calls, [])


class Hostile(RelayCase):
    def forge(self, body, **changes):
        host = self.hosts[0] if self.hosts else self.host()
        report, out, err = host.run(FORGE + body, **changes)
        self.assertEqual(err, "")
        return host, report, out

    def test_directory_is_private(self):
        _, _, out = self.forge("print(*[oct(os.lstat(p).st_mode & 0o7777) for p in ('.', '..', '../script.py', '../lock')])")
        self.assertEqual(out, "0o700 0o700 0o400 0o600\n")

    def test_other_kinds_of_files_are_faults(self):
        body = """
os.symlink('/etc/passwd', 'req_000001')
os.mkfifo('req_000002')
os.mkdir('req_000003')
os.mkdir('req_000003/x')
open('../plain', 'w').close(); os.link('../plain', 'tmp_000004'); os.rename('tmp_000004', 'req_000004')
open('tmp_000005', 'w').truncate(1 << 40); os.rename('tmp_000005', 'req_000005')
ring()
started = time.time()
for seq in range(1, 6): answer(seq)
print(time.time() - started < 2, sorted(n for n in os.listdir('.') if n.startswith('req')))
"""
        host, report, out = self.forge(body)
        self.assertEqual(out, "True []\n")
        self.assertEqual(sorted((seq, fault) for seq, fault, _ in host.calls), [(n, 1) for n in range(1, 6)])
        self.assertTrue(all(b"request" in text for _, _, text in host.calls))
        self.assertTrue(os.path.exists("/etc/passwd"))

    def test_answers_replace_what_stands_in_their_way(self):
        body = """
open('../../target', 'w').write('untouched')
os.symlink(os.path.abspath('../../target'), 'res_000001')
os.mkfifo('res_000002')
os.mkdir('res_000003'); open('res_000003/x', 'w').close()
for seq in (1, 2, 3):
    os.symlink('nowhere', 'tmp'); os.rename('tmp', 'req_%06d' % seq)
ring()
time.sleep(0.5)
for seq in (1, 2, 3): print(os.path.islink('res_%06d' % seq), os.path.isfile('res_%06d' % seq))
"""
        _, report, out = self.forge(body)
        self.assertEqual((out, report["cause"]), ("False True\n" * 3, "ended"))
        with open(os.path.join(self.place, "target")) as file:
            self.assertEqual(file.read(), "untouched")

    def test_bell_floods_cost_little(self):
        body = """
fd = os.open('bell', os.O_WRONLY | os.O_NONBLOCK)
end = time.time() + 2
while time.time() < end:
    try: os.write(fd, b'x' * 100)
    except BlockingIOError: time.sleep(0.0005)
from hermes_tools import echo
print(echo(1))
"""
        host = self.host()
        before = _cpu(host.process.pid)
        _, _, out = self.forge(body)
        self.assertEqual(out, "{'ok': {'value': 1}}\n")
        self.assertLess(_cpu(host.process.pid) - before, 1.0)

    def test_missing_or_replaced_bell(self):
        for body in ("os.unlink('bell')", "os.unlink('bell'); open('bell', 'w').close()", "os.unlink('bell'); os.symlink('/dev/null', 'bell')"):
            started = time.monotonic()
            _, _, out = self.forge(body + "\nfrom hermes_tools import echo\nprint(echo(1))")
            self.assertEqual(out, "{'ok': {'value': 1}}\n")
            self.assertLess(time.monotonic() - started, 3)

    def test_junk_does_not_starve_requests(self):
        body = """
for i in range(3000): open('junk%d' % i, 'w').close()
from hermes_tools import echo
print(echo(1))
"""
        self.assertEqual(self.forge(body)[2], "{'ok': {'value': 1}}\n")

    def test_answers_are_sealed(self):
        host = self.host()
        host.auto_answer = False
        host.start(IMPORTS + "print(echo(1))")
        payload = host.expect(frames.CALL)
        ring, _ = host.unseal(1, payload[5:])
        host.send(frames.ANSWER, frames.SEQ.pack(1), frames.SEQ.pack(ring), b"GP1 a 1 %d 2 %s\n{}" % (ring, b"0" * 64))
        host.expect(frames.EXIT)
        self.assertTrue(host.output[2].decode().endswith("is not the host's: forged\n"), host.output[2])

    def test_removed_directory_is_a_broken_protocol(self):
        _, report, _ = self.forge("import shutil\nshutil.rmtree(rpc)\nos.chdir('/')\nring\ntime.sleep(3)", timeout=5)
        self.assertIn(report["cause"], ("ended", "protocol"))

    def test_disk_full_at_the_answer(self):
        if os.geteuid() != 0:
            self.skipTest("needs a small file system of its own, which takes root")
        small = os.path.join(self.place, "small")
        os.mkdir(small)
        if os.system("mount -t tmpfs -o size=512k,mode=700 tmpfs %s" % small):
            self.skipTest("no tmpfs can be mounted here")
        try:
            host = self.host(place=small)
            host.auto_answer = False
            host.start(IMPORTS + "try:\n echo(1)\nexcept OSError as e:\n print(e.errno)")
            payload = host.expect(frames.CALL)
            ring, _ = host.unseal(1, payload[5:])
            host.answer(1, ring, b"x" * (1 << 20))
            unsent = host.expect(frames.UNSENT)
            self.assertEqual(unsent, frames.SEQ.pack(1) + frames.SEQ.pack(28))
            host.answer(1, ring, b"28", kind=b"e")
            self.assertEqual(host.expect(frames.EXIT)["left"], [])
            self.assertEqual(host.output[1], b"28\n")
        finally:
            os.system("umount -l %s" % small)


def _cpu(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")



if __name__ == "__main__":
    unittest.main()
