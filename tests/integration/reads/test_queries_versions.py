"""Versions over HTTP: at a time, as a history, in pages, on one pod and on three."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from qss_core.model import Partitioner
from qss_testing.clients.http import NDJSON, Api
from qss_testing.fakes.strange_pods import http_answer, leave_standby_behind, strange_pod
from qss_testing.pods.stores import Cluster, Put, configuration
from qss_testing.pods.timed_stores import StartCluster, pages
from qss_testing.reference.versions import VERSIONED, Version, Versions

MakeApi = Callable[..., Api]
PATH = "/state/versions/words"
RETENTION = 3_600_000
KEYS = [f"k{number}" for number in range(8)]
QUERY = "/state/query/words"


def puts_of(key: str) -> list[Put]:
    """Versions from 1000 on, a gap from 3000 to 4000, and one version that comes late."""
    times = [(1000, b"1"), (2000, b"2"), (3000, None), (4000, b"4"), (2500, b'"late"')]
    return [Put(key.encode(), value, time) for time, value in times]


PUTS = [put for key in KEYS for put in puts_of(key)]
HISTORY = [(1000, 2000, 1), (2000, 2500, 2), (2500, 3000, "late"), (4000, None, 4)]


async def filled(start_cluster: StartCluster, pods: int = 3, **members: Any) -> Cluster:
    given = {"engine": "memory", "history_retention_ms": RETENTION, **VERSIONED, **members}
    cluster = await start_cluster(pods, **given)
    await cluster.put(PUTS, {"in": {"0": 41}})
    return cluster


def seen(rows: list[Any]) -> list[tuple[int, int | None, Any]]:
    return [(row["validFrom"], row["validTo"], row["value"]) for row in rows]


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
async def test_a_key_has_the_value_that_was_valid_then(
    start_cluster: StartCluster, api: MakeApi, pods: int, engine: str
) -> None:
    cluster = await filled(start_cluster, pods, engine=engine)
    for ordinal, key in enumerate(KEYS):
        pod = api(cluster, ordinal % pods)
        latest = await pod.get(f"{PATH}/{key}")
        assert latest.json() == {"key": key, "validFrom": 4000, "validTo": None, "value": 4}
        assert latest.headers["Queryable-State-Partition"] == str(
            cluster.partition_of(key.encode())
        )
        same = await pod.get(f"{PATH}/{key}", If_None_Match=latest.headers["ETag"])
        assert same.status == 304
        for time, found in ((1000, 1), (1999, 1), (2499, 2), (2500, "late"), (4000, 4)):
            assert (await pod.get(f"{PATH}/{key}?asOf={time}")).json()["value"] == found
        for time in (0, 999, 3000, 3999, -5):
            (await pod.get(f"{PATH}/{key}?asOf={time}")).problem(404, "KEY_NOT_FOUND")
        text = (await pod.get(f"{PATH}/{key}?asOf=1970-01-01T00:00:01Z&times=rfc3339")).json()
        assert (text["validFrom"], text["validTo"]) == (
            "1970-01-01T00:00:01Z",
            "1970-01-01T00:00:02Z",
        )
    (await api(cluster).get(f"{PATH}/nowhere")).problem(404, "KEY_NOT_FOUND")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("order=ASCENDING", HISTORY),
        ("order=ANY", HISTORY[::-1]),
        ("from=0", HISTORY[::-1]),
        ("from=2000&to=2499&order=ASCENDING", HISTORY[1:2]),
        ("from=1999&to=2500&order=ASCENDING", HISTORY[:3]),
        ("from=3000&to=3999", []),
        ("from=4000", HISTORY[3:]),
        ("to=999", []),
        ("to=-1", []),
        ("from=-9&to=1000", HISTORY[:1]),
        (f"from={2**63 - 1}", HISTORY[3:]),
    ],
)
@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
async def test_a_history_is_what_was_valid_in_a_range(
    start_cluster: StartCluster, api: MakeApi, engine: str, query: str, expected: list[Any]
) -> None:
    cluster = await filled(start_cluster, engine=engine)
    for ordinal, key in enumerate(KEYS[:3]):
        rows = await api(cluster, ordinal).rows(f"{PATH}/{key}?{query}")
        assert seen(rows) == expected
        assert {row["key"] for row in rows} <= {key}


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("accept", ["*/*", NDJSON])
async def test_pages_of_a_history_go_on_on_any_pod(
    start_cluster: StartCluster, api: MakeApi, order: str, accept: str
) -> None:
    cluster = await filled(start_cluster)
    turn = iter([0, 1, 2] * 9)
    found = await pages(
        lambda: api(cluster, next(turn)), f"{PATH}/k1?order={order}&limit=1", accept
    )
    expected = HISTORY if order == "ASCENDING" else HISTORY[::-1]
    assert [seen(page) for page in found] == [[row] for row in expected]


async def test_a_latest_version_that_is_replaced_between_pages_comes_once(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, 1)
    first = (await api(cluster).get(f"{PATH}/k1?limit=1")).json()
    await cluster.put([Put(b"k1", b"5", 5000)])
    rest = await api(cluster).rows(f"{PATH}/k1?cursor={first['cursor']}")
    assert seen([*first["rows"], *rest]) == HISTORY[::-1]


async def test_what_is_older_than_the_retention_is_the_latest_version_or_nothing(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, 1, partitions=1)
    expected = Versions(RETENTION)
    now = RETENTION + 2600
    more = [Put(b"k1", b"9", now), Put(b"k2", b"9", now - 1)]
    await cluster.put(more)
    expected.commit(PUTS)
    expected.commit(more)
    pod = api(cluster)
    for key in ("k1", "k2", "k3"):
        for time in (0, 1000, 2599, 2600, 2999, 3000, 3999, 4000, now - 1, now):
            answer = await pod.get(f"{PATH}/{key}?asOf={time}")
            found = expected.as_of(key.encode(), time)
            assert (answer.status == 200) is (found is not None), (key, time)
        for first, last in ((0, 2599), (0, 2600), (0, now), (2600, 3999)):
            rows = await pod.rows(f"{PATH}/{key}?from={first}&to={last}&order=ASCENDING")
            assert seen(rows) == [
                (one.valid_from, one.valid_to, value_of(one))
                for one in expected.between(key.encode(), first, last)
            ]


def value_of(version: Version) -> Any:
    return "late" if version.value == b'"late"' else int(version.value)


async def test_kafkas_queries_answer_rows(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    for key in KEYS[:4]:
        partition = str(cluster.partition_of(key.encode()))
        one = {"type": "VersionedKeyQuery", "key": key, "asOfTimestamp": 2100}
        answer = await api(cluster).query(one, executionInfo=True)
        part = answer["partitionResults"][partition]
        assert seen([part["result"]]) == [HISTORY[1]]
        assert part["position"]["in"] == {"0": 41}
        assert any(line.endswith("1 rows scanned, 1 returned") for line in part["executionInfo"])
        for ordinal in range(3):  # The pod that has the key, and pods that forward the query.
            shown = await api(cluster, ordinal).query(one, times="rfc3339")
            assert str(shown["partitionResults"][partition]["result"]["validFrom"]).endswith("Z")
        gap = await api(cluster).query({**one, "asOfTimestamp": 3500}, partitions=[0, 1, 2, 3])
        assert [part["result"] for part in gap["partitionResults"].values()] == [None] * 4
        many = {"type": "MultiVersionedKeyQuery", "key": key, "toTime": "1970-01-01T00:00:03Z"}
        answer = await api(cluster, 1).query(many, times="rfc3339", limit=2)
        (rows,) = [part["result"] for part in answer["partitionResults"].values()]
        assert [row["value"] for row in rows] == ["late", 2]
        assert rows[0]["validTo"] == "1970-01-01T00:00:03Z"
        rest = await api(cluster, 2).query(many, times="rfc3339", cursor=answer["cursor"])
        assert [row["value"] for row in rest["partitionResults"][partition]["result"]] == [1]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"type": "KeyQuery", "key": "k1"}, 400, "UNKNOWN_QUERY_TYPE"),
        ({"type": "RangeQuery"}, 400, "UNKNOWN_QUERY_TYPE"),
        ({"type": "TimestampedKeyQuery", "key": "k1"}, 400, "UNKNOWN_QUERY_TYPE"),
        ({"type": "WindowKeyQuery", "key": "k1"}, 400, "UNKNOWN_QUERY_TYPE"),
        ({"type": "SessionQuery", "key": "k1"}, 400, "UNKNOWN_QUERY_TYPE"),
        ({"type": "VersionedKeyQuery"}, 400, "NULL_KEY"),
        ({"type": "MultiVersionedKeyQuery"}, 400, "NULL_KEY"),
        (
            {"type": "MultiVersionedKeyQuery", "key": "a", "fromTime": 2, "toTime": 1},
            400,
            "RANGE_REVERSED",
        ),
        ({"type": "VersionedKeyQuery", "key": "a", "asOfTimestamp": []}, 400, "MALFORMED_REQUEST"),
        ({"type": "VersionedKeyQuery", "key": "a", "asOf": 1}, 400, "MALFORMED_REQUEST"),
    ],
)
async def test_other_queries_are_refused_and_told_what_to_ask(
    start_cluster: StartCluster, api: MakeApi, query: dict[str, Any], status: int, code: str
) -> None:
    cluster = await filled(start_cluster, 1)
    problem = (await api(cluster).post(QUERY, {"query": query})).problem(status, code)
    if code == "UNKNOWN_QUERY_TYPE":
        assert "VersionedKeyQuery" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "code", "word"),
    [
        ("/state/stores/words/k1", "UNKNOWN_QUERY_TYPE", "/state/versions"),
        ("/state/stores/words", "UNKNOWN_QUERY_TYPE", "/state/versions"),
        ("/state/windows/words/k1", "UNKNOWN_QUERY_TYPE", "Window"),
        (PATH, "UNKNOWN_QUERY_TYPE", f"{PATH}/<key>"),
        (f"{PATH}/k1?asOf=soon", "MALFORMED_REQUEST", "asOf"),
        (f"{PATH}/k1?asOf=1&from=1", "MALFORMED_REQUEST", "leave out from"),
        (f"{PATH}/k1?asOf=1&limit=1", "MALFORMED_REQUEST", "leave out limit"),
        (f"{PATH}/k1?from=2&to=1", "RANGE_REVERSED", "2"),
        (f"{PATH}/k1?keyFrom=a", "UNKNOWN_PARAMETER", "keyFrom"),
        (f"{PATH}/k1?order=UP", "MALFORMED_REQUEST", "UP"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    start_cluster: StartCluster, api: MakeApi, path: str, code: str, word: str
) -> None:
    cluster = await filled(start_cluster, 1)
    assert word in (await api(cluster).get(path)).problem(400, code)["detail"]


async def test_a_batch_get_is_refused(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, 1)
    answer = await api(cluster).post("/state/get/words", {"keys": ["k1"]})
    assert "/state/versions" in answer.problem(400, "UNKNOWN_QUERY_TYPE")["detail"]


async def test_the_latest_versions_are_counted(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    await cluster.put([Put(b"k0", None, 9000)])
    assert (await api(cluster).get("/state/count/words")).json()["count"] == len(KEYS) - 1
    lags = (await api(cluster).get("/state/lags/words")).json()["partitions"]
    assert max(one["streamTime"] for one in lags.values()) == 9000 or len(lags) < 4


async def test_a_standby_and_a_bound_count_as_for_any_read(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(
        2,
        partitions=1,
        engine="memory",
        configurations=[configuration(0, 0, standbys=[1])],
        **VERSIONED,
    )
    await leave_standby_behind(cluster)
    await cluster.put(PUTS, {"in": {"0": 41}})
    token = (await api(cluster).get(f"{PATH}/k1")).headers["Queryable-State-Position"]
    answer = await api(cluster, 1).get(f"{PATH}/k1?positionBound={token}")
    assert answer.headers["Queryable-State-Served-By"] == "words-0"
    here = await api(cluster, 1).get(f"{PATH}/k1?positionBound={token}&scope=local")
    here.problem(503, "NOT_UP_TO_BOUND")
    (await api(cluster, 1).get(f"{PATH}/k1?requireActive=true&scope=local")).problem(
        409, "NOT_ACTIVE"
    )


async def test_writers_that_choose_partitions_name_them(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    members = {"partitioner": Partitioner.EXPLICIT, "engine": "memory", **VERSIONED}
    cluster = await start_cluster(2, **members)
    await cluster.put_into({3: puts_of("k1")})
    assert (await api(cluster).get(f"{PATH}/k1?partition=3&asOf=1000")).json()["value"] == 1
    assert seen(await api(cluster).rows(f"{PATH}/k1?partition=3&order=ASCENDING")) == HISTORY
    (await api(cluster).get(f"{PATH}/k1?partition=2")).problem(404, "KEY_NOT_FOUND")
    (await api(cluster).get(f"{PATH}/k1")).problem(400, "MALFORMED_REQUEST")


async def test_bytes_are_given_as_they_are(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, value_serde="bytes")
    for query, body in (("", b"4"), ("?asOf=2700", b'"late"')):
        answer = await api(cluster).get(f"{PATH}/k1{query}", Accept="application/octet-stream")
        assert answer.body == body


async def test_strange_keys_have_versions(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(1, engine="memory", **VERSIONED)
    keys = ["a/b", "%2F", "ä", "\x00", "a b"]
    await cluster.put([Put(key.encode(), b"1", 1000) for key in keys])
    for key in keys:
        assert (await api(cluster).get(f"{PATH}/{quote(key, safe='')}")).json()["key"] == key


async def test_a_stream_that_breaks_off_goes_on_after_its_last_whole_row(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, 2, partitions=2)
    key = next(key for key in KEYS if cluster.partition_of(key.encode()) == 1)
    path = f"{PATH}/{key}?order=ASCENDING"
    whole = await api(cluster, 1).get(f"{path}&scope=local", Accept=NDJSON)
    sent = b"\n".join(whole.body.splitlines()[:2]) + b'\n{"key":"k'
    pod, real_port = cluster.nodes[0].pod, cluster.ports[1]
    assert pod.registry.assignment is not None
    known = list(pod.registry.assignment.partitions)
    async with strange_pod(http_answer(200, NDJSON, sent, length=9999)) as breaking:
        cluster.ports[1] = breaking.port
        await pod.assign(cluster.assignment(known))
        lines = (await api(cluster).get(path, Accept=NDJSON)).lines()
    cluster.ports[1] = real_port
    await pod.assign(cluster.assignment(known))
    assert seen(lines[:-1]) == HISTORY[:2]
    rest = await api(cluster).rows(f"{path}&cursor={lines[-1]['cursor']}")
    assert seen(rest) == HISTORY[2:]


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
async def test_a_long_history_with_many_tombstones_is_whole_in_pages(
    start_cluster: StartCluster, api: MakeApi, order: str
) -> None:
    cluster = await filled(start_cluster, 1, engine="rocksdb", partitions=1)
    rows = [Put(b"k1", None if time % 3 else b"%d" % time, 5000 + time) for time in range(9000)]
    # Keys whose rows lie between the rows of the long key.
    beside = [Put(b"k1" + bytes(zeros), b"0", 5000 + zeros) for zeros in range(1, 8)]
    await cluster.put([*rows, *beside, *(Put(put.key, None, 20_000) for put in beside)])
    found = await pages(lambda: api(cluster), f"{PATH}/k1?order={order}&limit=700&from=5000")
    assert len(found) > 4
    values = [row["value"] for page in found for row in page]
    expected = list(range(0, 9000, 3))
    assert values == (expected if order == "ASCENDING" else expected[::-1])


async def test_a_value_that_is_none_of_the_store_is_no_mistake_of_the_client(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, 1)
    await cluster.put([Put(b"k1", b"{", 9000)])
    (await api(cluster).get(f"{PATH}/k1")).problem(500, "STORE_EXCEPTION")
    answer = (await api(cluster).get(f"{PATH}/k1?order=ANY")).json()
    (part,) = answer["partitions"].values()
    assert part["failure"]["reason"] == "STORE_EXCEPTION"
