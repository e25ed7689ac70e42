"""One run: makes the frozen interpreter look freshly started, executes the script as `__main__`, reports how it ended.

`prepare`, the evaluation of the code it returns, and `finish` are the three steps. A C side that evaluates the code
object itself (`PyEval_EvalCode`) leaves no frame of ours below the script; `run` does all three in Python.
"""

import _random
import ast
import atexit
import builtins
import gc
import json
import logging
import os
import random
import sys
import threading
import types

import _gloveport
import _gp_errors as errors
import _gp_fresh as fresh
import _gp_imports as imports
import _gp_pool as pool
import _gp_sched as sched
import _gp_show as show
import _gp_state as state
import _gp_streams as streams
import _gp_tools as tools
import _gp_tz as tz

_ModuleType = types.ModuleType
_restore_builtins = builtins.__dict__.update
_builtins_copy = dict(builtins.__dict__)
_log_handlers = logging._handlerList
_log_handlers_before = len(_log_handlers)
_BaseException = BaseException
_eval = eval


def _change_directory(path):
    if path != os.getcwdb():
        os.chdir(path)


# A base that does not know this way asks the host about each directory but the one that the snapshot was taken in.
_enter = getattr(_gloveport, "enter", _change_directory)

# The tool module under its usual name; under another one it is made when imported.
_TOOL_MODULE = "hermes_tools"
tool_module = tools.prebuild()

# Words that a source must hold for a collection at the end to be noticed by anyone: finalizers, coroutines, open files.
_COLLECT_HINTS = (b"__del__", b"finalize", b"async", b"await", b"yield", b"open", b"File", b"import_module")
# Words without one of which a source reaches no module, and so no generator of random numbers that lies in one.
_REACHING_HINTS = (b"import", b"exec", b"eval", b"open", b"__", b"coding")
_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_LAST_EXCEPTION = ("last_exc", "last_type", "last_value", "last_traceback")
_ScriptLoader = imports.ScriptLoader
_count_exit_hooks = atexit._ncallbacks
_sys_names = sys.__dict__
_modules = sys.modules
_argv, _orig_argv, _path = sys.argv, sys.orig_argv, sys.path
_host_environ = _gloveport.environ
_urandom = os.urandom
_thread_exit_hooks = threading._threading_atexits
_thread_exit_hooks_before = len(_thread_exit_hooks)
# Warnings about what dies last name the place that CPython names: `<sys>:0`.
_last_collection = compile("collect()", "<sys>", "eval").replace(co_firstlineno=0)


def gather():
    """Makes anew what each run begins with, so that it lies side by side: a run pays for each region of the snapshot that it reads."""
    global _run_state, _scan_header, _seed, _bytes_to_int, _clear_environ, _update_environ, _COLLECT_HINTS, _REACHING_HINTS
    _run_state = state.run
    _scan_header = json.JSONDecoder().scan_once
    _seed = _random.Random.seed.__get__(random._inst)
    _bytes_to_int = int.from_bytes
    environ = os.environ._data
    _clear_environ, _update_environ = environ.clear, environ.update
    _COLLECT_HINTS, _REACHING_HINTS = (
        tuple(bytes(bytearray(word)) for word in words) for words in (_COLLECT_HINTS, _REACHING_HINTS)
    )


gather()


def run(header, code):
    """Runs one script. `header` and `code` are the two parts of `gloveport_run`'s argument. Returns the exit code."""
    outcome = [None, None]
    try:
        outcome[0] = _eval(*prepare(header, code))
    except _BaseException as error:
        outcome[1] = error
    return finish(outcome)


def prepare(header, code):
    """Sets the process state up and compiles the script. Returns `(code object, globals)`, to be evaluated."""
    settings = _scan_header(str(header, "utf-8"), 0)[0]
    _refresh_process(settings)
    # Written here and not by `tools.configure` and `imports.remember_source`: their modules are regions that a run need not read.
    run_state = _run_state
    filename = settings.get("filename") or "script.py"
    run_state.module = name = settings.get("module") or _TOOL_MODULE
    run_state.tools = settings.get("tools") or "[]"
    if name == _TOOL_MODULE:
        _modules[name] = tool_module
    else:
        _modules.pop(_TOOL_MODULE, None)
    code = bytes(code)
    if not code.isascii() or any(map(code.__contains__, _REACHING_HINTS)):
        fresh.reseed()
    run_state.sources[filename] = code
    main = _modules["__main__"] = _ModuleType("__main__")
    namespace = main.__dict__
    namespace["__loader__"] = _ScriptLoader
    namespace["__annotations__"] = {}
    namespace["__builtins__"] = builtins
    namespace["__file__"] = filename
    namespace["__cached__"] = None
    run_state.script = namespace
    run_state.collects = any(map(code.__contains__, _COLLECT_HINTS))
    run_state.touches_builtins = b"builtins" in code
    run_state.had_threads = False
    run_state.figures = settings.get("figures") or 0
    is_async = b"async" in code or b"await" in code
    if settings.get("tables"):
        code = show.showing_last(code, filename, namespace, _TOP_LEVEL_AWAIT if is_async else 0)
    if is_async:
        return imports.compile_async(code, filename, top_level=True), namespace
    return compile(code, filename, "exec", 0, True, 0), namespace


def _refresh_process(settings):
    """Environment, random state, directory, arguments and time zone of this run."""
    _clear_environ()
    _update_environ(_host_environ())
    # The generator's own seed() reads 2,496 bytes from the host; 256 bits are as unpredictable and 20 times cheaper.
    _seed(_bytes_to_int(_urandom(32)))
    cwd = settings.get("cwd")
    if cwd:
        try:
            _enter(bytes(cwd, "utf-8"))
        except OSError as error:
            streams.stderr.write(f"warning: the working directory is not available: {error}\n")
    _argv[:] = settings.get("argv") or [""]
    _orig_argv[:] = ["python3", *_argv]
    _path[:] = settings.get("path") or ()
    zone = settings.get("tz")
    if zone:
        tz.apply(zone)


def finish(outcome):
    """Ends the run. `outcome` is `[result of the evaluation, exception or None]` and is emptied, so that the script's
    objects can die here. Returns the exit code."""
    result, error = outcome
    outcome.clear()
    if _run_state.touches_builtins or error is not None:
        # The code below needs the builtins that a script may have deleted; this line does not.
        _restore_builtins(_builtins_copy)
    if error is None and result is not None:
        error = _drive(result)
    code = 0 if error is None else errors.exit_code_of(error)
    for name in _LAST_EXCEPTION:
        if _sys_names.get(name) is not None:
            _sys_names[name] = None
    del error, result
    if _run_state.figures:
        show.send_figures(_run_state.figures)
    _call_exit_hooks()
    _destroy_script()
    if not errors.flush_streams():
        code = errors.FLUSH_FAILED_EXIT_CODE
    return code


def _drive(coroutine):
    """Runs the coroutine that a script with top-level `await` compiles to."""
    import _gp_loop

    try:
        _gp_loop.run_top_level(coroutine)
    except BaseException as error:
        errors.strip_to_script(error)
        return error
    return None


def _call_exit_hooks():
    """Joins the threads and calls what was registered with `atexit`. Errors in there are printed, as CPython does."""
    has_threads = _run_state.had_threads and (sched.active() or pool.pools)
    if has_threads or len(_thread_exit_hooks) != _thread_exit_hooks_before:
        try:
            threading._shutdown()
        except BaseException as error:
            errors.report_ignored(error, threading._shutdown)
    if _count_exit_hooks():
        atexit._run_exitfuncs()
    if len(_log_handlers) != _log_handlers_before:
        logging.shutdown()


def _destroy_script():
    """What CPython does to the modules at its end: the script's objects die, and their finalizers may still print."""
    collect = _run_state.collects or _run_state.workspace_used
    if collect:
        # CPython collects before, too. It matters: what is alive gets sorted, so that a file's text layer is closed
        # before the raw file below it, and nothing written is lost.
        _eval(_last_collection, {"collect": gc.collect})
    # None, as CPython sets it before it destroys a module: a name that goes and comes makes the run write to more pages.
    _modules["__main__"] = None
    _run_state.script = None
    if _run_state.workspace_used:
        imports.forget_workspace_modules()
    if collect:
        _eval(_last_collection, {"collect": gc.collect})
