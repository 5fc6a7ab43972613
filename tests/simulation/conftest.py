"""The event loops of simulated pods.

With disks in memory a loop without other threads; with RocksDB, which needs threads, uvloop, as in
a real pod.
"""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from qss_testing.fakes.one_thread_loop import OneThreadLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The event loops of these tests, for pytest-asyncio."""
    if "on_rocksdb" in item.name:
        return {"uvloop": uvloop.new_event_loop}
    return {"uvloop": OneThreadLoop}
