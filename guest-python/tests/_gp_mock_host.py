"""A host for tests: a `_gloveport` module in plain Python, and the driver that runs one script under the shim.

Run as a program it reads a job (JSON) from standard input, runs the script and prints a JSON report on standard output.
Calls started with START finish after the delay that the tool asks for, so tests can see how many ran at the same time.
"""

import json
import os
import sys
import time
import types

_sleep = time.sleep
_monotonic = time.monotonic


class Host:
    """Keeps the calls, the streams' bytes and a log of what the guest asked for."""

    def __init__(self, job):
        self.job = job
        self.out = {1: bytearray(), 2: bytearray()}
        self.calls = []
        self.running = {}
        self.most_at_once = 0
        self.next_id = 1
        self.dropped = 0
        self.report = None
        self.flushes = 0

    # --- what tools do ---

    def answer(self, request):
        """(seconds, answer JSON bytes) of a tool request."""
        request = json.loads(request.decode("utf-8"))
        name, args = request["tool"], request["args"]
        self.calls.append([name, args])
        if name not in self.job.get("tool_names", []):
            names = ", ".join(self.job.get("tool_names", []))
            return 0, json.dumps({"error": f"Tool {name!r} is not available in execute_code. Available: {names}"}).encode()
        delay = args.get("delay", self.job.get("delay", 0.02))
        if name == "raw":
            text = args["json"]
            return delay, text.encode() if isinstance(text, str) else b"null"
        if name == "read_file":
            return delay, json.dumps({"content": f"<{args.get('path')}>", "path": args.get("path")}).encode()
        return delay, json.dumps({"tool": name, "args": args}).encode()

    # --- messages ---

    def call(self, message):
        message = bytes(message)
        op, body = message[0], message[1:]
        if op == 1:
            delay, answer = self.answer(body)
            self.most_at_once = max(self.most_at_once, len(self.running) + 1)
            _sleep(delay)
            return answer
        if op == 2:
            if len(self.running) >= self.job.get("max_running", 1000):
                raise RuntimeError("too many tool calls are outstanding")
            delay, answer = self.answer(body)
            number = self.next_id
            self.next_id += 1
            self.running[number] = (_monotonic() + delay, answer)
            self.most_at_once = max(self.most_at_once, len(self.running))
            return number.to_bytes(4, "little")
        if op == 3:
            return self.wait(int.from_bytes(body[:8], "little", signed=True), body[8:])
        if op == 4:
            for at in range(0, len(body), 4):
                if self.running.pop(int.from_bytes(body[at:at + 4], "little"), None):
                    self.dropped += 1
            return b""
        if op == 6:
            self.report = json.loads(body)["exception"]
            return b""
        raise ValueError("the host does not understand this message")

    def wait(self, timeout, ids):
        ids = [int.from_bytes(ids[at:at + 4], "little") for at in range(0, len(ids), 4)]
        deadline = None if timeout < 0 else _monotonic() + timeout / 1e9
        if not ids:
            _sleep(max(0, deadline - _monotonic()))
            return b""
        ends, number = min((self.running[i][0], i) for i in ids)
        if deadline is not None and deadline < ends:
            _sleep(max(0, deadline - _monotonic()))
            return b""
        _sleep(max(0, ends - _monotonic()))
        return number.to_bytes(4, "little") + self.running.pop(number)[1]

    # --- streams ---

    def stdout_write(self, data):
        self.out[1] += data
        return len(memoryview(data).cast("B"))

    def stderr_write(self, data):
        self.out[2] += data
        return len(memoryview(data).cast("B"))

    def flush(self):
        self.flushes += 1

    def environ(self):
        return {key.encode(): value.encode() for key, value in self.job.get("environ", {}).items()}

    def set_tzif(self, data):
        self.tzif = data


def module_for(host):
    module = types.ModuleType("_gloveport")
    for name in ("call", "stdout_write", "stderr_write", "flush", "environ", "set_tzif"):
        setattr(module, name, getattr(host, name))
    return module


def main():
    job = json.load(sys.stdin)
    host = Host(job)
    sys.modules["_gloveport"] = module_for(host)
    shim = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python")
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    sys.path.insert(0, shim)
    real_stdout = sys.stdout
    sys.modules.setdefault("__main__", types.ModuleType("__main__"))
    if job.get("pack"):
        import _gp_pack

        _gp_pack.PACK_PATH = job["pack"]
        _gp_pack.load.__defaults__ = (job["pack"],)
    import _gp_boot

    host.__init__(job)
    header = json.dumps({
        "argv": job.get("argv", ["script.py"]), "filename": job.get("filename", "script.py"), "cwd": job.get("cwd"),
        "path": job.get("path", []), "module": job.get("module", "hermes_tools"),
        "tools": json.dumps(job.get("tools", [])), "tz": job.get("tz"), "project": True,
    }).encode()
    started = _monotonic()
    code = _gp_boot.run(header, job["code"].encode("utf-8", "surrogatepass"))
    seconds = _monotonic() - started
    real_stdout.write(json.dumps({
        "exit": code, "stdout": bytes(host.out[1]).decode("utf-8", "replace"),
        "stderr": bytes(host.out[2]).decode("utf-8", "replace"), "calls": host.calls, "at_once": host.most_at_once,
        "failures": getattr(_gp_boot, "failures", None), "report": host.report, "dropped": host.dropped, "running": len(host.running), "seconds": seconds,
    }))
    real_stdout.flush()
    os._exit(0)


def guarded():
    real_stderr = sys.stderr
    try:
        main()
    except BaseException:
        import traceback

        # The shim replaced `sys.stderr`; a failure of the shim itself must still be seen.
        frames = traceback.StackSummary.extract(traceback.walk_tb(sys.exc_info()[2]))
        real_stderr.write("".join(traceback.format_exception_only(*sys.exc_info()[:2])) + "".join(frames.format()))
        tb = sys.exc_info()[2]
        while tb:
            real_stderr.write(f"  {tb.tb_frame.f_code.co_filename}:{tb.tb_lineno} {tb.tb_frame.f_code.co_name}\n")
            tb = tb.tb_next
        real_stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    guarded()
