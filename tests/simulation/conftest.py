"""Simulated pods run on the event loop that real ones have: it is theirs, and the quicker one.

Where their disks are memory there are no other threads; RocksDB works in threads of its own.
"""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from qss_testing.fakes.one_thread_loop import OneThreadLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What pytest-asyncio makes the loops of these tests with."""
    if "on_rocksdb" in item.name:
        return {"uvloop": uvloop.new_event_loop}
    return {"uvloop": OneThreadLoop}
