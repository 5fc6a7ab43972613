"""Streams: slow readers, readers that disconnect, and other requests meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from qss_store.http.content_types import JSON
from qss_store.reads.scans.replica_reads import SCAN_ROWS_MAX
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.fakes.virtual_time import ForwardLoop
from qss_testing.faults.slow_readers import open_stream
from qss_testing.pods.stores import Cluster, make_definition, open_rocksdb
from qss_testing.waiting import wait_until_async

pytestmark = pytest.mark.long

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
SCAN = "/state/stores/words"
LARGE = {f"{number:04}": "x" * 20_000 for number in range(2000)}


def open_iterators(cluster: Cluster, ordinal: int = 0) -> float:
    metrics = cluster.nodes[ordinal].pod.metrics
    value: float = metrics.registry.get_sample_value("qss_open_iterators") or 0.0
    return value


async def large(start_cluster: StartCluster, pods: int = 1, **settings: Any) -> Cluster:
    """More rows than the buffers of sockets hold."""
    cluster = await start_cluster(pods, partitions=1, settings=Settings(**settings))
    await cluster.put_values(LARGE)
    return cluster


@asynccontextmanager
async def one_pod(directory: Path, stall_s: float) -> AsyncIterator[Cluster]:
    """A pod on the running loop: the fixtures' pods are on another one."""
    settings = Settings(write_stall_max_s=stall_s)
    cluster = Cluster(make_definition(1), directory, open_rocksdb(), settings)
    try:
        await cluster.start(1)
        yield cluster
    finally:
        await cluster.close()


async def read_slowly(loop: ForwardLoop, reader: asyncio.StreamReader, over_s: float) -> bytes:
    """Reads some bytes each hundredth of a second of the loop's time, and then the rest at once."""
    end_s = loop.time() + over_s
    body = b""
    while loop.time() < end_s:
        body += await reader.read(8192)
        await loop.skip(0.01)
    return body + await reader.read()


@pytest.mark.parametrize("media", [NDJSON, JSON])
def test_a_reader_that_always_takes_a_little_gets_all(tmp_path: Path, media: str) -> None:
    stall_s = 2.0

    async def take(loop: ForwardLoop) -> None:
        async with one_pod(tmp_path, stall_s) as cluster:
            await cluster.put_values(LARGE)
            async with open_stream(cluster, 0, media) as (reader, _):
                whole = await reader.read()
            async with open_stream(cluster, 0, media) as (reader, _):
                body = await read_slowly(loop, reader, 2 * stall_s)
        assert body.count(b'"value":"xxx') == whole.count(b'"value":"xxx') > 1000

    with asyncio.Runner(loop_factory=ForwardLoop) as runner:
        runner.run(take(cast(ForwardLoop, runner.get_loop())))


def test_a_reader_of_large_rows_that_always_takes_a_little_gets_all(tmp_path: Path) -> None:
    stall_s = 2.0

    async def take(loop: ForwardLoop) -> None:
        async with one_pod(tmp_path, stall_s) as cluster:
            await cluster.put_values({f"{number:04}": "x" * 4_000_000 for number in range(6)})
            async with open_stream(cluster, 0) as (reader, _):
                # One row takes longer than the allowed stall.
                body = await read_slowly(loop, reader, 1.5 * stall_s)
        assert body.count(b'"value":"xxx') == 6

    with asyncio.Runner(loop_factory=ForwardLoop) as runner:
        runner.run(take(cast(ForwardLoop, runner.get_loop())))


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_slow_reader_sees_one_state_while_batches_commit(
    start_cluster: StartCluster, ordinal: int
) -> None:
    cluster = await large(start_cluster, pods=2)
    async with open_stream(cluster, ordinal) as (reader, _):
        await cluster.put_values({f"{number:04}": "new" for number in range(2000)})
        body = await reader.read()
    assert body.count(b'"value":"xxx') == 2000
    assert b"new" not in body
    assert b'"sequence":1' in body
    assert open_iterators(cluster) == 0


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_reader_that_goes_away_closes_the_iterator(
    start_cluster: StartCluster, ordinal: int
) -> None:
    cluster = await large(start_cluster, pods=2)
    async with open_stream(cluster, ordinal) as (_, transport):
        await wait_until_async(lambda: open_iterators(cluster) == 1)
        transport.abort()
        await wait_until_async(lambda: open_iterators(cluster) == 0)


@pytest.mark.parametrize("media", [NDJSON, "application/json"])
async def test_a_reader_that_takes_nothing_loses_its_connection(
    start_cluster: StartCluster, media: str
) -> None:
    cluster = await large(start_cluster, write_stall_max_s=0.2)
    server = cluster.nodes[0].runner.server
    assert server is not None
    async with open_stream(cluster, 0, media) as (reader, _):
        assert len(server.connections) == 1
        await wait_until_async(lambda: not server.connections)
        assert open_iterators(cluster) == 0
        received = await reader.read()
    assert not received.endswith((b"0\r\n\r\n", b"}")), "cut off, and the reader can see it"


async def test_others_take_their_turn_between_the_chunks_of_a_scan(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(partitions=1)
    await cluster.put_values({f"{number:05}": number for number in range(20_000)})
    turns = 0
    over = asyncio.Event()

    async def count() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await asyncio.sleep(0)

    for accept in (NDJSON, "application/json"):
        turns = 0
        over.clear()
        counting = asyncio.create_task(count())
        answer = await api(cluster).get(f"{SCAN}?limit=20000", Accept=accept)
        over.set()
        await counting
        assert answer.body.count(b'"key"') == 20_000
        assert turns >= 20_000 / SCAN_ROWS_MAX
