"""Counts: RocksDB's estimate, and the exact number of rows that a reader gets."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from qss_client import AsyncStore
from qss_client.cli.main import main
from qss_core.model import Isolation, StoreType
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.commit_writer import APPLYING
from qss_store.storage.engine import META, Engine
from qss_testing.clients.http import Api
from qss_testing.faults.faulty_engine import Faults, FaultyEngine
from qss_testing.pods.stores import Cluster, Put, commit_rows, make_definition, open_rocksdb
from qss_testing.reference.own_stores import BY_VALUE

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]

HOUR_MS = 3_600_000
KEYS = [f"k{number}".encode() for number in range(30)]
# The retention of the store ended for these windows, sessions and versions.
EXPIRED_MS, NOW_MS = HOUR_MS, 100 * HOUR_MS
STORES: dict[str, dict[str, Any]] = {
    "KeyValue": {},
    "Plain": {"format": "Plain"},
    "Window": {"type": StoreType.WINDOW},
    "Session": {"type": StoreType.SESSION},
    "Versioned": {"type": StoreType.VERSIONED},
    "Custom": {
        "type": StoreType.CUSTOM,
        "custom_name": "ByValue",
        "value_serde": "string",
        "extensions": BY_VALUE,
    },
}


async def rewritten(start_cluster: StartCluster, kind: str, **members: Any) -> Cluster:
    """A store whose rows were written often; some are deleted and some expired."""
    cluster = await start_cluster(2, **{**STORES[kind], **members})
    for turn in range(5):
        value = b'"%d"' % turn
        await cluster.put(Put(key, value, NOW_MS + turn, start=NOW_MS, end=NOW_MS) for key in KEYS)
    await cluster.put(Put(key, None, NOW_MS + 9, start=NOW_MS, end=NOW_MS) for key in KEYS[:7])
    await cluster.put([Put(b"old", b'"o"', EXPIRED_MS, start=EXPIRED_MS, end=EXPIRED_MS)])
    return cluster


def left(kind: str) -> int:
    """The number of these rows that a reader gets."""
    return len(KEYS) - 7 + (0 if kind in ("Window", "Session", "Versioned") else 1)


@pytest.mark.parametrize("kind", STORES)
async def test_an_exact_count_is_the_number_of_rows_that_readers_are_given(
    start_cluster: StartCluster, api: MakeApi, kind: str
) -> None:
    cluster = await rewritten(start_cluster, kind)
    for ordinal in (0, 1):
        answer = (await api(cluster, ordinal).get("/state/count/words?exact=true")).json()
        assert (answer["count"], answer["exact"]) == (left(kind), True)
        asked = {"query": {"type": "CountQuery", "exact": True}}
        results = (await api(cluster, ordinal).post("/state/query/words", asked)).json()
        counts = [one["result"] for one in results["partitionResults"].values()]
        assert sum(counts) == left(kind)
        assert counts == [one["result"] for one in answer["partitions"].values()]


async def test_a_count_that_is_not_exact_says_so(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await rewritten(start_cluster, "KeyValue")
    answer = (await api(cluster).get("/state/count/words")).json()
    assert answer["exact"] is False
    (await api(cluster).get("/state/count/words?exact=perhaps")).problem(400, "MALFORMED_REQUEST")


async def test_an_exact_count_sees_what_its_isolation_says(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await rewritten(start_cluster, "KeyValue", isolation=Isolation.READ_UNCOMMITTED)
    for isolation in Isolation:
        path = f"/state/count/words?exact=true&isolation={isolation.value}"
        assert (await api(cluster).get(path)).json()["count"] == left("KeyValue")


async def test_an_exact_count_ends_with_its_time_and_tells_what_it_looked_at(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await rewritten(start_cluster, "KeyValue")
    query = {"type": "CountQuery", "exact": True}
    answer = await api(cluster).query(query, partitions=[0], executionInfo=True)
    told = answer["partitionResults"]["0"]["executionInfo"]
    (layer,) = [line for line in told if line.startswith("count:")]
    assert "rows scanned" in layer
    late = await api(cluster).post("/state/query/words", {"query": query, "timeout": 0.000_001})
    failures = [one["failure"]["reason"] for one in late.json()["partitionResults"].values()]
    assert set(failures) == {"DEADLINE_EXCEEDED"}


class HeldDrops(FaultyEngine):
    """Each drop of a family ends, after the family is gone, when `may_end` is set."""

    def __init__(self, inner: Engine, faults: Faults) -> None:
        """No drop ends before the test sets `may_end`."""
        super().__init__(inner, faults)
        self.dropped: list[str] = []
        self.may_end = threading.Event()

    def drop_family(self, family: str) -> None:
        """Drops the family, and then waits for `may_end`."""
        super().drop_family(family)
        self.dropped.append(family)
        assert self.may_end.wait(timeout=10.0), "the test lets no drop end"


async def test_a_count_during_a_replacing_commit_covers_the_rows_that_readers_are_shown(
    tmp_path: Path, api: MakeApi
) -> None:
    engines: list[HeldDrops] = []
    faults, open_inner = Faults(), open_rocksdb()

    def open_engine(path: Path) -> Engine:
        engines.append(HeldDrops(open_inner(path), faults))
        return engines[-1]

    settings = Settings(slice_rows_max=1)  # The commit gives other tasks their turns.
    cluster = Cluster(make_definition(1), tmp_path, open_engine, settings)
    await cluster.start(1)
    await cluster.put(Put(b"old%d" % number, b'"o"') for number in range(100))
    replica, rows = cluster.active(0), [Put(b"new%d" % number, b'"n"') for number in range(3000)]

    async def counted() -> int:
        count: int = (await api(cluster).get("/state/count/words")).json()["count"]
        return count

    def is_begun() -> bool:
        return replica.engine.get(META, APPLYING) is not None

    commit = asyncio.ensure_future(
        commit_rows(replica, rows, batch=cluster.batch, position={}, replace=True)
    )
    during = []
    while not engines[0].dropped:
        begun, count = is_begun(), await counted()
        if begun and is_begun():
            during.append(count)
    assert set(during) == {100}, "the new rows are not shown"
    assert await counted() == 3000, "the old rows are gone, and the commit has not ended"
    assert not commit.done()
    engines[0].may_end.set()
    await commit
    assert await counted() == 3000
    await cluster.close()


async def test_the_client_and_the_command_count_exactly(
    start_cluster: StartCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = await rewritten(start_cluster, "KeyValue")
    async with AsyncStore(cluster.url(), "words") as store:
        assert await store.count(exact=True) == left("KeyValue")
        parts = [await store.count(exact=True, partitions=[number]) for number in range(4)]
        assert sum(parts) == left("KeyValue")
        assert store.position.offset_of("@batch.test", 0) is not None, "a count has a position"

    async def said(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main, ["count", "words", "--url", cluster.url(), *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    assert await said("--exact") == f"{left('KeyValue')}\n"
    assert json.loads(await said("--exact", "--partitions", "0,1,2,3", "-o", "json")) == {
        "count": left("KeyValue"),
        "exact": True,
    }
    assert (await said()).endswith(" (an estimate; --exact counts every row)\n")
