"""Waits for a condition, with a deadline, never for a fixed time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

_POLL_S = 0.02


def wait_until(condition: Callable[[], Value | None], timeout_s: float = 100.0) -> Value:
    """The first true value of a condition; AssertionError after the deadline."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline_s, f"not true within {timeout_s} s: {value!r}"
        time.sleep(_POLL_S)  # noqa: TID251 a process is asked again; it does not tell.


async def wait_until_async(
    condition: Callable[[], Value | None], timeout_s: float = 100.0
) -> Value:
    """As `wait_until`, on the event loop."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline_s, f"not true within {timeout_s} s: {value!r}"
        await asyncio.sleep(_POLL_S)


async def turns_until(condition: Callable[[], bool]) -> None:
    """Checks after each turn of the event loop: the condition may hold for one turn only."""
    for _ in range(1_000_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")
