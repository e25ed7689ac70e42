"""The relay and the script's end of the file protocol, spoken to over pipes."""

import glob
import json
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import unittest

from host import Host, frames

IMPORTS = "from hermes_tools import echo, slow\n"


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class RelayCase(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="gp-test-")
        self.hosts = []

    def tearDown(self):
        for host in self.hosts:
            host.process.kill()
            host.process.wait()
            for stream in (host.process.stdin, host.process.stdout, host.process.stderr):
                try:
                    stream.close()
                except OSError:
                    pass
        shutil.rmtree(self.place, ignore_errors=True)

    def host(self, **options):
        options.setdefault("place", self.place)
        host = Host(**options)
        self.hosts.append(host)
        return host

    def leftovers(self):
        return glob.glob(os.path.join(self.place, "gloveport-*"))

    def run_script(self, script, **changes):
        host = self.hosts[0] if self.hosts else self.host()
        return host.run(textwrap.dedent(script), **changes)


class Scripts(RelayCase):
    def test_output_and_exit_code(self):
        report, out, err = self.run_script("import sys\nprint('é')\nprint('e', file=sys.stderr)\n")
        self.assertEqual((report["code"], out, err), (0, "é\n", "e\n"))
        self.assertEqual(self.leftovers(), [])

    def test_exit_codes_keep_all_bits(self):
        for code, seen in ((3, 3), (124, 124), (130, 130), (255, 255), (256, 256), (-1, -1), (1 << 40, 0), (True, 1)):
            with self.subTest(code=code):
                report, _, err = self.run_script("import sys\nsys.exit(%r)" % code)
                self.assertEqual((report["code"], report["signal"], err), (seen, None, ""))
        report, _, err = self.run_script("import sys\nsys.exit('message')")
        self.assertEqual((report["code"], err), (1, "message\n"))
        self.assertEqual(self.run_script("import os\nos._exit(7)")[0]["code"], 7)

    def test_signals_are_told_from_codes(self):
        for number in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV):
            report, out, _ = self.run_script("import os\nprint('before')\nos.kill(os.getpid(), %d)" % number)
            self.assertEqual((report["code"], report["signal"], out), (None, number, "before\n"))

    def test_traceback_has_no_frames_of_ours(self):
        script = "def f():\n    raise ValueError('x')\n\n\nf()\n"
        report, _, err = self.run_script(script)
        self.assertEqual(report["code"], 1)
        lines = [line for line in err.splitlines() if "~" not in line and "^" not in line]
        self.assertEqual(lines, [
            "Traceback (most recent call last):", '  File "script.py", line 5, in <module>', "    f()",
            '  File "script.py", line 2, in f', "    raise ValueError('x')", "ValueError: x",
        ])
        _, _, err = self.run_script(IMPORTS + "echo(float('nan'))\n")
        self.assertNotIn("_gp_", err)
        self.assertNotIn("<string>", err)
        _, out, _ = self.run_script("import traceback, sys\ntraceback.print_stack(file=sys.stdout)\n")
        self.assertEqual(out.count("File"), 1, out)

    def test_syntax_error(self):
        report, out, err = self.run_script("print('x'\n")
        self.assertEqual((report["code"], out), (1, ""))
        self.assertTrue(err.startswith('  File "script.py", line 1\n'), err)

    def test_runs_as_main(self):
        script = "import sys\nprint(__name__, __file__, sys.argv, __builtins__ is __import__('builtins'))\nprint(sorted(n for n in dir() if n[0] != '_'))"
        _, out, _ = self.run_script(script, argv=["script.py", "a b"])
        self.assertEqual(out, "__main__ script.py ['script.py', 'a b'] True\n['sys']\n")

    def test_environment_is_what_was_given(self):
        host = self.host(env=dict(os.environ, OPENAI_API_KEY="sk-x", LANG="tr_TR", PYTHONSTARTUP="/x", PYTHONIOENCODING="latin-1"))
        report, out, _ = host.run("import os, json\nprint(json.dumps(dict(os.environ)))", env={"A": "ä\n=", "TZ": "UTC"})
        env = json.loads(out)
        self.assertTrue(env.pop("HERMES_RPC_DIR").startswith(self.place))
        env.pop("LC_CTYPE", None)
        self.assertEqual(env, {"A": "ä\n=", "TZ": "UTC"})
        _, out, _ = host.run("import os, json\nprint(json.dumps(dict(os.environ)))", env={"A": "1"}, inherit_env=True)
        self.assertEqual(json.loads(out)["LANG"], "tr_TR")
        self.assertNotIn("OPENAI_API_KEY", out)

    def test_standard_input_is_at_its_end(self):
        report, out, err = self.run_script("import sys\nprint(repr(sys.stdin.read()))\ninput()")
        self.assertEqual(out, "''\n")
        self.assertTrue(err.endswith("EOFError: EOF when reading a line\n"))

    def test_start_up_code_of_the_account_is_not_loaded(self):
        home = os.path.join(self.place, "home")
        for name in ("sitecustomize", "usercustomize", "json", "gp_frames", "_gp_tools", "hermes_tools"):
            os.makedirs(home, exist_ok=True)
            with open(os.path.join(home, name + ".py"), "w") as file:
                file.write("print('LOADED %s')\n" % name)
        host = self.host(env=dict(os.environ, HOME=home, PYTHONPATH=home))
        _, out, _ = host.run(IMPORTS + "import json\nprint(echo(1))", cwd=home, env={"HOME": home, "PYTHONPATH": home})
        self.assertEqual(out, "{'ok': {'value': 1}}\n")

    def test_umask_is_the_accounts(self):
        _, out, _ = self.run_script("import os\nopen('f', 'w').close()\nprint(oct(os.stat('f').st_mode & 0o777))")
        self.assertEqual(out, oct(0o666 & ~_umask()) + "\n")

    def test_strict_directory_is_private_and_empty(self):
        _, out, _ = self.run_script("import os\nprint(os.listdir('.'), os.getcwd().startswith(%r))" % self.place)
        self.assertEqual(out, "[] True\n")

    def test_missing_working_directory(self):
        host = self.host()
        host.start("print(1)", cwd="/nowhere/at/all")
        self.assertIn("/nowhere/at/all does not exist", host.expect(frames.FAILED)["message"])
        self.assertEqual(self.leftovers(), [])
        self.assertEqual(host.run("print(2)")[1], "2\n")

    def test_damaged_script_is_not_run(self):
        host = self.host()
        host.start("print(1)", sha256="0" * 64)
        self.assertIn("damaged", host.expect(frames.FAILED)["message"])
        self.assertEqual(self.leftovers(), [])


class Ending(RelayCase):
    def test_deadline(self):
        started = time.monotonic()
        report, out, _ = self.run_script("print('before')\nwhile True: pass", timeout=0.5)
        self.assertEqual((report["cause"], out), ("deadline", "before\n"))
        self.assertLess(time.monotonic() - started, 2.5)

    def test_kill_from_the_host(self):
        host = self.host()
        host.start("print('x', end='')\nimport time\ntime.sleep(60)")
        pid = host.expect(frames.STARTED)["pid"]
        time.sleep(0.3)
        host.send(frames.KILL)
        self.assertEqual(host.expect(frames.EXIT)["cause"], "killed")
        self.assertEqual((host.output[1], alive(pid)), (b"x", False))

    @unittest.skipUnless(sys.platform.startswith("linux"), "no subreaper")
    def test_daemons_die_with_the_run(self):
        script = """
            import os, sys, time, signal
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                if os.fork() == 0:
                    os.environ.clear()
                    print(os.getpid(), flush=True)
                    time.sleep(600)
                os._exit(0)
            time.sleep(0.3)
        """
        started = time.monotonic()
        report, out, _ = self.run_script(script)
        self.assertEqual((report["code"], report["survivors"], alive(int(out))), (0, 0, False))
        self.assertLess(time.monotonic() - started, 3)

    def test_end_of_the_channel_ends_everything(self):
        host = self.host()
        host.start("import subprocess\nsubprocess.run(['sleep', '600'])")
        pid = host.expect(frames.STARTED)["pid"]
        time.sleep(0.2)
        host.process.stdin.close()
        host.process.wait(5)
        self.assertEqual((alive(pid), self.leftovers()), (False, []))

    def test_silence_ends_everything(self):
        host = self.host(lease=1.0)
        host.start("import time\ntime.sleep(60)")
        pid = host.expect(frames.STARTED)["pid"]
        for _ in range(4):
            time.sleep(0.4)
            host.send(frames.PING)
        self.assertIsNone(host.process.poll())
        host.process.wait(5)
        self.assertEqual((alive(pid), self.leftovers()), (False, []))

    @unittest.skipUnless(sys.platform.startswith("linux"), "no PDEATHSIG")
    def test_script_dies_with_a_killed_relay_and_the_next_one_sweeps(self):
        host = self.host()
        host.start("import subprocess, time\nsubprocess.Popen(['sleep', '601'])\nprint('x', flush=True)\ntime.sleep(600)")
        started = host.expect(frames.STARTED)
        while not host.output[1]:
            time.sleep(0.02)
        host.process.kill()
        host.process.wait()
        time.sleep(0.2)
        self.assertFalse(alive(started["pid"]))
        self.assertEqual(self.leftovers(), [started["dir"]])
        second = self.host()
        second.send(frames.SWEEP, json.dumps({}).encode())
        self.assertEqual(second.expect(frames.SWEPT)["removed"], [], "younger than a relay's start may take")
        second.send(frames.SWEEP, json.dumps({"dir": started["dir"]}).encode())
        self.assertEqual(second.expect(frames.SWEPT)["removed"], [started["dir"]])
        self.assertEqual((self.leftovers(), _sleepers("601")), ([], []))

    def test_sweep_leaves_live_runs_alone(self):
        host = self.host()
        host.start("import time\ntime.sleep(1)\nprint('done')")
        directory = host.expect(frames.STARTED)["dir"]
        second = self.host()
        second.send(frames.SWEEP, json.dumps({"dir": directory}).encode())
        self.assertEqual(second.expect(frames.SWEPT), {"removed": [], "left": []})
        host.expect(frames.EXIT)
        self.assertEqual(host.output[1], b"done\n")

    def test_nasty_trees_are_removed(self):
        script = """
            import os
            for i in range(600):
                os.mkdir('d' * 60)
                os.chdir('d' * 60)
            os.mkdir('locked')
            os.mkdir('locked/inner')
            os.symlink('/etc', 'link')
            os.chmod('locked', 0)
        """
        report, _, err = self.run_script(script)
        self.assertEqual((report["code"], report["left"], self.leftovers()), (0, [], []), err)
        self.assertTrue(os.path.exists("/etc/passwd"))


class Flow(RelayCase):
    def test_flood_waits_for_credit(self):
        host = self.host()
        host.auto_credit = False
        host.start("import os\nwhile True: os.write(1, b'x' * 65536)", credit=1 << 20)
        host.expect(frames.STARTED)
        time.sleep(0.6)
        self.assertEqual(host.received, 1 << 20)
        host.send(frames.CREDIT, frames.SEQ.pack(1000))
        time.sleep(0.2)
        self.assertEqual(host.received, (1 << 20) + 1000)
        host.auto_credit = True
        host.send(frames.CREDIT, frames.SEQ.pack(1 << 20))
        host.send(frames.KILL)
        host.expect(frames.EXIT)

    def test_calls_overtake_a_flood(self):
        script = IMPORTS + textwrap.dedent("""
            import os, threading, time, sys
            def flood():
                while True: os.write(1, b'x' * 65536)
            threading.Thread(target=flood, daemon=True).start()
            time.sleep(0.2)
            t = time.monotonic()
            for i in range(20): echo(i)
            print(time.monotonic() - t, file=sys.stderr)
            os._exit(0)
        """)
        host = self.host()
        host.keep_output = False
        host.start(script)
        host.expect(frames.STARTED)
        self.assertEqual(host.expect(frames.EXIT)["code"], 0)

    def test_all_output_arrives(self):
        report, out, err = self.run_script("import os\nfor i in range(300): os.write(1, b'o' * 10007); os.write(2, b'e' * 5003)")
        self.assertEqual((len(out), len(err)), (300 * 10007, 300 * 5003))


def _umask():
    value = os.umask(0o022)
    os.umask(value)
    return value


def _sleepers(seconds):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read() == b"sleep\0%s\0" % seconds.encode():
                    found.append(path)
        except OSError:
            pass
    return found




if __name__ == "__main__":
    unittest.main()
