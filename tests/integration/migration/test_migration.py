"""A store changes its format while it is read and written, over HTTP, on one pod and on three."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import cycle
from random import Random  # noqa: TID251 seeded.
from typing import Any

import pytest

from qss_core.model import StoreType
from qss_store.replicas.migration_pacing import Migrator
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put, configuration
from qss_testing.pods.timed_stores import pages
from qss_testing.reference.migrations import change_format, check_places
from qss_testing.waiting import wait_until_async

MINUTE = 60_000
KEYS = [f"k{number:03}" for number in range(300)]
# The rest after a step is long enough for reads and writes.
SETTINGS = Settings(migration_share=0.3, migration_step_rows=3, migration_retry_s=0.05)


@asynccontextmanager
async def migrators(cluster: Cluster) -> AsyncIterator[None]:
    """The background pass of each pod."""
    tasks = [
        asyncio.create_task(Migrator(node.pod, SETTINGS).run()) for node in cluster.nodes.values()
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_done(cluster: Cluster) -> bool:
    return all(
        replica.migration.report(replica.views.families) is None
        for node in cluster.nodes.values()
        for replica in node.pod.registry.replicas.values()
    )


class Traffic:
    """One writer of growing numbers, and the bounds of each read."""

    def __init__(self, cluster: Cluster, apis: list[Api]) -> None:
        self.cluster = cluster
        self.apis = cycle(apis)
        self.submitted = dict.fromkeys(KEYS, 0)
        self.acknowledged = dict.fromkeys(KEYS, -1)
        self.random = Random(7)

    async def write(self, keys: list[str]) -> None:
        for key in keys:
            self.submitted[key] += 1
        rows = {key: self.submitted[key] for key in keys}
        await self.cluster.put_values(rows)
        self.acknowledged.update(rows)

    async def write_some(self) -> None:
        await self.write(self.random.sample(KEYS, 20))

    async def read(self, ask: Callable[[Api], Awaitable[list[Any]]], keys: list[str]) -> None:
        """Reads each key once: none is missing, none is older than acknowledged before."""
        least = dict(self.acknowledged)
        rows = await ask(next(self.apis))
        assert sorted(row["key"] for row in rows) == keys
        for row in rows:
            assert least[row["key"]] <= row["value"] <= self.submitted[row["key"]]

    async def read_all(self) -> None:
        """Reads all rows in every way."""
        path = "/state/stores/words"
        some = self.random.sample(KEYS, 30)
        await self.read(lambda api: api.rows(f"{path}?limit=1000"), KEYS)
        await self.read(lambda api: api.rows(f"{path}?limit=1000&order=DESCENDING"), KEYS)
        await self.read(lambda api: api.rows(f"{path}?from=k100&to=k119"), KEYS[100:120])
        await self.read(lambda api: _paged(api, path), KEYS)
        await self.read(lambda api: _many(api, some), sorted(some))
        await self.read(lambda api: _points(api, some[:5]), sorted(some[:5]))
        await self.read(_queried, KEYS)


async def _paged(api: Api, path: str) -> list[Any]:
    found = await pages(lambda: api, f"{path}?limit=37")
    return [row for page in found for row in page]


async def _many(api: Api, keys: list[str]) -> list[Any]:
    answer = (await api.post("/state/get/words", {"keys": keys})).json()
    assert {one["status"] for one in answer["results"]} == {"FOUND"}
    return list(answer["results"])


async def _points(api: Api, keys: list[str]) -> list[Any]:
    return [(await api.get(f"/state/stores/words/{key}")).json() for key in keys]


async def _queried(api: Api) -> list[Any]:
    answer = await api.query({"type": "RangeQuery"}, limit=1000)
    return [row for one in answer["partitionResults"].values() for row in one["result"]]


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize(
    ("old", "new"), [("Plain", "TimestampedWithHeaders"), ("Timestamped", "Plain")]
)
async def test_reads_and_writes_of_all_kinds_go_on_there_and_back(
    old: str,
    new: str,
    pods: int,
    start_cluster: Callable[..., Awaitable[Cluster]],
    api: Callable[..., Api],
) -> None:
    cluster = await start_cluster(pods, format=old)
    traffic = Traffic(cluster, [api(cluster, ordinal) for ordinal in range(pods)])
    await traffic.write(KEYS)
    async with migrators(cluster):
        for target in (new, old):
            await change_format(cluster, target)
            rounds = 0
            while not is_done(cluster) or rounds < 3:
                await asyncio.gather(traffic.read_all(), traffic.write_some())
                rounds += 1
            await traffic.read_all()
    for partition in range(cluster.partitions):
        check_places(cluster.active(partition))


async def test_a_row_that_cannot_be_converted_holds_up_its_partition_alone_until_it_is_written(
    start_cluster: Callable[..., Awaitable[Cluster]], api: Callable[..., Api]
) -> None:
    cluster = await start_cluster(partitions=2)
    await cluster.put_values(dict.fromkeys(KEYS, 1))
    replica = cluster.active(cluster.partition_of(b"k007"))
    broken = replica.engine.batch()
    broken.put("rows-Timestamped-0", b"k007", b"short")
    replica.engine.write(broken)
    await change_format(cluster, "TimestampedWithHeaders")
    async with migrators(cluster):
        others = [cluster.active(p) for p in range(2) if p != replica.partition]
        await wait_until_async(lambda: replica.migration.failure)
        await wait_until_async(
            lambda: all(one.migration.report(one.views.families) is None for one in others)
        )
        report = replica.migration.report(replica.views.families)
        assert report is not None
        assert report.error is not None
        assert "write the row again" in report.error
        (await api(cluster).get("/state/stores/words/k007")).problem(500, "STORE_EXCEPTION")
        assert (await api(cluster).get("/state/stores/words/k008")).json()["value"] == 1
        await cluster.put_values({"k007": 2})
        await wait_until_async(lambda: is_done(cluster))
    assert len(await api(cluster).rows("/state/stores/words?limit=1000")) == len(KEYS)


async def test_an_answer_has_the_format_at_once_and_unknown_is_said(
    start_cluster: Callable[..., Awaitable[Cluster]], api: Callable[..., Api]
) -> None:
    cluster = await start_cluster(format="Plain")
    await cluster.put_values({"a": 1, "b": 2})
    before = await api(cluster).get("/state/stores/words/a")
    await change_format(cluster, "TimestampedWithHeaders")
    after = await api(cluster).get("/state/stores/words/a")
    assert before.json() == {"key": "a", "value": 1}
    assert after.json() == {"key": "a", "value": 1, "timestamp": -1, "headers": []}
    position = "Queryable-State-Position"
    assert after.headers[position] == before.headers[position]
    # The state is the same, but its bytes are not: the client's copy has to become invalid.
    assert after.headers["ETag"] != before.headers["ETag"]
    answer = await api(cluster).get("/state/stores/words/a", If_None_Match=before.headers["ETag"])
    assert answer.status == 200
    await cluster.put_values({"a": 3})
    row = (await api(cluster).get("/state/stores/words/a")).json()
    assert row == {"key": "a", "value": 3, "timestamp": 1000, "headers": []}


@pytest.mark.parametrize(
    ("kind", "path", "time"),
    [(StoreType.WINDOW, "windows", 60_000), (StoreType.SESSION, "sessions", 65_000)],
)
async def test_a_row_with_a_time_in_its_key_keeps_it_for_its_timestamp(
    start_cluster: Callable[..., Awaitable[Cluster]],
    api: Callable[..., Api],
    kind: StoreType,
    path: str,
    time: int,
) -> None:
    cluster = await start_cluster(type=kind, format="Plain")
    target = "PlainWithHeaders" if kind is StoreType.SESSION else "TimestampedWithHeaders"
    await cluster.put([Put(b"a", b"1", 7, start=60_000, end=65_000)])
    await change_format(cluster, target)
    query = "TimestampedWindowKeyWithHeadersQuery"
    if kind is StoreType.SESSION:
        asked: dict[str, Any] = {"type": "TimestampedWindowRangeWithHeadersQuery", "key": "a"}
    else:
        asked = {"type": query, "key": "a", "timeFrom": 0, "timeTo": 100_000}
        (row,) = await api(cluster).rows(f"/state/{path}/words/a")
        assert row["timestamp"] == time
    answer = await api(cluster).query(asked)
    rows = [one for part in answer["partitionResults"].values() for one in part["result"]]
    assert [row["timestamp"] for row in rows] == [time]


@pytest.mark.parametrize("accept", ["application/json", "application/vnd.apache.arrow.stream"])
async def test_pods_of_which_not_all_know_the_format_answer_together(
    accept: str,
    start_cluster: Callable[..., Awaitable[Cluster]],
    api: Callable[..., Api],
) -> None:
    cluster = await start_cluster(2, format="Plain")
    await cluster.put_values({f"k{number}": number for number in range(40)})
    told = cluster.definition
    await change_format(cluster, "TimestampedWithHeaders")
    cluster.definition = told
    configurations = [configuration(p, p % 2) for p in range(cluster.partitions)]
    await cluster.nodes[1].pod.assign(cluster.assignment(configurations))
    for ordinal in range(2):
        answer = await api(cluster, ordinal).get("/state/stores/words?limit=100", Accept=accept)
        assert answer.status == 200
        if accept == "application/json":
            assert len(answer.json()["rows"]) == 40


async def test_a_query_that_was_planned_before_the_change_is_answered_in_its_format(
    start_cluster: Callable[..., Awaitable[Cluster]], api: Callable[..., Api]
) -> None:
    cluster = await start_cluster(format="Timestamped", partitions=2)
    await cluster.put_values(dict.fromkeys(KEYS, 1))
    first = (await api(cluster).get("/state/stores/words?limit=10")).json()
    await change_format(cluster, "TimestampedWithHeaders")
    path = f"/state/stores/words?limit=1000&cursor={first['cursor']}"
    rest = (await api(cluster).get(path)).json()
    assert sorted(row["key"] for row in [*first["rows"], *rest["rows"]]) == KEYS
    assert "headers" not in first["rows"][0]
    assert rest["rows"][0]["headers"] == []


@pytest.mark.parametrize("kind", [StoreType.WINDOW, StoreType.SESSION])
async def test_windows_and_sessions_are_asked_by_key_and_by_time_all_the_way(
    kind: StoreType,
    start_cluster: Callable[..., Awaitable[Cluster]],
    api: Callable[..., Api],
) -> None:
    cluster = await start_cluster(2, type=kind, format="Plain")
    starts = [number * 5 * 60 * MINUTE for number in range(4)]
    rows = [
        Put(key.encode(), b"%d" % start, 5, start=start, end=start + MINUTE)
        for key in KEYS[:60]
        for start in starts
    ]
    await cluster.put(rows)
    path = "/state/windows/words" if kind is StoreType.WINDOW else "/state/sessions/words"

    async def check() -> None:
        for query in ("", "&order=DESCENDING", "&orderBy=time"):
            found = await api(cluster).rows(f"{path}?limit=1000{query}")
            assert len(found) == len(rows)
            assert len({(row["key"], row["value"]) for row in found}) == len(rows)
        of_key = await api(cluster, 1).rows(f"{path}/{KEYS[7]}")
        assert [row["value"] for row in of_key] == starts

    async with migrators(cluster):
        for target in ("PlainWithHeaders", "Plain"):
            await change_format(cluster, target)
            rounds = 0
            while not is_done(cluster) or rounds < 2:
                await asyncio.gather(check(), cluster.put(rows[rounds % 7 :: 7]))
                rounds += 1
    await check()
