"""`Store` and `AsyncStore` while pods end, start again and move."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qss_client import ReadOptions, RetryLimits
from qss_core.errors import UnreachableError
from qss_core.partitioning import partition_of
from qss_testing.clients.clients import AnyClient
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.writers.writer import write_values

Connect = Callable[..., AnyClient]
KEYS = [f"k{number}" for number in range(40)]
TINY = RetryLimits(deadline_s=0.05)
PATIENT = ReadOptions(timeout_s=30.0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(tmp_path, pods=2, partitions=4) as cluster:
        write_values(cluster.url, cluster.store, dict.fromkeys(KEYS, 1))
        yield cluster


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest, cluster: PodCluster) -> AsyncIterator[Connect]:
    clients: list[AnyClient] = []

    def make(**options: Any) -> AnyClient:
        clients.append(AnyClient(request.param, cluster.url, cluster.store, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


def on_pod(pod: int) -> list[str]:
    """The keys in the partitions of a pod."""
    return [key for key in KEYS if partition_of(key.encode(), 4) % 2 == pod]


READS: dict[str, Callable[[AnyClient], Awaitable[Any]]] = {
    "get": lambda client: client.get(on_pod(1)[0], PATIENT),
    "get_many": lambda client: client.get_many(KEYS, PATIENT),
    "range": lambda client: client.range(options=PATIENT),
    "count": lambda client: client.count(PATIENT),
}


async def test_without_patience_a_dead_pod_is_unreachable(
    cluster: PodCluster, connect: Connect
) -> None:
    client = connect(limits=TINY)
    await client.metadata()
    cluster.pods[1].kill()
    for read in READS.values():
        with pytest.raises(UnreachableError):
            await read(client)
    assert await client.get(on_pod(0)[0]) is not None, "the other pod is not concerned"


async def test_reads_wait_for_a_pod_that_comes_back(cluster: PodCluster, connect: Connect) -> None:
    client = connect()
    await client.metadata()
    pod = cluster.pods[1]
    pod.kill()

    async def restart() -> None:
        await asyncio.to_thread(pod.start)
        await asyncio.to_thread(cluster.assign, pod)

    row, many, rows, count, _ = await asyncio.gather(
        *(read(client) for read in READS.values()), restart()
    )
    assert row.key == on_pod(1)[0]
    assert [row.key for row in many] == KEYS
    assert sorted(row.key for row in rows) == sorted(KEYS)
    assert count == len(KEYS)


async def test_a_query_tells_which_partitions_do_not_answer(
    cluster: PodCluster, connect: Connect
) -> None:
    client = connect()
    await client.metadata()
    cluster.pods[1].kill()
    options = ReadOptions(timeout_s=1.0)
    result = await client.query("RangeQuery", options=options)
    failed = {
        number: one.failure.code
        for number, one in result.partition_results.items()
        if one.failure is not None
    }
    assert failed == {1: "UNREACHABLE", 3: "UNREACHABLE"}
    with pytest.raises(UnreachableError):
        await client.only("RangeQuery", options=options)


async def test_a_client_follows_a_pod_that_moved(cluster: PodCluster, connect: Connect) -> None:
    client = connect()
    await client.metadata()
    old = cluster.pods[1]
    old.kill()
    moved = PodProcess(cluster.store, 1, old.volume, {})
    cluster.pods[1] = moved
    addresses = tuple(pod.address for pod in cluster.pods)
    cluster.assignment = msgspec.structs.replace(cluster.assignment, pods=addresses)
    await asyncio.to_thread(moved.start)
    for pod in cluster.pods:
        await asyncio.to_thread(cluster.assign, pod)

    row = await client.get(on_pod(1)[0])
    assert row is not None
    metadata = await client.metadata()
    assert [one.query for one in metadata.instances] == [pod.query for pod in cluster.pods]


async def test_a_client_that_was_given_a_dead_pod_asks_the_others(
    cluster: PodCluster, connect: Connect
) -> None:
    client = connect()
    await client.metadata()
    cluster.pods[0].kill()
    assert await client.get(on_pod(1)[0]) is not None
    assert await client.get(on_pod(1)[1], replace(PATIENT, require_active=True)) is not None
