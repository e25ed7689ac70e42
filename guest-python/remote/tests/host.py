"""A small host for the tests of the relay: starts it over pipes and speaks frames."""

import hashlib
import hmac
import json
import os
import queue
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REMOTE = os.path.dirname(HERE)
SHIM = os.path.join(os.path.dirname(REMOTE), "python")
sys.path.insert(0, REMOTE)

import gp_frames as frames  # noqa: E402

MODULES = ["gp_frames", "gp_rundir", "gp_requests", "gp_process", "gp_run", "gp_paths", "gp_journal", "gp_changes", "gp_commands", "gp_files", "gp_relay"]
SHARED = {
    "_gp_sched": (REMOTE, "_gp_remote"), "_gp_native_loop": (REMOTE, "_gp_native_loop"), "_gp_tools": (SHIM, "_gp_tools"), "_gp_await": (SHIM, "_gp_await"),
    "_gp_state": (SHIM, "_gp_state"), "_gp_rewrite": (SHIM, "_gp_rewrite"), "_gp_rewrite_flow": (SHIM, "_gp_rewrite_flow"),
}
JSON_KINDS = (frames.HELLO, frames.EXIT, frames.FAILED, frames.STARTED, frames.SWEPT)
TOOLS = json.dumps([
    {"name": "echo", "doc": "Echoes.", "params": [{"name": "value", "type": "str", "required": True}], "returns": "dict"},
    {"name": "slow", "doc": "Waits.", "params": [{"name": "seconds", "type": "float", "required": True}], "returns": "dict"},
])


def source(directory, name):
    with open(os.path.join(directory, name + ".py"), encoding="utf-8") as file:
        return file.read()


def bundle(options):
    """The text that the host sends after the handshake; the same as `backends/src/bundle.rs` makes."""
    modules = [[name, source(REMOTE, name)] for name in MODULES if os.path.exists(os.path.join(REMOTE, name + ".py"))]
    shared = {name: [file, source(directory, file)] for name, (directory, file) in SHARED.items()}
    data = {"modules": modules, "options": options,
            "sources": {"_gp_runner": source(REMOTE, "_gp_runner"), "shared": shared}}
    return ("import sys,types,json\nb=json.loads(%s)\n"
            "for n,t in b['modules']:\n"
            " m=sys.modules[n]=types.ModuleType(n);exec(compile(t,n+'.py','exec'),m.__dict__)\n"
            "sys.modules['gp_relay'].main(b['options'],b['sources'])\n") % json.dumps(json.dumps(data))


def boot():
    return source(REMOTE, "gp_boot").splitlines()[-1]


class Host:
    """One relay and what it said."""

    def __init__(self, python=None, env=None, prefix=(), handler=None, **options):
        settings = {"max_frame": 64 << 20, "lease": 60.0, "place": None, "doorbell": "fifo"}
        settings.update(options)
        argv = list(prefix) + [python or sys.executable, "-I", "-S", "-c", boot(), "aaaa", "bbbb"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, bufsize=0)
        banner = b""
        while not banner.endswith(b";"):
            byte = self.process.stdout.read(1)
            assert byte, (banner, self.process.stderr.read())
            banner += byte
        assert banner.startswith(b"bbbb:aaaa "), banner
        text = bundle(settings).encode()
        self.send_raw(b"%08d" % len(text) + text)
        self.reader = frames.FrameReader()
        self.inbox = queue.Queue()
        self.output = {1: b"", 2: b""}
        self.calls = []
        self.handler = handler or self.default_handler
        self.key = os.urandom(32)
        self.run_id = os.urandom(8).hex()
        self.auto_answer = True
        self.auto_credit = True
        threading.Thread(target=self._read, daemon=True).start()
        self.stderr = b""
        threading.Thread(target=self._read_stderr, daemon=True).start()
        self.hello = self.expect(frames.HELLO)

    def send_raw(self, data):
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view):]

    def send(self, kind, *parts):
        payload = b"".join(parts)
        self.send_raw(frames.HEADER.pack(len(payload), kind) + payload)

    def _read_stderr(self):
        self.stderr += self.process.stderr.read()

    def _read(self):
        while True:
            try:
                data = os.read(self.process.stdout.fileno(), 1 << 20)
            except (OSError, ValueError):
                # The test is over and has closed the pipe.
                data = b""
            if not data:
                self.inbox.put((None, b""))
                return
            for kind, payload in self.reader.feed(data):
                self._frame(kind, payload)

    def _frame(self, kind, payload):
        if kind == frames.OUTPUT:
            self.output[payload[0]] += payload[1:] if self.keep_output else b""
            self.received = getattr(self, "received", 0) + len(payload) - 1
            if self.auto_credit:
                self.send(frames.CREDIT, frames.SEQ.pack(len(payload) - 1))
        elif kind == frames.CALL and self.auto_answer:
            threading.Thread(target=self._answer, args=(payload,), daemon=True).start()
        else:
            self.inbox.put((kind, payload))

    keep_output = True

    def _answer(self, payload):
        seq, fault = frames.SEQ.unpack_from(payload)[0], payload[4]
        self.calls.append((seq, fault, payload[5:]))
        if fault:
            self.answer(seq, 0, json.dumps({"error": payload[5:].decode()}).encode())
            return
        ring, request = self.unseal(seq, payload[5:])
        self.answer(seq, ring, json.dumps(self.handler(json.loads(request.decode()))).encode())

    @staticmethod
    def default_handler(request):
        if request["tool"] == "slow":
            time.sleep(request["args"]["seconds"])
        return {"ok": request["args"]}

    def unseal(self, seq, content):
        head, _, body = content.partition(b"\n")
        parts = head.split(b" ")
        assert parts[:3] == [b"GP1", b"q", b"%d" % seq] and int(parts[4]) == len(body), head
        assert parts[5] == self.mac(b" ".join(parts[:4]), body)
        return int(parts[3]), body

    def mac(self, head, body):
        return hmac.new(self.key, b"%s %s\n%s" % (head, self.run_id.encode(), body), hashlib.sha256).hexdigest().encode()

    def answer(self, seq, ring, body, kind=b"a"):
        head = b"GP1 %s %d %d" % (kind, seq, ring)
        content = b"%s %d %s\n%s" % (head, len(body), self.mac(head, body), body)
        self.send(frames.ANSWER, frames.SEQ.pack(seq), frames.SEQ.pack(ring), content)

    def expect(self, *kinds, timeout=20):
        end = time.monotonic() + timeout
        while True:
            try:
                kind, payload = self.inbox.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError("no frame %s; stderr: %s" % (kinds, self.stderr))
            if kind is None:
                time.sleep(0.1)
                raise AssertionError("relay ended; stderr: %s" % self.stderr.decode())
            if kind in kinds:
                return json.loads(payload.decode()) if kind in JSON_KINDS else payload
            if kind == frames.FAILED:
                raise AssertionError("failed: %s" % payload)

    def start(self, script, **changes):
        self.output = {1: b"", 2: b""}
        script = script.encode() if isinstance(script, str) else script
        config = {
            "run_id": self.run_id, "argv": ["script.py"], "filename": "script.py", "cwd": None, "path": [],
            "module": "hermes_tools", "tools": TOOLS, "env": {"PATH": "/usr/bin:/bin", "TOP": "1"}, "inherit_env": False,
            "key": self.key.hex(), "timeout": 20.0, "max_request": 1 << 20, "outstanding": 16, "credit": 1 << 20,
            "rlimits": [["RLIMIT_CORE", 0]], "sha256": hashlib.sha256(script).hexdigest(),
        }
        config.update(changes)
        head = json.dumps(config).encode()
        self.send(frames.START, frames.SEQ.pack(len(head)), head, script)

    def run(self, script, **changes):
        """Runs a script to its end: (exit report, stdout, stderr)."""
        self.start(script, **changes)
        self.started = self.expect(frames.STARTED)
        report = self.expect(frames.EXIT, timeout=40)
        return report, self.output[1].decode(), self.output[2].decode()

    def close(self):
        self.process.stdin.close()
        self.process.wait(15)
