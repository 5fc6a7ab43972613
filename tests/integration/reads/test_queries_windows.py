"""Windows over HTTP: by key, by a range of keys, by time, forward and backward, in pages."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from qss_core.formats.timed_keys import TIME_MAX
from qss_core.model import Partitioner
from qss_core.positions import Position, encode_token
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import (
    KEYS,
    RETENTION_MS,
    SIZE_MS,
    STARTS,
    WINDOW,
    StartCluster,
    by_row_key,
    pages,
    seen,
    window_puts,
    windows_of,
)

MakeApi = Callable[..., Api]
WINDOWS = "/state/windows/words"
ROWS = window_puts()


async def filled(start_cluster: StartCluster, pods: int = 1, **members: Any) -> Cluster:
    cluster = await start_cluster(pods, **{"engine": "memory", **WINDOW, **members})
    await cluster.put(ROWS, {"in": {"0": 41}})
    return cluster


def wanted(
    cluster: Cluster,
    first: int = 0,
    last: int = TIME_MAX,
    keys: tuple[bytes, bytes] = (b"", b"\xff"),
    *,
    reverse: bool = False,
) -> list[tuple[str, int, int]]:
    rows = [put for put in ROWS if first <= put.start <= last and keys[0] <= put.key <= keys[1]]
    return [seen(put) for put in by_row_key(cluster, rows, reverse=reverse)]


TIME_BOUNDS = [
    ("", 0, TIME_MAX),
    ("from=1000", 1000, TIME_MAX),
    ("from=1001", 1001, TIME_MAX),
    ("to=1800000", 0, 1_800_000),
    ("to=1799999", 0, 1_799_999),
    ("from=1000&to=1000", 1000, 1000),
    ("from=-7&to=0", 0, 0),
    ("from=1800001&to=1899999", 1, 0),
    ("from=1970-01-01T00:00:01Z&to=1970-01-01T01:30:00%2B01:00", 1000, 1_800_000),
    (f"to={TIME_MAX}", 0, TIME_MAX),
]


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("order", ["ANY", "ASCENDING", "DESCENDING"])
async def test_windows_of_a_key_by_time(
    start_cluster: StartCluster, api: MakeApi, engine: str, order: str
) -> None:
    cluster = await filled(start_cluster, engine=engine)
    reverse = order == "DESCENDING"
    for key in KEYS:
        for bounds, first, last in TIME_BOUNDS:
            path = f"{WINDOWS}/{quote(key.decode())}?{bounds}&order={order}".replace("?&", "?")
            rows = await api(cluster).rows(path)
            assert windows_of(rows) == wanted(cluster, first, last, (key, key), reverse=reverse)
            assert all(row["timestamp"] == row["windowStart"] + 1 for row in rows)


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize(
    ("bounds", "keys"),
    [
        ("", (b"", b"\xff")),
        ("keyFrom=a&keyTo=a", (b"a", b"a")),
        ("keyFrom=a%00&keyTo=aa", (b"a\x00", b"aa")),
        ("keyTo=a%00", (b"", b"a\x00")),
        ("keyFrom=aa&keyTo=c", (b"aa", b"c")),
        ("keyFrom=ca", (b"ca", b"\xff")),
        ("keyFrom=&keyTo=", (b"", b"")),
        ("keyFrom=x", (b"x", b"\xff")),
    ],
)
async def test_windows_of_a_range_of_keys_by_time(
    start_cluster: StartCluster,
    api: MakeApi,
    engine: str,
    order: str,
    bounds: str,
    keys: tuple[bytes, bytes],
) -> None:
    cluster = await filled(start_cluster, engine=engine)
    for times, first, last in TIME_BOUNDS:
        query = "&".join(part for part in (bounds, times, f"order={order}") if part)
        rows = await api(cluster).rows(f"{WINDOWS}?{query}")
        expected = wanted(cluster, first, last, keys, reverse=order == "DESCENDING")
        assert windows_of(rows) == expected, query


async def test_the_windows_of_a_key_come_from_its_partition_alone(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=3)
    for ordinal in range(3):
        answer = (await api(cluster, ordinal).get(f"{WINDOWS}/b")).json()
        partition = cluster.partition_of(b"b")
        assert list(answer["partitions"]) == [str(partition)]
        assert answer["partitions"][str(partition)] == {
            "end": True,
            "position": {"@batch.test": {"0": 0}, "in": {"0": 41}},
            "servedBy": f"words-{partition % 3}",
            "role": "active",
            "epoch": 1,
            "sequence": 1,
            "streamTime": STARTS[-1],
        }


@pytest.mark.parametrize("accept", ["application/json", NDJSON])
@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("limit", [1, 5, 47, 48, 100])
async def test_pages_of_any_size_from_any_pod_are_the_whole(
    start_cluster: StartCluster, api: MakeApi, accept: str, order: str, limit: int
) -> None:
    cluster = await filled(start_cluster, pods=3)
    turn = iter(range(1000))
    path = f"{WINDOWS}?limit={limit}&order={order}&from=1000&keyFrom=a%00"
    found = await pages(lambda: api(cluster, next(turn) % 3), path, accept)
    rows = [row for page in found for row in page]
    expected = wanted(cluster, 1000, keys=(b"a\x00", b"\xff"), reverse=order == "DESCENDING")
    assert windows_of(rows) == expected
    assert all(len(page) <= limit for page in found)


async def test_pages_of_a_key_go_on_behind_the_last_window(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=3)
    turn = iter(range(1000))
    for order in ("ASCENDING", "DESCENDING"):
        path = f"{WINDOWS}/a?limit=2&order={order}"
        found = await pages(lambda: api(cluster, next(turn) % 3), path)
        rows = [row for page in found for row in page]
        expected = wanted(cluster, keys=(b"a", b"a"), reverse=order == "DESCENDING")
        assert windows_of(rows) == expected
        assert len(found) == 3


async def test_a_stream_marks_the_end_of_each_partition(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=3)
    lines = (await api(cluster, 1).get(WINDOWS, Accept=NDJSON)).lines()
    partition, rows = 0, []
    for line in lines:
        if "partition" not in line:
            assert cluster.partition_of(line["key"].encode()) == partition
            rows.append(line)
            continue
        assert (line["partition"], line["end"]) == (partition, True)
        assert line["servedBy"] == f"words-{partition % 3}"
        partition += 1
    assert windows_of(rows) == wanted(cluster)
    assert lines[-1]["cursor"] is None


async def test_rows_that_retention_hides_are_nowhere(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="rocksdb", partitions=1, **WINDOW)
    hidden, edge = RETENTION_MS, RETENTION_MS + 1
    await cluster.put([Put(b"a", b"1", 0, start=hidden), Put(b"a", b"2", 0, start=edge)])
    await cluster.put([Put(b"b", b"3", 0, start=2 * RETENTION_MS)])
    for restarted in (False, True):
        if restarted:
            await cluster.stop_pod(0)
            await cluster.start_pod(0)
        pod = api(cluster)
        assert windows_of(await pod.rows(f"{WINDOWS}/a")) == [("a", edge, 0)]
        assert windows_of(await pod.rows(f"{WINDOWS}/a?to={edge}&order=DESCENDING")) == [
            ("a", edge, 0)
        ]
        assert len(await pod.rows(WINDOWS)) == 2
        assert len(await pod.rows(f"{WINDOWS}?orderBy=time")) == 2
        (await pod.get(f"{WINDOWS}/a?start={hidden}")).problem(404, "KEY_NOT_FOUND")
        assert (await pod.get(f"{WINDOWS}/a?start={edge}")).json()["value"] == 2


# --- One window


async def test_one_window_is_a_point(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, pods=3)
    partition = cluster.partition_of(b"a\x00b")
    for ordinal in range(3):
        pod = api(cluster, ordinal)
        answer = await pod.get(f"{WINDOWS}/a%00b?start=1000")
        assert answer.json() == {
            "key": "a\x00b",
            "windowStart": 1000,
            "windowEnd": 1000 + SIZE_MS,
            "value": {"k": "610062", "t": 1000},
            "timestamp": 1001,
        }
        assert answer.headers["Queryable-State-Partition"] == str(partition)
        assert answer.headers["Queryable-State-Served-By"] == f"words-{partition % 3}"
        again = await pod.get(f"{WINDOWS}/a%00b?start=1000", If_None_Match=answer.headers["ETag"])
        assert again.status == 304
        missing = await pod.get(f"{WINDOWS}/a%00b?start=1001")
        missing.problem(404, "KEY_NOT_FOUND")
        shown = await pod.get(f"{WINDOWS}/a%00b?start=1970-01-01T00:00:01Z&times=rfc3339")
        assert shown.json()["windowEnd"] == "1970-01-01T00:00:02Z"
        assert shown.json()["timestamp"] == "1970-01-01T00:00:01.001Z"


async def test_a_bytes_value_goes_as_it_is(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(engine="memory", value_serde="bytes", **WINDOW)
    await cluster.put([Put(b"a", b"\x00\xff", 5, start=1000)])
    answer = await api(cluster).get(f"{WINDOWS}/a?start=1000", Accept="application/octet-stream")
    assert answer.body == b"\x00\xff"


async def test_rows_of_duplicates_are_told_apart(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(2, engine="memory", retain_duplicates=True, **WINDOW)
    await cluster.put([Put(b"a", b"%d" % number, 5, start=1000) for number in range(3)])
    for ordinal in range(2):
        turn = api(cluster, ordinal)
        rows = await turn.rows(f"{WINDOWS}/a?from=1000&to=1000")
        assert [(row["sequence"], row["value"]) for row in rows] == [(1, 0), (2, 1), (3, 2)]
        found = await pages(lambda turn=turn: turn, f"{WINDOWS}?limit=1")  # type: ignore[misc]
        assert [row["sequence"] for page in found for row in page] == [1, 2, 3]
        one = await turn.get(f"{WINDOWS}/a?start=1000")
        assert "from" in one.problem(400, "UNKNOWN_QUERY_TYPE")["detail"]


async def test_headers_are_shown_where_the_format_keeps_them(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", **WINDOW, format="PlainWithHeaders")
    await cluster.put([Put(b"a", b"1", 5, (("h", b"x"), ("h", None)), start=1000)])
    (row,) = await api(cluster).rows(f"{WINDOWS}/a")
    assert row["headers"] == [{"key": "h", "value": "eA=="}, {"key": "h", "value": None}]
    assert "timestamp" not in row, "the format keeps none"


# --- Options, discovery and counts


async def test_a_bound_is_checked(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, pods=2)
    bound = encode_token(Position.of({"in": {0: 50}}))
    answer = (await api(cluster).get(f"{WINDOWS}/a?positionBound={bound}")).json()
    (one,) = answer["partitions"].values()
    assert one["failure"]["reason"] == "NOT_UP_TO_BOUND"
    assert answer["cursor"]
    point = await api(cluster).get(f"{WINDOWS}/a?start=1000&positionBound={bound}")
    point.problem(503, "NOT_UP_TO_BOUND")
    await cluster.put([], {"in": {"0": 50}})
    rest = (
        await api(cluster).get(f"{WINDOWS}/a?positionBound={bound}&cursor={answer['cursor']}")
    ).json()
    assert windows_of(rest["rows"]) == wanted(cluster, keys=(b"a", b"a"))


async def test_partitions_are_chosen(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(f"{WINDOWS}?partitions=1,3&scope=local")).json()
    assert list(answer["partitions"]) == ["1", "3"]
    assert {cluster.partition_of(row["key"].encode()) for row in answer["rows"]} <= {1, 3}


async def test_execution_info_tells_rows_passed_over_from_rows_given(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, partitions=1)
    answer = (await api(cluster).get(f"{WINDOWS}?to=0&executionInfo=true")).json()
    lines = answer["partitions"]["0"]["executionInfo"]
    assert any(line.endswith(f"rows scanned, {len(KEYS)} returned") for line in lines)


async def test_hidden_rows_are_counted_where_they_are_passed_over(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    # A scan of many windows then yields to other requests.
    cluster = await start_cluster(engine="memory", partitions=1, **WINDOW)
    await cluster.put(window_puts(starts=[RETENTION_MS + 5]))
    await cluster.put([Put(b"b", b"1", 0, start=2 * RETENTION_MS)])
    await cluster.put([Put(b"b", b"1", 0, start=2 * RETENTION_MS + 10)])
    for order_by in ("key", "time"):
        path = f"{WINDOWS}?executionInfo=true&orderBy={order_by}"
        answer = (await api(cluster).get(path)).json()
        lines = answer["partitions"]["0"]["executionInfo"]
        assert any(line.endswith(f"{len(KEYS) + 2} rows scanned, 2 returned") for line in lines)


async def test_a_scan_that_finds_nothing_for_long_goes_on_by_its_cursor(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(stream_max_s=1e-9)
    cluster = await filled(start_cluster, partitions=1, settings=settings)
    lines = (await api(cluster).get(f"{WINDOWS}?to=0", Accept=NDJSON)).lines()
    assert lines[-1]["end"] is False
    assert lines[-1]["cursor"]


async def test_discovery_and_lags_know_windows(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, pods=3)
    metadata = (await api(cluster).get("/state/instances/words")).json()
    assert metadata["definition"]["type"] == "Window"
    where = (await api(cluster).get("/state/instance/words/a%00b")).json()
    assert where["partition"] == cluster.partition_of(b"a\x00b")
    lags = (await api(cluster).get("/state/lags/words")).json()
    assert {one["streamTime"] for one in lags["partitions"].values()} <= {-1, STARTS[-1]}


async def test_windows_are_counted_over_all_segments(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=2)
    answer = (await api(cluster).get("/state/count/words")).json()
    assert answer["count"] == len(ROWS)


async def test_a_writer_that_chooses_partitions_names_the_keys(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory", partitioner=Partitioner.EXPLICIT, **WINDOW)
    await cluster.put_into({3: [Put(b"a", b"1", 0, start=1000)]})
    assert len(await api(cluster).rows(f"{WINDOWS}/a?partition=3")) == 1
    assert (await api(cluster).get(f"{WINDOWS}/a?partition=3&start=1000")).status == 200
    missing = await api(cluster).get(f"{WINDOWS}/a")
    assert "partition" in missing.problem(400, "MALFORMED_REQUEST")["detail"]
