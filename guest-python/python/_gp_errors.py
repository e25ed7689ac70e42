"""How a script ends: exit codes and error reports as CPython's own `main` makes them.

Everything needed is bound here while the snapshot is made, because a script may have emptied `builtins`, replaced
`sys.stderr` or used up its memory when this code runs.
"""

import builtins
import gc
import json
import linecache
import sys
import traceback

import _gloveport
import _gp_state as state
import _gp_streams

_REPORT = b"\x06"
_builtins = builtins.__dict__
_builtins_copy = dict(_builtins)
_restore_builtins = _builtins.update
_original_excepthook = sys.__excepthook__
_print_exception = traceback.print_exception
_stderr = _gp_streams.stderr
_type_name = type.__dict__["__name__"].__get__
# As many lines of a traceback as CPython itself prints at most.
_tb_entries = 1000
_tb_limit = traceback.BUILTIN_EXCEPTION_LIMIT
_MemoryError = MemoryError
_SyntaxError = SyntaxError
_SystemExit = SystemExit
_KeyboardInterrupt = KeyboardInterrupt
_BaseException = BaseException
_clear_frames = traceback.clear_frames

# A handled interrupt ends CPython with the signal; without signals this is the code a shell would report.
INTERRUPT_EXIT_CODE = 130
FLUSH_FAILED_EXIT_CODE = 120


def hidden(code):
    """True for the shim's own code, which no traceback shows."""
    return code.co_filename.rpartition("/")[2].startswith("_gp_")


def hide_shim_frames():
    """Makes every traceback and stack listing of the `traceback` module skip the shim's frames."""
    original = traceback.StackSummary._extract_from_extended_frame_gen.__func__

    def extract(klass, frame_gen, **options):
        return original(klass, _shown(frame_gen), **options)

    traceback.StackSummary._extract_from_extended_frame_gen = classmethod(extract)
    if sys.version_info >= (3, 15):
        _drop_advice_about_site()


# What CPython 3.15 adds to the text of a ModuleNotFoundError where `site` was not imported.
_SITE_ADVICE = (". Site initialization is disabled, did you forget to add the site-packages directory to sys.path or to "
                "enable your virtual environment?")


def _drop_advice_about_site():
    original = traceback.TracebackException.__init__

    def __init__(self, *args, **options):
        original(self, *args, **options)
        text = self._str
        if isinstance(text, str) and text.endswith(_SITE_ADVICE):
            self._str = text.removesuffix(_SITE_ADVICE)

    traceback.TracebackException.__init__ = __init__


def _shown(items):
    """The frames without the shim's, and without those of importlib around them: CPython itself trims importlib's
    frames, but not where others lie between."""
    held, ours = [], False
    for item in items:
        code = item[0].f_code
        if hidden(code):
            ours = True
        elif code.co_filename.startswith("<frozen importlib"):
            held.append(item)
        else:
            if not ours:
                yield from held
            held, ours = [], False
            yield item
    if not ours:
        yield from held


def exit_code_of(error):
    """Reports what ends the script (None = it ran to its end) and returns its exit code."""
    if error is None:
        return 0
    # Restored before anything else: the code below, and `traceback`, look their builtins up there.
    _restore_builtins(_builtins_copy)
    if isinstance(error, _SystemExit):
        return _system_exit(error)
    _strip_own_frames(error)
    if isinstance(error, _SyntaxError):
        _add_source_line(error)
    if isinstance(error, _MemoryError):
        _free_script(error)
    _send_report(error)
    try:
        code = _print_uncaught(error)
    except _MemoryError:
        _free_script(error)
        code = _print_again(error)
    if code is not None:
        return code
    return INTERRUPT_EXIT_CODE if isinstance(error, _KeyboardInterrupt) else 1


def _print_again(error):
    """The second attempt, with the script's memory given back; then only the error's type is reported."""
    try:
        return _print_uncaught(error)
    except _BaseException:
        _own_stderr().write(_type_name(type(error)) + "\n")
        return None


def _strip_own_frames(error):
    tb = error.__traceback__
    while tb is not None and hidden(tb.tb_frame.f_code):
        tb = tb.tb_next
    error.__traceback__ = tb


def strip_to_script(error):
    """Drops what runs the loop below a script with top-level `await`."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_globals is not state.run.script:
        tb = tb.tb_next
    if tb is not None:
        error.__traceback__ = tb


def _free_script(error):
    """Gives the script's objects back, so that there is memory to report with. The traceback keeps its last lines."""
    _clear_frames(error.__traceback__)
    tb, entries = error.__traceback__, 0
    while tb is not None:
        tb, entries = tb.tb_next, entries + 1
    tb = error.__traceback__
    for _ in range(entries - _tb_entries):
        tb = tb.tb_next
    error.__traceback__ = tb
    for name in list(state.run.script or ()):
        if not name.startswith("__"):
            del state.run.script[name]
    gc.collect()


def _add_source_line(error):
    """The compiler looks for the line it complains about in a file of that name; the script is none."""
    if error.text is None and error.filename in state.run.sources and isinstance(error.lineno, int):
        error.text = linecache.getline(error.filename, error.lineno) or None


def _send_report(error):
    try:
        _gloveport.call(_REPORT + json.dumps({"exception": _type_name(type(error))}).encode("utf-8", "replace"))
    except Exception:
        # The report is advice for the host; the exit code and the text below stand without it.
        pass


def _system_exit(error):
    """`_Py_HandleSystemExit`: integers as a C int, None is 0, anything else is printed and is 1."""
    try:
        code = error.code
    except _BaseException:
        code = error
    if code is None:
        return 0
    if isinstance(code, int):
        number = int.__index__(code)
        if not -(1 << 63) <= number < 1 << 63:
            return -1
        number &= 0xFFFFFFFF
        return number - (1 << 32) if number & 0x80000000 else number
    stream = _usable_stderr()
    try:
        stream.write(str(code))
    except _BaseException:
        pass
    try:
        stream.write("\n")
    except _BaseException:
        pass
    return 1


def _usable_stderr():
    """`sys.stderr`, or our own where the script deleted or closed it: an error must not vanish."""
    try:
        stream = sys.stderr
        if stream is not None and not getattr(stream, "closed", False) and hasattr(stream, "write"):
            return stream
    except _BaseException:
        pass
    return _own_stderr()


def _own_stderr():
    if not _stderr.closed:
        return _stderr
    return _gp_streams._text(_gp_streams._Stderr(), "backslashreplace", True)


def _print_uncaught(error):
    """Calls `sys.excepthook` as `PyErr_Print` does. Returns an exit code if the hook itself asked for one."""
    sys.last_exc = sys.last_value = error
    sys.last_type = type(error)
    sys.last_traceback = error.__traceback__
    hook = getattr(sys, "excepthook", None)
    if hook is _original_excepthook:
        _print_default(error)
        return None
    stream = _usable_stderr()
    if hook is None:
        stream.write("sys.excepthook is missing\n")
        _print_default(error)
        return None
    try:
        hook(type(error), error, error.__traceback__)
    except _SystemExit as ending:
        return _system_exit(ending)
    except _BaseException as second:
        _restore_builtins(_builtins_copy)
        _strip_own_frames(second)
        second.__context__ = None
        stream.write("Error in sys.excepthook:\n")
        _print_default(second)
        stream.write("\nOriginal exception was:\n")
        _print_default(error)
    return None


def _print_default(error):
    try:
        _print_exception(error, limit=_tb_limit, file=_usable_stderr())
    except _MemoryError:
        raise
    except _BaseException:
        # The stream or the exception is too broken for the full form; its type is still worth a line.
        _own_stderr().write("Traceback (most recent call last):\n" + _type_name(type(error)) + "\n")


def flush_streams():
    """Flushes like `flush_std_files`. False when standard output could not be flushed."""
    fine = True
    out = getattr(sys, "stdout", None)
    if out is not None and not _is_closed(out):
        try:
            out.flush()
        except _BaseException as error:
            fine = False
            report_ignored(error, out)
    err = getattr(sys, "stderr", None)
    if err is not None and not _is_closed(err):
        try:
            err.flush()
        except _BaseException:
            fine = False
    _gloveport.flush()
    return fine


def _is_closed(stream):
    try:
        return bool(stream.closed)
    except _BaseException:
        return False


def report_ignored(error, subject):
    """Prints an error that ends nothing, as `sys.unraisablehook` does."""
    stream = _own_stderr()
    try:
        stream.write(f"Exception ignored in: {subject!r}\n")
        _strip_own_frames(error)
        _print_exception(error, file=stream)
    except _BaseException:
        pass
