"""Runs work of a pod in a thread; all blocking work goes through this module.

The thread comes from the running loop, so that a loop without threads can run the work in place.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


async def run_blocking(
    work: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Result:
    """Runs `work` in one of the loop's threads; returns its result."""
    return await run_blocking_in(None, partial(work, *args, **kwargs))


async def run_blocking_in(executor: Executor | None, work: Callable[[], _Result]) -> _Result:
    """As `run_blocking`, in threads of the caller."""
    return await asyncio.get_running_loop().run_in_executor(executor, work)
