"""Stores of a user's own type on pods in this process, for tests of their state."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qss_client import AsyncStore
from qss_core.errors import UncommittedTooLargeError
from qss_core.model import Isolation, PartitionId
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.context import ReadContext
from qss_store.reads.routing.admission import Reading
from qss_store.reads.routing.peer_reads import PeerReads
from qss_store.runtime.peer_client import PeerSession
from qss_store.runtime.settings import Settings
from qss_testing.clients.readings import prepared_reading
from qss_testing.pods.stores import STORE, Cluster, Put, open_rocksdb, stage_rows
from qss_testing.reference.migrations import only_replica
from qss_testing.reference.own_stores import BY_VALUE, by_value

ZERO = PartitionId(0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    settings = Settings(uncommitted_rows_bytes_max=200_000)
    cluster = Cluster(by_value(), tmp_path, open_rocksdb(), settings, extensions=BY_VALUE)
    try:
        await cluster.start(1)
        yield cluster
    finally:
        await cluster.close()


async def test_who_asks_before_the_pod_serves_finds_its_indexes_later(cluster: Cluster) -> None:
    pod = cluster.nodes[0].pod
    pod.own_type.indexing = None
    pod.remember()
    session = PeerSession()
    reader = ReadContext(pod, PeerReads(session, 1, pod.clock), Settings())
    assert reader.codec(STORE).indexing is pod.indexing
    assert pod.indexing is not None
    await session.close()


async def test_a_program_with_an_event_loop_asks_an_index_too(cluster: Cluster) -> None:
    await cluster.put_values({"k1": "a", "k2": "b", "k3": "a"})
    store = AsyncStore(cluster.url(), STORE)
    try:
        rows = [row async for row in store.range("a", "a", index="by-value", order="DESCENDING")]
        assert [(row.index_key, row.key, row.value) for row in rows] == [
            ("a", "k3", "a"),
            ("a", "k1", "a"),
        ]
        table = await store.range("b", index="by-first", limit=5).to_arrow()
        assert table.column("index_key").to_pylist() == ["b"]
        count = await store.query("IndexQuery", index="by-value", limit=2)
        assert count.count() == 2
    finally:
        await store.close()


async def uncommitted(cluster: Cluster) -> Reading:
    options = ReadOptions(isolation=Isolation.READ_UNCOMMITTED)
    return await prepared_reading(cluster.nodes[0].pod, options)


async def test_staged_index_rows_count_as_what_is_held(cluster: Cluster) -> None:
    replica = only_replica(cluster)
    few = [Put(b"k%03d" % number, b"abc", 1) for number in range(200)]
    await stage_rows(replica, few, batch=0, chunk="1.t0a0-0.0")
    reading = await uncommitted(cluster)
    assert len([*reading.view.rows.scan()]) == 200
    # Each row has two index rows. Without index rows, 400 rows would fit.
    more = [Put(b"m%03d" % number, b"abc", 1) for number in range(200)]
    await stage_rows(replica, more, batch=0, chunk="1.t1a0-0.0")
    with pytest.raises(UncommittedTooLargeError):
        await uncommitted(cluster)
