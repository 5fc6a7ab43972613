"""Stores of one partition on one pod, on each engine; a module's `STORE` defines its store."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from qss_testing.pods.stores import Cluster, make_definition, open_memory, open_rocksdb


@pytest.fixture(params=["memory", "rocksdb"])
async def make(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Callable[..., Awaitable[Cluster]]]:
    """Makes the store that the module's `STORE` defines, with other members if they are given."""
    store: Mapping[str, Any] = request.module.STORE
    async with AsyncExitStack() as stack:

        async def made(**members: Any) -> Cluster:
            open_engine = open_memory() if request.param == "memory" else open_rocksdb()
            cluster = Cluster(make_definition(1, **{**store, **members}), tmp_path, open_engine)
            stack.push_async_callback(cluster.close)
            await cluster.start(1)
            return cluster

        yield made
