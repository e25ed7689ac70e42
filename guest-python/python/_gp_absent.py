"""What this guest cannot do, said in the exception that a script would expect, with what to use instead.

The modules themselves import as usual; only the step that would need a process, a socket, a display or a debugger's
terminal raises.
"""

import errno
import http.client
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser

import _gp_tools as tools

_PROCESS_FUNCTIONS = (
    "system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execve", "execl", "execle", "execlp",
    "execlpe", "execvp", "execvpe", "spawnv", "spawnve", "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnvp",
    "spawnvpe", "wait", "waitpid", "kill", "killpg",
)


def _no_process(what):
    return OSError(errno.ENOTSUP, f"{what}: processes cannot be started here"
                   + tools.suggestion("terminal", "; use terminal() from {module} instead"))


def _no_network(what):
    return OSError(errno.ENOTSUP, f"{what}: there is no network here"
                   + tools.suggestion("web_extract", "; use web_extract() from {module} instead"))


def _refusing(name, make_error, qualname=None):
    def refused(*args, **kwargs):
        raise make_error(qualname or name)

    refused.__name__ = name
    refused.__qualname__ = qualname or name
    return refused


def _refuse_processes():
    for name in _PROCESS_FUNCTIONS:
        function = _refusing(name, _no_process, f"os.{name}")
        function.__module__ = "os"
        setattr(os, name, function)
    original = subprocess.Popen.__init__

    def __init__(self, args, *rest, **options):
        # The attributes that `__del__` and `__exit__` look at.
        self.returncode, self._child_created = None, False
        program = args if isinstance(args, (str, bytes)) else next(iter(args), "")
        raise _no_process(f"subprocess ({os.fsdecode(program).split(' ')[0]!r})")

    __init__.__doc__ = original.__doc__
    subprocess.Popen.__init__ = __init__


def _refuse_network():
    for name in ("create_connection", "create_server", "getaddrinfo", "gethostbyname", "gethostbyname_ex",
                 "gethostbyaddr", "getnameinfo", "socketpair", "fromfd"):
        setattr(socket, name, _refusing(name, _no_network, f"socket.{name}"))

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        raise _no_network("socket.socket")

    socket.socket.__init__ = __init__
    # A socket that was never made has nothing to say about itself or to close.
    socket.socket.__repr__ = object.__repr__
    socket.socket.__del__ = lambda self: None
    original = urllib.request.OpenerDirector.open

    def open(self, fullurl, data=None, timeout=socket._GLOBAL_DEFAULT_TIMEOUT):
        url = fullurl if isinstance(fullurl, str) else fullurl.full_url
        scheme = url.partition(":")[0].lower()
        if scheme in ("http", "https", "ftp"):
            raise urllib.error.URLError(_no_network(scheme))
        return original(self, fullurl, data, timeout)

    urllib.request.OpenerDirector.open = open
    if not hasattr(http.client, "HTTPSConnection"):
        class HTTPSConnection(http.client.HTTPConnection):
            default_port = 443

        class HTTPSHandler(urllib.request.AbstractHTTPHandler):
            def https_open(self, req):
                return self.do_open(HTTPSConnection, req)

            https_request = urllib.request.AbstractHTTPHandler.do_request_

        HTTPSConnection.__module__, HTTPSHandler.__module__ = "http.client", "urllib.request"
        http.client.HTTPSConnection = HTTPSConnection
        urllib.request.HTTPSHandler = HTTPSHandler


def _refuse_multiprocessing():
    try:
        import multiprocessing
        import multiprocessing.context
        import multiprocessing.process
    except ImportError:
        return

    def error(what):
        return OSError(errno.ENOTSUP, f"{what}: processes cannot be started here; use "
                       "concurrent.futures.ThreadPoolExecutor or a plain loop instead")

    multiprocessing.process.BaseProcess.start = _refusing("start", error, "multiprocessing.Process.start")
    context = multiprocessing.context.BaseContext
    for name in ("Pool", "Manager", "Queue", "JoinableQueue", "SimpleQueue", "Pipe", "Lock", "RLock", "Semaphore",
                 "BoundedSemaphore", "Condition", "Event", "Barrier", "Value", "Array", "RawValue", "RawArray"):
        refused = _refusing(name, error, f"multiprocessing.{name}")
        setattr(context, name, refused)
        if hasattr(multiprocessing, name):
            setattr(multiprocessing, name, refused)


def _refuse_interaction():
    def breakpointhook(*args, **kwargs):
        raise RuntimeError("breakpoint(): there is no terminal to debug from; print what you want to see")

    sys.breakpointhook = sys.__breakpointhook__ = breakpointhook

    def set_trace(*args, **kwargs):
        raise RuntimeError("pdb: there is no terminal to debug from; print what you want to see")

    try:
        import pdb
    except ImportError:
        pass
    else:
        pdb.set_trace = pdb.post_mortem = pdb.pm = set_trace

    def open_browser(url, new=0, autoraise=True):
        raise webbrowser.Error("there is no browser here"
                               + tools.suggestion("web_extract", "; use web_extract() from {module} to read a page"))

    webbrowser.open = open_browser
    webbrowser.open_new = webbrowser.open_new_tab = lambda url: open_browser(url)


def install():
    _refuse_processes()
    _refuse_network()
    _refuse_multiprocessing()
    _refuse_interaction()
    if os.cpu_count() is None:
        os.cpu_count = os.process_cpu_count = lambda: 1
