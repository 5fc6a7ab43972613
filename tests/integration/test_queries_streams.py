"""Streams: slow readers, readers that go away, and the loop that serves everyone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_store.settings import Settings
from qss_testing.http import NDJSON, Api
from qss_testing.stores import Cluster
from qss_testing.waiting import wait_until_async

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
SCAN = "/state/stores/words"


async def open_stream(
    cluster: Cluster, ordinal: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A reader that takes only what it asks for."""
    port = cluster.ports[ordinal]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    head = f"GET {SCAN} HTTP/1.1\r\nHost: x\r\nAccept: {NDJSON}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    assert b"200 OK" in await reader.readline()
    return reader, writer


def open_iterators(cluster: Cluster, ordinal: int = 0) -> float:
    metrics = cluster.nodes[ordinal].pod.metrics
    value: float = metrics.registry.get_sample_value("qss_open_iterators") or 0.0
    return value


async def large(start_cluster: StartCluster, pods: int = 1, **settings: Any) -> Cluster:
    """More rows than sockets hold."""
    cluster = await start_cluster(pods, partitions=1, settings=Settings(**settings))
    values = {f"{number:04}": "x" * 20_000 for number in range(2000)}
    await cluster.put_values(values)
    return cluster


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_slow_reader_sees_one_state_while_batches_commit(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await large(start_cluster, pods=2)
    reader, writer = await open_stream(cluster, ordinal)
    await cluster.put_values({f"{number:04}": "new" for number in range(2000)})
    body = await reader.read()
    writer.close()
    assert body.count(b'"value":"xxx') == 2000
    assert b"new" not in body
    assert b'"sequence":1' in body
    assert open_iterators(cluster) == 0


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_reader_that_goes_away_closes_the_iterator(
    start_cluster: StartCluster, ordinal: int
) -> None:
    cluster = await large(start_cluster, pods=2)
    _, writer = await open_stream(cluster, ordinal)
    await wait_until_async(lambda: open_iterators(cluster) == 1)
    writer.transport.abort()
    await wait_until_async(lambda: open_iterators(cluster) == 0)


async def test_a_reader_that_takes_nothing_is_let_go(start_cluster: StartCluster) -> None:
    cluster = await large(start_cluster, write_stall_max_s=0.2)
    _, writer = await open_stream(cluster, 0)
    await wait_until_async(lambda: open_iterators(cluster) == 1)
    await wait_until_async(lambda: open_iterators(cluster) == 0)
    writer.close()


async def test_a_scan_does_not_hold_up_the_loop(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(partitions=1)
    await cluster.put_values({f"{number:05}": number for number in range(20_000)})
    stalls: list[float] = []
    over = asyncio.Event()

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not over.is_set():
            await asyncio.sleep(0)
            stalls.append(loop.time() - last)
            last = loop.time()

    watching = asyncio.create_task(watch())
    lines = (await api(cluster).get(SCAN, Accept=NDJSON)).body.count(b"\n")
    over.set()
    await watching
    assert lines == 20_001
    # The client, in the same loop, holds it too: a scan in one piece would take some 60 ms.
    assert sorted(stalls)[-3] < 0.03
