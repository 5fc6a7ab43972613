"""Counts: RocksDB's estimate, and the exact number of rows that a reader gets."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_client import AsyncStore
from qss_client.cli.main import main
from qss_core.model import Isolation, StoreType
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put
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
