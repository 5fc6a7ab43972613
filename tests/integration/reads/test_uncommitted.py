"""READ_UNCOMMITTED over HTTP by each kind of request, per store and query, on 1 and 3 pods."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qss_client import AsyncStore, ReadOptions
from qss_client.reads.tables import read_stream
from qss_core.model import Isolation, StoreType, WriterEpoch
from qss_core.queries.parameters import ReadOptions as Options
from qss_core.wire.messages import ChunkReference
from qss_store.runtime.settings import Settings
from qss_store.transactions.commands import Abort
from qss_testing.clients.http import Api
from qss_testing.clients.qss_command import Qss
from qss_testing.clients.readings import prepared_reading
from qss_testing.pods.stores import Cluster, Put, commit_chunks, stage_rows
from qss_testing.pods.timed_stores import SESSION, WINDOW

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
Chunks = dict[int, tuple[ChunkReference, ...]]

SEEN = "isolation=READ_UNCOMMITTED"
SCAN = "/state/stores/words"
ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
BEFORE = {f"k{n:02}": n for n in range(12)}
AFTER = {**BEFORE, "k03": 333, "k07": 777, "new": 1}
del AFTER["k05"]
LARGE = [Put(b"k%02d" % n, b'"%b"' % (b"x" * 100), 1) for n in range(12)]
STAGED = [
    Put(b"k03", b"333", 2000),
    Put(b"k05", None, 2000),
    Put(b"k07", b"777", 2000),
    Put(b"new", b"1", 2000),
]


async def stage(cluster: Cluster, puts: Iterable[Put], task: str = "t0a0-0") -> Chunks:
    """Stages rows of the next batch in their partitions."""
    of: defaultdict[int, list[Put]] = defaultdict(list)
    for put in puts:
        of[cluster.partition_of(put.key)].append(put)
    found: Chunks = {}
    for partition, rows in of.items():
        chunk = f"1.{task}.0"
        replica = cluster.active(partition)
        found[partition] = (await stage_rows(replica, rows, batch=cluster.batch, chunk=chunk),)
    return found


async def commit(cluster: Cluster, chunks: Chunks) -> None:
    for partition in range(cluster.partitions):
        listed = chunks.get(partition, ())
        await commit_chunks(
            cluster.active(partition), listed, batch=cluster.batch, position={"in": {"0": 9}}
        )
    cluster.batch += 1


async def started(start: StartCluster, pods: int, **members: Any) -> Cluster:
    cluster = await start(pods, **members)
    await cluster.put_values(BEFORE, {"in": {"0": 8}})
    return cluster


def values(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in rows}


async def all_answers(pod: Api, isolation: str | None) -> dict[str, dict[str, Any]]:
    """The values in the store, by each kind of request."""
    parameter = "" if isolation is None else f"&isolation={isolation}"
    member = {} if isolation is None else {"isolation": isolation}
    keys = sorted({*BEFORE, *AFTER})
    points = {key: await pod.get(f"{SCAN}/{key}?timeout=5{parameter}") for key in keys}
    plain = {key: await pod.get(f"{SCAN}/{key}" + parameter.replace("&", "?")) for key in keys}
    many = (await pod.post("/state/get/words", {"keys": keys, **member})).json()
    found: dict[str, dict[str, Any]] = {}
    for name, answers in (("points", points), ("plain", plain)):
        found[name] = {k: a.json()["value"] for k, a in answers.items() if a.status == 200}
    found["batch"] = values(row for row in many["results"] if row["status"] == "FOUND")
    found["range"] = values(await pod.rows(f"{SCAN}?order=DESCENDING{parameter}"))
    found["prefix"] = values(await pod.rows(f"{SCAN}?prefix=k{parameter}"))
    stream = await pod.get(f"{SCAN}?timeout=5{parameter}", Accept="application/x-ndjson")
    found["stream"] = values(line for line in stream.lines() if "key" in line)
    arrow = await pod.get(f"{SCAN}?timeout=5{parameter}", **ARROW)
    rows = read_stream(arrow.body)["table"].to_pylist()
    found["arrow"] = {row["key"]: json.loads(row["value"]) for row in rows}
    asked = await pod.query({"type": "TimestampedRangeQuery"}, **member)
    results = asked["partitionResults"].values()
    found["iqv2 range"] = values(row for one in results for row in one["result"])
    found["iqv2 key"] = {}
    for key in keys:
        asked = await pod.query({"type": "KeyQuery", "key": key}, **member)
        (one,) = asked["partitionResults"].values()
        if one["result"] is not None:
            found["iqv2 key"][key] = one["result"]["value"]
    found["pages"] = await pages(pod, parameter)
    return found


async def pages(pod: Api, parameter: str) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    cursor = ""
    while True:
        answer = (await pod.get(f"{SCAN}?limit=2{parameter}{cursor}")).json()
        rows |= values(answer["rows"])
        if answer["cursor"] is None:
            return rows
        cursor = f"&cursor={answer['cursor']}"


def check_all(found: dict[str, dict[str, Any]], wanted: dict[str, Any]) -> None:
    for way, rows in found.items():
        if way == "prefix":
            assert rows == {key: one for key, one in wanted.items() if key.startswith("k")}
        else:
            assert rows == wanted, way


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("own", [Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED])
async def test_each_kind_of_request_sees_the_rows_of_its_isolation(
    start_cluster: StartCluster, api: MakeApi, own: Isolation, pods: int
) -> None:
    cluster = await started(start_cluster, pods, isolation=own)
    pod = api(cluster)
    chunks = await stage(cluster, STAGED)
    by_default = AFTER if own is Isolation.READ_UNCOMMITTED else BEFORE
    check_all(await all_answers(pod, None), by_default)
    check_all(await all_answers(pod, "READ_COMMITTED"), BEFORE)
    check_all(await all_answers(pod, "READ_UNCOMMITTED"), AFTER)
    # With both isolations, the count is RocksDB's estimate of the committed rows.
    for isolation in ("READ_COMMITTED", "READ_UNCOMMITTED"):
        count = (await pod.get(f"/state/count/words?isolation={isolation}")).json()["count"]
        assert count == len(BEFORE)
    await commit(cluster, chunks)
    for isolation in Isolation:
        check_all(await all_answers(pod, isolation.value), AFTER)


async def test_a_store_may_change_its_isolation(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await started(start_cluster, 2)
    await stage(cluster, STAGED)
    pod = api(cluster)
    for own, wanted in ((Isolation.READ_UNCOMMITTED, AFTER), (Isolation.READ_COMMITTED, BEFORE)):
        held = [cluster.active(number).log.configuration for number in range(cluster.partitions)]
        cluster.definition = msgspec.structs.replace(cluster.definition, isolation=own)
        await cluster.assign(held)
        check_all(await all_answers(pod, None), wanted)


async def test_staged_rows_have_no_position_and_another_etag(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await started(start_cluster, 1)
    pod = api(cluster)
    path = f"{SCAN}/k03?{SEEN}"
    first = await pod.get(path)
    assert first.headers["ETag"] == (await pod.get(f"{SCAN}/k03")).headers["ETag"]
    chunks = await stage(cluster, STAGED)
    second = await pod.get(path, If_None_Match=first.headers["ETag"])
    assert (second.status, second.json()["value"]) == (200, 333)
    committed = await pod.get(f"{SCAN}/k03", If_None_Match=first.headers["ETag"])
    assert committed.status == 304
    for name in ("Position", "Sequence"):
        header = f"Queryable-State-{name}"
        assert second.headers[header] == first.headers[header] == committed.headers[header]
    assert (await pod.get(path, If_None_Match=second.headers["ETag"])).status == 304
    await stage(cluster, [Put(b"k03", b"334", 3000)], "t0a1-0")
    third = await pod.get(path, If_None_Match=second.headers["ETag"])
    assert third.json()["value"] == 334  # A newer attempt of the same task.
    position = second.headers["Queryable-State-Position"]
    assert (await pod.get(f"{path}&positionBound={position}")).status == 200
    await commit(cluster, chunks)
    last = await pod.get(path, If_None_Match=third.headers["ETag"])
    assert last.json()["value"] == 333  # The commit listed the older attempt.
    ahead = last.headers["Queryable-State-Position"]
    await stage(cluster, STAGED)
    assert (await pod.get(f"{path}&positionBound={ahead}")).status == 200


async def test_a_row_without_a_timestamp_has_the_time_of_its_chunk(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await started(start_cluster, 1)
    begun = cluster.clock.wall_ms()
    await stage(cluster, [Put(b"k01", b"5")])
    row = (await api(cluster).get(f"{SCAN}/k01?{SEEN}")).json()
    assert begun <= row["timestamp"] <= cluster.clock.wall_ms()


@pytest.mark.parametrize("pods", [1, 3])
async def test_windows_and_sessions(start_cluster: StartCluster, api: MakeApi, pods: int) -> None:
    of_windows = [Put(key, b'"old"', 1, start=1000) for key in (b"a", b"b", b"c")]
    windows = await start_cluster(pods, **WINDOW)
    await windows.put(of_windows)
    await stage(windows, [Put(b"b", b'"new"', 2, start=1000), Put(b"c", b'"x"', 3, start=2000)])
    pod = api(windows)
    for path in ("?orderBy=time", "?keyFrom=a", "?order=DESCENDING"):
        rows = await pod.rows(f"/state/windows/words{path}&{SEEN}")
        assert sorted((row["key"], row["windowStart"], row["value"]) for row in rows) == [
            ("a", 1000, "old"),
            ("b", 1000, "new"),
            ("c", 1000, "old"),
            ("c", 2000, "x"),
        ]
        assert len(await pod.rows(f"/state/windows/words{path}")) == 3
    assert (await pod.get(f"/state/windows/words/b?start=1000&{SEEN}")).json()["value"] == "new"
    assert [r["value"] for r in await pod.rows(f"/state/windows/words/c?{SEEN}")] == ["old", "x"]
    sessions = await start_cluster(pods, **SESSION)
    await sessions.put([Put(b"a", b'"old"', start=0, end=10)])
    # A merge of sessions deletes the old session and writes a longer session.
    merged = [Put(b"a", None, start=0, end=10), Put(b"a", b'"long"', start=0, end=900)]
    await stage(sessions, merged)
    pod = api(sessions)
    (row,) = await pod.rows(f"/state/sessions/words/a?{SEEN}")
    assert (row["sessionEnd"], row["value"]) == (900, "long")
    (row,) = await pod.rows("/state/sessions/words/a")
    assert (row["sessionEnd"], row["value"]) == (10, "old")


async def test_staged_rows_that_move_the_time_hide_older_ones(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1, **WINDOW)
    await cluster.put([Put(b"a", b'"old"', 1, start=1000)])
    far = 3_600_000 + 1000
    await stage(cluster, [Put(b"b", b'"new"', 2, start=far)])
    pod = api(cluster)
    assert [row["key"] for row in await pod.rows("/state/windows/words?order=ANY&" + SEEN)] == ["b"]
    assert [row["key"] for row in await pod.rows("/state/windows/words")] == ["a"]
    assert (await pod.get(f"/state/windows/words/a?start=1000&{SEEN}")).status == 404
    answer = (await pod.get(f"/state/windows/words?{SEEN}")).json()["partitions"]["0"]
    assert answer["streamTime"] == far


async def test_the_client_reads_staged_rows(start_cluster: StartCluster) -> None:
    cluster = await started(start_cluster, 3)
    await stage(cluster, STAGED)
    options = ReadOptions(isolation=Isolation.READ_UNCOMMITTED)
    async with AsyncStore(cluster.url(), "words") as store:
        row = await store.get("k03", options)
        assert row is not None
        assert row.value == 333
        assert [one.value for one in await store.get_many(["new"], options) if one] == [1]
        assert {r.key: r.value async for r in store.range(options=options)} == AFTER
        assert {r.key: r.value async for r in store.range()} == BEFORE
        result = await store.query("KeyQuery", key="k07", options=options)
        only = result.get_only_partition_result()
        assert only is not None
        assert only.result == {"key": "k07", "value": 777}


async def test_the_next_page_has_the_changed_staged_rows(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await started(start_cluster, 1, partitions=1)
    pod = api(cluster)
    first = (await pod.get(f"{SCAN}?limit=4&{SEEN}")).json()
    await stage(cluster, [Put(b"k01x", b"1", 1), Put(b"k04", None, 1), Put(b"k05", b"55", 1)])
    rest = await pod.rows(f"{SCAN}?{SEEN}&limit=100&cursor={first['cursor']}")
    # The rows after the cursor are current; the first page had the rows before the change.
    assert values(first["rows"]) == {key: BEFORE[key] for key in sorted(BEFORE)[:4]}
    later = {key: BEFORE[key] for key in sorted(BEFORE)[5:]}
    assert values(rest) == {**later, "k05": 55}


async def test_too_many_staged_rows_are_refused_and_committed_ones_are_read(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(uncommitted_rows_bytes_max=3000)
    cluster = await started(start_cluster, 1, partitions=1, settings=settings)
    pod = api(cluster)
    await stage(cluster, STAGED)
    assert (await pod.get(f"{SCAN}/k03?{SEEN}")).json()["value"] == 333
    chunks = await stage(cluster, LARGE, "t1a1-0")
    problem = (await pod.get(f"{SCAN}/k03?{SEEN}&timeout=0.5")).problem(
        503, "UNCOMMITTED_TOO_LARGE"
    )
    assert "READ_COMMITTED" in problem["detail"]
    assert "QSS_UNCOMMITTED_ROWS_BYTES_MAX" in problem["detail"]
    answer = (await pod.get(f"{SCAN}?{SEEN}&timeout=0.5")).json()["partitions"]["0"]
    assert answer["failure"]["reason"] == "UNCOMMITTED_TOO_LARGE"
    assert values(await pod.rows(SCAN)) == BEFORE
    await commit(cluster, chunks)
    assert (await pod.get(f"{SCAN}/k03?{SEEN}")).status == 200


@pytest.mark.parametrize("pods", [1, 3])
async def test_versions(start_cluster: StartCluster, api: MakeApi, pods: int) -> None:
    cluster = await start_cluster(pods, type=StoreType.VERSIONED)
    await cluster.put([Put(key, b'"old"', 1000) for key in (b"a", b"b", b"c")])
    await stage(cluster, [Put(b"b", b'"new"', 2000), Put(b"c", None, 1500)])
    # Another chunk has a version between the versions of key b.
    await stage(cluster, [Put(b"b", b'"middle"', 1500)], task="t1a0-0")
    pod = api(cluster)
    path = "/state/versions/words"

    async def history(key: str, isolation: str) -> list[tuple[Any, ...]]:
        rows = await pod.rows(f"{path}/{key}?order=DESCENDING&{isolation}".rstrip("&"))
        return [(row["value"], row["validFrom"], row["validTo"]) for row in rows]

    assert await history("b", SEEN) == [
        ("new", 2000, None),
        ("middle", 1500, 2000),
        ("old", 1000, 1500),
    ]
    assert await history("b", "") == [("old", 1000, None)]
    assert await history("c", SEEN) == [("old", 1000, 1500)]
    assert await history("c", "") == [("old", 1000, None)]
    assert (await pod.get(f"{path}/b?asOf=1700&{SEEN}")).json()["value"] == "middle"
    assert (await pod.get(f"{path}/b?asOf=1700")).json()["value"] == "old"
    assert (await pod.get(f"{path}/c?asOf=1700&{SEEN}")).status == 404
    query = {"type": "VersionedKeyQuery", "key": "b", "asOfTimestamp": 1700}
    asked = await pod.query(query, isolation="READ_UNCOMMITTED")
    (one,) = asked["partitionResults"].values()
    assert one["result"]["value"] == "middle"


async def test_no_reader_sees_a_part_of_a_commit(start_cluster: StartCluster, api: MakeApi) -> None:
    """Readers of both isolations read between the slices of each commit."""
    cluster = await start_cluster(1, partitions=1)
    keys = [b"%05d" % n for n in range(4000)]
    await cluster.put([Put(key, b"0", 1) for key in keys])
    pod = api(cluster)
    states: defaultdict[str, set[frozenset[int]]] = defaultdict(set)
    done = asyncio.Event()

    async def look(isolation: str) -> None:
        while not done.is_set():
            path = f"{SCAN}?isolation={isolation}&limit=100000"
            rows = (await pod.get(path)).json()["rows"]
            assert len(rows) == len(keys)
            states[isolation].add(frozenset(row["value"] for row in rows))
            point = (await pod.get(f"{SCAN}/03999?isolation={isolation}")).json()["value"]
            assert point in range(4)

    readers = [asyncio.create_task(look(one.value)) for one in Isolation]
    for round_ in range(1, 4):
        chunks = await stage(cluster, [Put(key, b"%d" % round_, 1) for key in keys])
        await commit(cluster, chunks)
    done.set()
    await asyncio.gather(*readers)
    for isolation, seen in states.items():
        assert all(len(one) == 1 for one in seen), isolation


async def test_an_open_stream_keeps_its_state_while_its_batch_is_aborted(
    start_cluster: StartCluster,
) -> None:
    cluster = await started(start_cluster, 1, partitions=1)
    await stage(cluster, STAGED)
    replica = cluster.active(0)
    pod = cluster.nodes[0].pod
    options = Options(isolation=Isolation.READ_UNCOMMITTED)
    shown = replica.view
    assert shown is not None
    reading = await prepared_reading(pod, options, shown.format)
    rows = reading.view.rows.scan()
    first = next(rows)
    await replica.append(Abort(writer="test", generation=0, batch=0, writer_epoch=WriterEpoch(1)))
    assert {key.decode() for key, _ in (first, *rows)} == {*AFTER}
    again = await prepared_reading(pod, options, shown.format)
    assert {key.decode() for key, _ in again.view.rows.scan()} == {*BEFORE}


# --- From a terminal


async def test_qss_reads_staged_rows_with_the_flag_isolation(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    cluster = await started(start_cluster, 2)
    await stage(cluster, STAGED)
    place = ("--url", cluster.url(0), "-o", "ndjson")
    seen: dict[str | None, dict[str, Any]] = {}
    for isolation in (None, *Isolation):
        given = () if isolation is None else ("--isolation", isolation.value)
        done = await asyncio.to_thread(Qss(tmp_path).run, "scan", "words", *place, *given)
        assert done.code == 0, done.err
        seen[isolation] = values(map(json.loads, done.out.splitlines()))
    assert seen == {
        None: BEFORE,
        Isolation.READ_COMMITTED: BEFORE,
        Isolation.READ_UNCOMMITTED: AFTER,
    }
    done = await asyncio.to_thread(Qss(tmp_path).run, "get", "words", "a", "--isolation", "none")
    assert done.code == 2
