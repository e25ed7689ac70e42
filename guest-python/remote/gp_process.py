"""Starting a script and ending everything that it started.

The script leads its own session. On Linux the relay is a subreaper, so that a daemon which the script made becomes a child
of the relay and can be found; the script gets SIGKILL when the relay dies, whatever kills that.
"""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
F_SETPIPE_SZ = 1031
PIPE_SIZE = 1 << 20
# Names that belong to a machine: taken from the account or the container itself, unless the host sets them.
MACHINE_NAMES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES",
    "LC_MONETARY", "LC_NUMERIC", "LC_TIME", "TERM", "TMPDIR", "TMP", "TEMP", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_CACHE_HOME", "XDG_STATE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV",
)


def _libc():
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError):
        return None


LIBC = _libc()


def harden():
    """Makes the relay the reaper of orphans and unreadable for scripts of the same account. Returns what worked."""
    try:
        os.setsid()
    except OSError:
        pass
    if LIBC is None:
        return {"subreaper": False, "pdeathsig": False}
    subreaper = LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return {"subreaper": subreaper, "pdeathsig": True}


def environment(given, inherit):
    """The script's environment: what the host gave, and for a remote what belongs to that machine."""
    env = {}
    if inherit:
        env = {name: os.environ[name] for name in MACHINE_NAMES if name in os.environ}
    env.update(given)
    return env


def start(argv, env, cwd, stdin, pass_fds=(), limits=(), umask=0o022, directory=None, merge=False):
    """Starts a process in its own session; returns the Popen. stdin is bytes, sent by the caller, or None.

    `directory` is a handle to start in; `merge` joins stderr into stdout.
    """
    parent = os.getpid()

    def prepare():
        # Between fork and exec: only system calls and what was loaded before.
        if LIBC is not None:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(125)
        os.umask(umask)
        if directory is not None:
            os.fchdir(directory)
        for name, value in limits:
            _limit(name, value)

    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        cwd=cwd,
        env=env,
        bufsize=0,
        close_fds=True,
        pass_fds=pass_fds,
        start_new_session=True,
        restore_signals=True,
        preexec_fn=prepare,
    )
    _offer(process.pid)
    return process


def _limit(name, value):
    try:
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(kind, (value, value))
    except (AttributeError, ValueError, OSError):
        pass


def _offer(pid):
    """Where memory runs out, the kernel is to end what was started here and not the relay."""
    try:
        with open("/proc/%d/oom_score_adj" % pid, "w") as file:
            file.write("500")
    except OSError:
        pass


def widen(fd):
    """A larger pipe means fewer turns of the relay per megabyte."""
    try:
        fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE)
    except (OSError, ValueError):
        pass


def kill_group(pid):
    """SIGKILL to the session's first process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def kill_one(pid):
    """SIGKILL to one process."""
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def descendants(root):
    """Process ids below `root`, by the kernel's table. Empty where there is no /proc."""
    children = {}
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for pid in pids:
        parent = _parent(pid)
        if parent is not None:
            children.setdefault(parent, []).append(int(pid))
    found, todo = [], [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            found.append(child)
            todo.append(child)
    return found


def _stat(pid):
    try:
        with open("/proc/%s/stat" % pid, "rb") as file:
            # The name in parentheses may hold anything; what follows its last parenthesis is fixed.
            return file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None


def _parent(pid):
    fields = _stat(pid)
    return int(fields[1]) if fields and len(fields) > 1 else None


def start_time(pid):
    """Ticks since boot when a process started: with it a reused id is told apart. 0 when unknown."""
    fields = _stat(pid)
    return int(fields[19]) if fields and len(fields) > 19 else 0


def kill_all(spared=()):
    """One round of SIGKILL to everything below this process; returns how many were there."""
    count = 0
    for pid in descendants(os.getpid()):
        if pid in spared:
            continue
        count += 1
        kill_one(pid)
    return count


def reap():
    """Collects every child that has ended: a list of (pid, wait status), and whether any child is left."""
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except InterruptedError:
            continue
        except OSError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, status))


def oom_kills():
    """Processes that this memory group lost to its limit; None when the kernel doesn't tell."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as file:
                for line in file:
                    name, _, count = line.partition(" ")
                    if name == "oom_kill":
                        return int(count)
        except (OSError, ValueError):
            pass
    return None


def end_orphans(recorded, marker):
    """Kills what a dead relay left of one run: processes of ours whose environment names its directory. Returns how many."""
    count = 0
    needle = ("HERMES_RPC_DIR=" + marker).encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                ours = any(v.startswith(needle) for v in file.read(1 << 20).split(b"\0"))
            if ours:
                os.kill(int(name), signal.SIGKILL)
                count += 1
        except OSError:
            continue
    for pid, ticks in recorded:
        if ticks and start_time(pid) == ticks:
            kill_group(pid)
            count += 1
    return count


def wait_gone(deadline, spared=()):
    """Kills and reaps until nothing is below this process; for the end of a relay, where nothing else has to go on."""
    while reap()[1]:
        if not kill_all(spared) or time.monotonic() > deadline:
            return
        time.sleep(0.005)
