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
_parse_header = json.JSONDecoder().decode
_seed = _random.Random.seed
_generator = random._inst
_log_handlers = len(logging._handlerList)
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
_sys_names = sys.__dict__
_thread_exit_hooks = len(threading._threading_atexits)
# Warnings about what dies last name the place that CPython names: `<sys>:0`.
_last_collection = compile("collect()", "<sys>", "eval").replace(co_firstlineno=0)


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
    settings = _parse_header(str(header, "utf-8"))
    _refresh_process(settings)
    filename = settings.get("filename") or "script.py"
    name = settings.get("module") or _TOOL_MODULE
    tools.configure(name, settings.get("tools") or "[]")
    if name == _TOOL_MODULE:
        sys.modules[name] = tool_module
    else:
        sys.modules.pop(_TOOL_MODULE, None)
    code = bytes(code)
    if not code.isascii() or any(map(code.__contains__, _REACHING_HINTS)):
        fresh.reseed()
    imports.remember_source(filename, code)
    main = sys.modules["__main__"] = _ModuleType("__main__")
    namespace = main.__dict__
    namespace["__loader__"] = imports.ScriptLoader
    namespace["__annotations__"] = {}
    namespace["__builtins__"] = builtins
    namespace["__file__"] = filename
    namespace["__cached__"] = None
    run_state = state.run
    run_state.script = namespace
    run_state.collects = any(map(code.__contains__, _COLLECT_HINTS))
    run_state.touches_builtins = b"builtins" in code
    run_state.figures = settings.get("figures") or 0
    is_async = b"async" in code or b"await" in code
    if settings.get("tables"):
        code = show.showing_last(code, filename, namespace, _TOP_LEVEL_AWAIT if is_async else 0)
    if is_async:
        return imports.compile_async(code, filename, top_level=True), namespace
    return compile(code, filename, "exec", 0, True, 0), namespace


def _refresh_process(settings):
    """Environment, random state, directory, arguments and time zone of this run."""
    environ = os.environ._data
    environ.clear()
    environ.update(_gloveport.environ())
    # The generator's own seed() reads 2,496 bytes from the host; 256 bits are as unpredictable and 20 times cheaper.
    _seed(_generator, int.from_bytes(os.urandom(32)))
    cwd = settings.get("cwd")
    if cwd:
        try:
            _enter(cwd.encode())
        except OSError as error:
            streams.stderr.write(f"warning: the working directory is not available: {error}\n")
    sys.argv[:] = settings.get("argv") or [""]
    sys.orig_argv[:] = ["python3", *sys.argv]
    sys.path[:] = settings.get("path") or ()
    zone = settings.get("tz")
    if zone:
        tz.apply(zone)


def finish(outcome):
    """Ends the run. `outcome` is `[result of the evaluation, exception or None]` and is emptied, so that the script's
    objects can die here. Returns the exit code."""
    result, error = outcome
    outcome.clear()
    if state.run.touches_builtins or error is not None:
        # The code below needs the builtins that a script may have deleted; this line does not.
        _restore_builtins(_builtins_copy)
    if error is None and result is not None:
        error = _drive(result)
    code = errors.exit_code_of(error)
    for name in _LAST_EXCEPTION:
        if _sys_names.get(name) is not None:
            _sys_names[name] = None
    del error, result
    if state.run.figures:
        show.send_figures(state.run.figures)
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
    if sched.active() or pool.pools or len(threading._threading_atexits) != _thread_exit_hooks:
        try:
            threading._shutdown()
        except BaseException as error:
            errors.report_ignored(error, threading._shutdown)
    if atexit._ncallbacks():
        atexit._run_exitfuncs()
    if len(logging._handlerList) != _log_handlers:
        logging.shutdown()


def _destroy_script():
    """What CPython does to the modules at its end: the script's objects die, and their finalizers may still print."""
    collect = state.run.collects or state.run.workspace_used
    if collect:
        # CPython collects before, too. It matters: what is alive gets sorted, so that a file's text layer is closed
        # before the raw file below it, and nothing written is lost.
        _eval(_last_collection, {"collect": gc.collect})
    # None, as CPython sets it before it destroys a module: a name that goes and comes makes the run write to more pages.
    sys.modules["__main__"] = None
    state.run.script = None
    imports.forget_workspace_modules()
    if collect:
        _eval(_last_collection, {"collect": gc.collect})
