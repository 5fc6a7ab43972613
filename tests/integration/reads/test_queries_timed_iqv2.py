"""Kafka's window queries, and our session queries, on `POST /state/query`."""

from collections.abc import Callable
from typing import Any

import pytest

from qss_core.model import Partitioner
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import (
    KEYS,
    SESSION,
    STARTS,
    WINDOW,
    StartCluster,
    by_row_key,
    seen,
    session_puts,
    sessions_of,
    window_puts,
    windows_of,
)

MakeApi = Callable[..., Api]
QUERY = "/state/query/words"
HEADERS = (("h", b"x"), ("i", None))
SHOWN = [{"key": "h", "value": "eA=="}, {"key": "i", "value": None}]
BOUNDS = [(0, 0), (1000, 2000), (2500, 1_800_000)]


async def windows(start_cluster: StartCluster, pods: int = 3, **members: Any) -> Cluster:
    cluster = await start_cluster(pods, engine="memory", **{**WINDOW, **members})
    rows = [Put(put.key, put.value, put.timestamp, HEADERS, put.start) for put in window_puts()]
    await cluster.put(rows, {"in": {"0": 41}})
    return cluster


async def sessions(start_cluster: StartCluster, pods: int = 3, **members: Any) -> Cluster:
    cluster = await start_cluster(pods, engine="memory", **{**SESSION, **members})
    rows = [
        Put(put.key, put.value, None, HEADERS, put.start, put.end)
        for put in session_puts(KEYS, BOUNDS)
    ]
    await cluster.put(rows, {"in": {"0": 41}})
    return cluster


def rows_of(answer: Any) -> list[Any]:
    return [row for one in answer["partitionResults"].values() for row in one["result"]]


@pytest.mark.parametrize("ordinal", [0, 1, 2])
async def test_a_window_key_query_asks_the_keys_partition(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await windows(start_cluster)
    for key in KEYS:
        answer = await api(cluster, ordinal).query(
            {
                "type": "WindowKeyQuery",
                "key": key.decode(),
                "timeFrom": 1000,
                "timeTo": "1970-01-01T00:30:00Z",
            }
        )
        assert list(answer["partitionResults"]) == [str(cluster.partition_of(key))]
        inside = [put for put in window_puts([key]) if 1000 <= put.start <= 1_800_000]
        assert windows_of(rows_of(answer)) == [seen(put) for put in inside]
        assert answer["position"]["in"] == {"0": 41}


async def test_a_window_range_query_asks_all_partitions(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await windows(start_cluster)
    query = {"type": "WindowRangeQuery", "timeFrom": 1000, "timeTo": 1000}
    answer = await api(cluster).query(query)
    inside = [put for put in window_puts() if put.start == 1000]
    assert windows_of(rows_of(answer)) == [seen(put) for put in by_row_key(cluster, inside)]
    some = await api(cluster).query(query, partitions=[1, 9])
    assert list(some["partitionResults"]) == ["1", "9"]
    assert some["partitionResults"]["9"]["failure"]["reason"] == "DOES_NOT_EXIST"


@pytest.mark.parametrize(
    ("store_format", "plain", "full"),
    [
        ("Plain", set(), None),
        ("Timestamped", {"timestamp"}, None),
        ("TimestampedWithHeaders", {"timestamp"}, {"timestamp", "headers"}),
        ("PlainWithHeaders", set(), {"timestamp", "headers"}),
    ],
)
async def test_each_format_gives_what_kafkas_queries_show(
    start_cluster: StartCluster,
    api: MakeApi,
    store_format: str,
    plain: set[str],
    full: set[str] | None,
) -> None:
    cluster = await windows(start_cluster, pods=1, format=store_format)
    times = {"timeFrom": 1000, "timeTo": 1000}
    always = {"key", "windowStart", "windowEnd", "value"}
    for members in ({"key": "a", **times}, times):
        name = "WindowKeyQuery" if "key" in members else "WindowRangeQuery"
        row = rows_of(await api(cluster).query({"type": name, **members}))[0]
        assert row.keys() == always | plain
        with_headers = {
            "type": f"Timestamped{name.replace('Query', 'WithHeadersQuery')}",
            **members,
        }
        answer = await api(cluster).post(QUERY, {"query": with_headers})
        if full is None:
            detail = answer.problem(400, "UNKNOWN_QUERY_TYPE")["detail"]
            assert store_format in detail
        else:
            row = rows_of(answer.json())[0]
            assert row.keys() == always | full
            assert row["headers"] == SHOWN
            # If the format has no timestamps, the window's start is the timestamp.
            assert row["timestamp"] == (1001 if "timestamp" in plain else 1000)


async def test_a_keys_sessions_are_a_window_range_query(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await sessions(start_cluster, format="PlainWithHeaders")
    query = {"type": "WindowRangeQuery", "key": "a"}
    answer = await api(cluster).query(query)
    assert sessions_of(rows_of(answer)) == [("a", start, end) for start, end in BOUNDS]
    assert rows_of(answer)[0].keys() == {"key", "sessionStart", "sessionEnd", "value"}
    full = {"type": "TimestampedWindowRangeWithHeadersQuery", "key": "a"}
    row = rows_of(await api(cluster).query(full))[1]
    assert (row["timestamp"], row["headers"]) == (2000, SHOWN), "a session's time is its end"


@pytest.mark.parametrize("ordinal", [0, 1, 2])
async def test_a_session_query_finds_and_fetches(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await sessions(start_cluster)
    pod = api(cluster, ordinal)
    found = await pod.query(
        {"type": "SessionQuery", "key": "a\0b", "endFrom": 1500, "startTo": 1500}
    )
    assert sessions_of(rows_of(found)) == [("a\0b", 1000, 2000)]
    assert list(found["partitionResults"]) == [str(cluster.partition_of(b"a\0b"))]
    one = await pod.query({"type": "SessionQuery", "key": "aa", "start": 1000, "end": 2000})
    assert sessions_of(rows_of(one)) == [("aa", 1000, 2000)]
    none = await pod.query({"type": "SessionQuery", "key": "aa", "start": 1000, "end": 2001})
    assert rows_of(none) == []
    of_keys = await pod.query(
        {"type": "SessionQuery", "keyFrom": "b", "keyTo": "c", "order": "DESCENDING"}
    )
    wanted = by_row_key(cluster, session_puts([b"b", b"c"], BOUNDS), reverse=True)
    assert sessions_of(rows_of(of_keys)) == [seen(put) for put in wanted]


async def test_rows_go_on_by_the_cursor_and_as_a_stream(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await windows(start_cluster)
    query = {"type": "WindowRangeQuery", "timeFrom": 0, "timeTo": STARTS[-1]}
    wanted = [seen(put) for put in by_row_key(cluster, window_puts())]
    rows: list[Any] = []
    cursor = None
    turn = 0
    while True:
        answer = await api(cluster, turn % 3).query(query, limit=7, cursor=cursor)
        rows += rows_of(answer)
        cursor, turn = answer["cursor"], turn + 1
        if cursor is None:
            break
    assert windows_of(rows) == wanted
    lines = (await api(cluster).post(QUERY, {"query": query}, Accept=NDJSON)).lines()
    assert windows_of(line for line in lines if "partition" not in line) == wanted


async def test_times_are_shown_as_the_reader_chooses(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await windows(start_cluster)
    query = {"type": "WindowKeyQuery", "key": "a", "timeFrom": 1000, "timeTo": 1000}
    for ordinal in range(3):
        (row,) = rows_of(await api(cluster, ordinal).query(query, times="rfc3339"))
        assert row["windowStart"] == "1970-01-01T00:00:01Z"
        assert row["timestamp"] == "1970-01-01T00:00:01.001Z"


async def test_a_count_is_of_all_rows(start_cluster: StartCluster, api: MakeApi) -> None:
    for make, rows in ((windows, len(KEYS) * len(STARTS)), (sessions, len(KEYS) * len(BOUNDS))):
        cluster = await make(start_cluster)
        answer = await api(cluster).query({"type": "CountQuery"})
        assert sum(one["result"] for one in answer["partitionResults"].values()) == rows


async def test_a_key_of_an_explicit_store_says_its_partition(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory", partitioner=Partitioner.EXPLICIT, **SESSION)
    await cluster.put_into({3: [Put(b"a", b"1", start=1, end=2)], 1: []})
    query = {"type": "SessionQuery", "key": "a"}
    for ordinal in range(2):
        answer = await api(cluster, ordinal).query(query, partition=3)
        assert sessions_of(rows_of(answer)) == [("a", 1, 2)]
    everywhere = await api(cluster).query(query, partitions=[0, 1, 2, 3])
    assert [len(one["result"]) for one in everywhere["partitionResults"].values()] == [0, 0, 0, 1]
    wrong: list[dict[str, Any]] = [{}, {"partition": 3, "partitions": [3]}]
    for members in wrong:
        answer = await api(cluster).post(QUERY, {"query": query, **members})
        answer.problem(400, "MALFORMED_REQUEST")
    of_all = await api(cluster).post(QUERY, {"query": {"type": "SessionQuery"}, "partition": 3})
    of_all.problem(400, "MALFORMED_REQUEST")


@pytest.mark.parametrize(
    ("members", "query", "code"),
    [
        (WINDOW, {"type": "KeyQuery", "key": "a"}, "UNKNOWN_QUERY_TYPE"),
        (WINDOW, {"type": "SessionQuery", "key": "a"}, "UNKNOWN_QUERY_TYPE"),
        (WINDOW, {"type": "WindowRangeQuery", "key": "a"}, "UNKNOWN_QUERY_TYPE"),
        (WINDOW, {"type": "WindowRangeQuery"}, "MALFORMED_REQUEST"),
        (WINDOW, {"type": "WindowKeyQuery", "timeFrom": 0, "timeTo": 1}, "NULL_KEY"),
        (WINDOW, {"type": "WindowRangeQuery", "timeFrom": 2, "timeTo": 1}, "RANGE_REVERSED"),
        (SESSION, {"type": "RangeQuery"}, "UNKNOWN_QUERY_TYPE"),
        (SESSION, {"type": "WindowKeyQuery", "key": "a"}, "UNKNOWN_QUERY_TYPE"),
        (SESSION, {"type": "WindowRangeQuery", "timeFrom": 0, "timeTo": 1}, "UNKNOWN_QUERY_TYPE"),
        (SESSION, {"type": "SessionQuery", "key": "a", "start": 1}, "MALFORMED_REQUEST"),
        ({}, {"type": "WindowKeyQuery", "key": "a"}, "UNKNOWN_QUERY_TYPE"),
        ({}, {"type": "SessionQuery"}, "UNKNOWN_QUERY_TYPE"),
    ],
)
async def test_what_a_store_does_not_answer_is_refused(
    start_cluster: StartCluster,
    api: MakeApi,
    members: dict[str, Any],
    query: dict[str, Any],
    code: str,
) -> None:
    cluster = await start_cluster(engine="memory", **members)
    bound = {"in": {"0": 999}}  # An unknown type is reported before an unmet bound.
    answer = await api(cluster).post(QUERY, {"query": query, "positionBound": bound})
    detail = answer.problem(400, code)["detail"]
    assert code != "UNKNOWN_QUERY_TYPE" or query["type"] in detail


async def test_times_are_for_rows_that_have_some(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(engine="memory")
    body = {"query": {"type": "RangeQuery"}, "times": "rfc3339"}
    assert (
        "times"
        in (await api(cluster).post(QUERY, body)).problem(400, "MALFORMED_REQUEST")["detail"]
    )
