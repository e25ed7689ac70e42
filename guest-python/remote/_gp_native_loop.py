"""asyncio of a real interpreter, made to take plain values where the sealed guest's loop takes them (`_gp_loop`).

A tool call that was made on the spot is a value; `gather`, `create_task`, `ensure_future` and `run` accept it as an awaitable that
has it ready. A script with top-level `await` may call `asyncio.run` too, since its author sees no coroutine around it.
"""

import asyncio
import functools
import inspect
from asyncio import base_events, events, runners, tasks

_PLAIN = (dict, list, str, int, float)
_original_gather = tasks.gather
_original_ensure_future = tasks.ensure_future
_original_run = runners.run
_original_create_task = base_events.BaseEventLoop.create_task
_top_level_loop = None
_top_level_task = None


async def _value(value):
    return value


def _as_coroutine(value):
    if isinstance(value, _PLAIN) and not inspect.isawaitable(value):
        return _value(value)
    return value


def _gather(*coros_or_futures, **options):
    return _original_gather(*map(_as_coroutine, coros_or_futures), **options)


def _ensure_future(coro_or_future, **options):
    return _original_ensure_future(_as_coroutine(coro_or_future), **options)


def _create_task(self, coro, **options):
    return _original_create_task(self, _as_coroutine(coro), **options)


def _run(main, **options):
    main = _as_coroutine(main)
    outer = events._get_running_loop()
    if outer is not None and outer is _top_level_loop and tasks.current_task(outer) is _top_level_task:
        events._set_running_loop(None)
        try:
            return _original_run(main, **options)
        finally:
            events._set_running_loop(outer)
    return _original_run(main, **options)


def run_top_level(coroutine):
    """Runs the coroutine of a script that uses `await` at its top level."""

    async def script():
        global _top_level_loop, _top_level_task
        _top_level_loop = events.get_running_loop()
        _top_level_task = tasks.current_task()
        return await coroutine

    _original_run(script())


def install():
    """Puts the tolerant functions in the place of asyncio's."""
    replacements = ((_gather, "gather"), (_ensure_future, "ensure_future"), (_run, "run"))
    for replacement, name in replacements:
        original = getattr(asyncio, name)
        functools.update_wrapper(replacement, original)
        del replacement.__wrapped__
        for module in (asyncio, tasks, runners):
            if getattr(module, name, None) is original:
                setattr(module, name, replacement)
    base_events.BaseEventLoop.create_task = functools.update_wrapper(_create_task, _original_create_task)
