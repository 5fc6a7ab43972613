"""Simulated pods run on the event loop that real ones have: it is theirs, and the quicker one."""

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What pytest-asyncio makes the loops of these tests with."""
    return {"uvloop": uvloop.new_event_loop}
