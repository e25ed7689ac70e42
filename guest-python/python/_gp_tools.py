"""The module that a script imports its tools from, made when it is first imported.

Each tool is a plain function. What it is given is checked here, before anything is sent; whether the arguments fit the
tool is the host's business, which answers `{"error": …}`.
"""

import dis
import inspect
import json
import shlex
import sys
import time
import types
from importlib.machinery import ModuleSpec

import _gp_sched as sched
import _gp_state as state

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_encode = _encoder.encode
_decoder = json.JSONDecoder()
_decode = _decoder.decode
_scan = _decoder.scan_once
_IMPORT_FROM = dis.opmap["IMPORT_FROM"]
_SCALARS = (str, int, float, type(None))
_TYPES = {
    "str": str, "string": str, "int": int, "integer": int, "float": float, "number": float, "bool": bool,
    "boolean": bool, "list": list, "array": list, "dict": dict, "object": dict,
}
_EMPTY = inspect.Parameter.empty


def configure(module, tools):
    """Stores what the module will hold. `tools` is parsed when the script imports the module."""
    state.run.module = module
    state.run.tools = tools


def module_name():
    return state.run.module


def enabled_names():
    return [tool["name"] for tool in _decode(state.run.tools)]


def suggestion(tool, text):
    """`text` if that tool can be called in this run, else nothing: errors must not send a model to what it lacks."""
    return text.format(module=state.run.module) if f'"{tool}"' in state.run.tools else ""


# --- requests and answers -------------------------------------------------------------------------------------------

def _make_encoder():
    """What `JSONEncoder.encode` makes anew for each value, which takes longer than the value itself."""
    if json.encoder.c_make_encoder is None:
        return lambda value, level: _encoder.iterencode(value)
    # `default` is looked up when it is called: programs replace it.
    return json.encoder.c_make_encoder(
        {}, lambda value: _encoder.default(value), json.encoder.encode_basestring, None, ":", ",", False, False, False)


# An encoder notes the containers it is in, so each is used by one value at a time.
_encoders = [_make_encoder()]


def _encode_request(value):
    try:
        encoder = _encoders.pop()
    except IndexError:
        encoder = _make_encoder()
    text = "".join(encoder(value, 0))
    # Not after an error: that leaves its notes behind.
    _encoders.append(encoder)
    return text.encode()


def encode_request(name, params, args, kwargs):
    """The request's bytes. Raises TypeError or ValueError for what JSON cannot carry."""
    if args:
        if len(args) > len(params):
            expected = len(params)
            raise TypeError(f"{name}() takes {'no' if not expected else f'at most {expected}'} positional "
                            f"argument{'' if expected == 1 else 's'} but {len(args)} were given")
        named = dict(zip(params, args))
        for key in kwargs:
            if key in named:
                raise TypeError(f"{name}() got multiple values for argument {key!r}")
        named.update(kwargs)
    else:
        named = kwargs
    try:
        for value in named.values():
            if not isinstance(value, _SCALARS):
                check_keys(value)
        return _encode_request({"tool": name, "args": named})
    except (TypeError, ValueError) as error:
        raise _explained(error, name, named) from None


def check_keys(value):
    """Refuses what `json` would change silently: keys that are not text."""
    seen = set()
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            children = value.values()
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"keys must be str, not {type(key).__name__}")
        elif isinstance(value, (list, tuple)):
            children = value
        else:
            continue
        nested = [child for child in children if not isinstance(child, _SCALARS)]
        if nested and id(value) not in seen:
            seen.add(id(value))
            stack += nested


def _explained(error, name, named):
    """The same error, but naming the argument that cannot be sent."""
    for key, value in named.items():
        try:
            check_keys(value)
            _encode(value).encode("utf-8")
        except UnicodeEncodeError:
            return ValueError(f"{name}() argument {key!r}: text with lone surrogates is not valid Unicode")
        except (TypeError, ValueError) as found:
            kind = TypeError if isinstance(found, TypeError) else ValueError
            return kind(f"{name}() argument {key!r}: {found}")
    if isinstance(error, UnicodeEncodeError):
        return ValueError(f"{name}(): an argument's name is not valid Unicode")
    return error


def decode_answer(reply):
    """The answer's value, decoded exactly once: a string that holds JSON stays a string."""
    text = reply.decode()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _decode(text)
    return value if end == len(text) else _decode(text)


# --- the tools ------------------------------------------------------------------------------------------------------

def _tool_function(name, params):
    def tool(*args, **kwargs):
        return decode_answer(sched.call(encode_request(name, params, args, kwargs)))

    return tool


# All tools share one code object, which is how the rest of the shim recognizes them.
TOOL_CODE = _tool_function("", ()).__code__


def is_tool(function):
    return type(function) is types.FunctionType and function.__code__ is TOOL_CODE


def start(function, args, kwargs):
    """Starts a tool's call on the host and returns its `Pending`."""
    cells = dict(zip(TOOL_CODE.co_freevars, function.__closure__))
    return sched.start(encode_request(cells["name"].cell_contents, cells["params"].cell_contents, args, kwargs))


def _make_tool(spec):
    name = spec["name"]
    described = spec.get("params") or ()
    function = _tool_function(name, tuple(param["name"] for param in described))
    function.__name__ = function.__qualname__ = name
    function.__module__ = state.run.module
    function.__doc__ = spec.get("doc")
    parameters = {}
    annotations = {}
    for param in described:
        annotation = _TYPES.get(param.get("type"), _EMPTY)
        required = param.get("required", False)
        parameters[param["name"]] = _parameter(
            param["name"], _EMPTY if required else param.get("default"), annotation
        )
        if annotation is not _EMPTY:
            annotations[param["name"]] = annotation
    returns = _TYPES.get(spec.get("returns"), _EMPTY)
    if returns is not _EMPTY:
        annotations["return"] = returns
    function.__annotations__ = annotations
    function.__signature__ = _signature(parameters, returns)
    return function


def _parameter(name, default, annotation):
    # Built around the checks of Parameter(), which cost more than everything else here; the host made the names.
    parameter = inspect.Parameter.__new__(inspect.Parameter)
    parameter._name = name
    parameter._kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameter._default = default
    parameter._annotation = annotation
    return parameter


def _signature(parameters, returns):
    signature = inspect.Signature.__new__(inspect.Signature)
    signature._parameters = types.MappingProxyType(parameters)
    signature._return_annotation = returns
    return signature


# --- helpers that every script gets ----------------------------------------------------------------------------------

def json_parse(text):
    """Parse JSON that may hold raw control characters or a BOM. A value that is already parsed is returned as is."""
    if isinstance(text, (bytes, bytearray)):
        text = text.decode("utf-8-sig")
    if not isinstance(text, str):
        return text
    return json.loads(text[1:] if text[:1] == "\ufeff" else text, strict=False)


def shell_quote(s):
    """Quote a string so that a shell reads it as one word."""
    return shlex.quote(s)


def retry(fn, max_attempts=3, delay=2):
    """Call fn() up to max_attempts times, waiting delay, 2*delay, 4*delay… seconds in between; re-raise the last error."""
    attempts = max(1, max_attempts)
    for attempt in range(attempts):
        try:
            result = fn()
        except Exception:
            if attempt + 1 >= attempts:
                raise
            time.sleep(delay * 2 ** attempt)
        else:
            if inspect.isawaitable(result):
                return _retry_awaited(result, fn, attempt, attempts, delay)
            return result


async def _retry_awaited(awaitable, fn, attempt, attempts, delay):
    import asyncio

    while True:
        try:
            return await awaitable
        except Exception:
            if attempt + 1 >= attempts:
                raise
            await asyncio.sleep(delay * 2 ** attempt)
        attempt += 1
        awaitable = fn()


_HELPERS = {"json_parse": json_parse, "shell_quote": shell_quote, "retry": retry}


# --- the module -----------------------------------------------------------------------------------------------------

class ToolModuleFinder:
    """Finder and loader of the one module."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != state.run.module or path is not None:
            return None
        return ModuleSpec(name, ToolModuleFinder, origin="gloveport")

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        _fill(module)


def _fill(module):
    """Gives a module its contents, all of them made when they are first asked for: most scripts use one or two tools."""
    namespace = module.__dict__
    namespace["__doc__"] = "The tools of this run, one function each, and a few helpers."
    specs = {}
    parsed = []

    def known():
        if not parsed:
            parsed.append(True)
            specs.update((spec["name"], spec) for spec in _decode(state.run.tools))
        return specs

    def __getattr__(name):
        spec = known().get(name)
        if spec is not None:
            value = _make_tool(spec)
        elif name in _HELPERS:
            value = _HELPERS[name]
            value.__module__ = state.run.module
        elif name == "__all__":
            value = [*specs, *(helper for helper in _HELPERS if helper not in specs)]
        else:
            caller = sys._getframe(1)
            if caller.f_code.co_code[caller.f_lasti] == _IMPORT_FROM:
                raise ImportError(_not_enabled(name, specs), name=state.run.module)
            raise AttributeError(f"module {state.run.module!r} has no attribute {name!r}")
        namespace[name] = value
        return value

    def __dir__():
        return sorted({*namespace, *known(), *_HELPERS, "__all__"} - {"__getattr__", "__dir__"})

    namespace["__getattr__"] = __getattr__
    namespace["__dir__"] = __dir__


def _not_enabled(name, specs):
    available = ", ".join(specs) or "none"
    return f"cannot import name {name!r} from {state.run.module!r}: this tool is not enabled here. Available: {available}"


def prebuild():
    """A module as if it had just been imported, to be put into `sys.modules`: the import system's work is done before."""
    spec = ToolModuleFinder.find_spec(state.run.module)
    module = types.ModuleType(state.run.module)
    module.__spec__, module.__loader__, module.__package__ = spec, ToolModuleFinder, ""
    _fill(module)
    return module
