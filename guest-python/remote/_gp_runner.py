"""Runs one script in a fresh interpreter so that it looks as if `python script.py` had started it.

The relay sends the configuration and the compiled shared modules over standard input, which the script then finds at its end. What the
script sees of streams, exit codes and tracebacks is what the sealed guest (`guest-python/python/_gp_run.py`) shows.
"""

import builtins
import os
import sys
import types

_BUILTINS_COPY = dict(builtins.__dict__)
_restore_builtins = builtins.__dict__.update
INTERRUPT_EXIT_CODE = 130
_sources = {}
# What runs this module: the one line of the command line.
_BOOT_CODE = sys._getframe(1).f_code


def run(config, codes):
    """Runs the script. Returns the exit code for the process."""
    _standard_streams()
    _site_packages()
    path, filename = config["script"], config["filename"]
    with open(path, "rb") as file:
        source = file.read()
    # Not kept anywhere: what still holds this at the end keeps the script's objects from being finalized while they can print.
    main = sys.modules["__main__"].__dict__
    for name in list(main):
        if not name.startswith("__"):
            del main[name]
    main["__file__"] = filename
    sys.argv[:] = config["argv"]
    sys.path[:] = [entry for entry in sys.path if entry] + config["path"]
    _sources[filename] = source
    os.chdir(config["cwd"])
    _Modules(config, codes).install()
    error = _execute(source, filename, main)
    _restore_builtins(_BUILTINS_COPY)
    code = _exit_code(error)
    _tell(config["status_fd"], code)
    return code & 0xFF


def _standard_streams():
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = sys.__stdin__ = open(0, "r", encoding="utf-8", errors="strict", closefd=False)
    sys.stdout.reconfigure(encoding="utf-8", errors="strict", newline="\n", write_through=True)
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n", write_through=True)


def _site_packages():
    """The installation's packages, but neither the account's nor anybody's start-up code."""
    import site

    site.execsitecustomize = site.execusercustomize = lambda: None
    site.ENABLE_USER_SITE = False
    site.main()


def _execute(source, filename, main):
    """Compiles and runs the script; returns what ended it, or None."""
    try:
        if b"async" in source or b"await" in source:
            import _gp_await
            import _gp_native_loop as loop

            loop.install()
            code = _gp_await.compile_source(source, filename, top_level=True)
            result = eval(code, main)
            if isinstance(result, types.CoroutineType) and code.co_flags & 0x80:
                loop.run_top_level(result)
        else:
            exec(compile(source, filename, "exec", 0, True, -1), main)
    except BaseException as error:
        return error
    return None


# --- how it ends ---------------------------------------------------------------------------------------------------------


def _exit_code(error):
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return _system_exit(error)
    _strip_own_frames(error)
    code = _print_uncaught(error)
    if code is not None:
        return code
    return INTERRUPT_EXIT_CODE if isinstance(error, KeyboardInterrupt) else 1


def _system_exit(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        number = int.__index__(code)
        if not -(1 << 63) <= number < 1 << 63:
            return -1
        number &= 0xFFFFFFFF
        return number - (1 << 32) if number & 0x80000000 else number
    _write_error(str(code) + "\n")
    return 1


def _write_error(text):
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:
        # The script closed or replaced its stderr; an error must not vanish.
        os.write(2, text.encode("utf-8", "backslashreplace"))


def _print_uncaught(error):
    """Reports as `PyErr_Print` does. Returns an exit code if the script's own hook asked for one."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    hook = getattr(sys, "excepthook", None)
    if hook is sys.__excepthook__:
        _print_default(error)
        return None
    if hook is None:
        _write_error("sys.excepthook is missing\n")
        _print_default(error)
        return None
    try:
        hook(type(error), error, error.__traceback__)
    except SystemExit as ending:
        return _system_exit(ending)
    except BaseException as second:
        _strip_own_frames(second)
        second.__context__ = None
        _write_error("Error in sys.excepthook:\n")
        _print_default(second)
        _write_error("\nOriginal exception was:\n")
        _print_default(error)
    return None


def _print_default(error):
    try:
        import traceback

        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except BaseException:
        text = "Traceback (most recent call last):\n" + type(error).__name__ + "\n"
    _write_error(text)


def _hidden(code):
    return code is _BOOT_CODE or code.co_filename.rpartition("/")[2].startswith("_gp_")


def _strip_own_frames(error):
    tb = error.__traceback__
    while tb is not None and _hidden(tb.tb_frame.f_code):
        tb = tb.tb_next
    error.__traceback__ = tb


def _hide_own_frames(traceback):
    """Makes the traceback module skip our frames, and show the lines of the script."""
    import linecache

    summary = traceback.StackSummary
    if hasattr(summary, "_extract_from_extended_frame_gen"):
        original = summary._extract_from_extended_frame_gen.__func__

        def extended(klass, frame_gen, **options):
            return original(klass, (item for item in frame_gen if not _hidden(item[0].f_code)), **options)

        summary._extract_from_extended_frame_gen = classmethod(extended)
    else:
        plain = summary.extract.__func__

        def extract(klass, frame_gen, **options):
            return plain(klass, (item for item in frame_gen if not _hidden(item[0].f_code)), **options)

        summary.extract = classmethod(extract)
    update = linecache.updatecache

    def updatecache(filename, module_globals=None):
        source = _sources.get(filename)
        if source is None:
            return update(filename, module_globals)
        lines = _lines(source)
        linecache.cache[filename] = (len(source), None, lines, filename)
        return lines

    linecache.updatecache = updatecache


def _lines(source):
    import io
    import tokenize

    try:
        encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0]
        text = source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        text = source.decode("utf-8", "replace")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").splitlines(True) or ["\n"]
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _tell(fd, code):
    """The whole exit code: the kernel keeps eight bits of it."""
    try:
        os.write(fd, b"%d\n" % code)
        os.close(fd)
    except OSError:
        pass


# --- modules ---------------------------------------------------------------------------------------------------------------


class _Modules:
    """Finds the tools module and our own files, which exist only as code objects in memory."""

    def __init__(self, config, codes):
        self._config = config
        self._codes = codes

    def install(self):
        # In front, so that a file of the same name in the working directory can't stand in for the tools.
        sys.meta_path.insert(0, self)
        if "traceback" in sys.modules:
            _hide_own_frames(sys.modules["traceback"])

    def find_spec(self, name, path=None, target=None):
        if path is not None:
            return None
        if name in self._codes:
            return self._spec(name, self)
        if name == self._config["module"]:
            tools = self._tools()
            return tools.ToolModuleFinder.find_spec(name)
        if name == "traceback":
            return self._traceback()
        return None

    def _spec(self, name, loader):
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, loader, origin="gloveport")

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self._codes[module.__name__], module.__dict__)
        if module.__name__ == "_gp_sched":
            module.configure(self._config)

    def _tools(self):
        import _gp_tools as tools

        tools.configure(self._config["module"], self._config["tools"])
        return tools

    def _traceback(self):
        """The real module, with our frames left out of what it shows."""
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec("traceback")
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            _hide_own_frames(module)

        spec.loader.exec_module = exec_module
        return spec
