"""Sessions over HTTP: by key, by a range of keys, by ends and starts, and one by its bounds."""

from collections.abc import Callable
from urllib.parse import quote

import pytest

from qss_core.formats.timed_keys import TIME_MAX
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import (
    KEYS,
    RETENTION_MS,
    SESSION,
    StartCluster,
    by_row_key,
    pages,
    seen,
    session_puts,
    sessions_of,
)

MakeApi = Callable[..., Api]
SESSIONS = "/state/sessions/words"
# Two segments by their ends; one session is a single moment, one begins in the first segment.
BOUNDS = [(0, 0), (1000, 2000), (2500, 1_800_000), (1_810_000, 1_820_000), (1_900_000, 1_900_000)]
ROWS = session_puts(KEYS, BOUNDS)


async def filled(start_cluster: StartCluster, pods: int = 1, engine: str = "memory") -> Cluster:
    cluster = await start_cluster(pods, engine=engine, **SESSION)
    await cluster.put(ROWS, {"in": {"0": 41}})
    return cluster


def wanted(
    cluster: Cluster,
    end_from: int = 0,
    start_to: int = TIME_MAX,
    keys: tuple[bytes, bytes] = (b"", b"\xff"),
    *,
    reverse: bool = False,
) -> list[tuple[str, int, int]]:
    rows = [
        put
        for put in ROWS
        if put.end >= end_from and put.start <= start_to and keys[0] <= put.key <= keys[1]
    ]
    return [seen(put) for put in by_row_key(cluster, rows, reverse=reverse)]


FINDS = [
    ("", 0, TIME_MAX),
    ("endFrom=2000", 2000, TIME_MAX),  # Trap 2: an end at the bound is found,
    ("endFrom=2001", 2001, TIME_MAX),
    ("startTo=2500", 0, 2500),  # and so is a start.
    ("startTo=2499", 0, 2499),
    ("endFrom=1500&startTo=1500", 1500, 1500),
    ("endFrom=1800000&startTo=2500", 1_800_000, 2500),
    ("endFrom=-9&startTo=0", 0, 0),
    ("endFrom=1970-01-01T00:30:20Z", 1_820_000, TIME_MAX),
    ("endFrom=1900001", 1_900_001, TIME_MAX),
]


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("order", ["ANY", "ASCENDING", "DESCENDING"])
async def test_sessions_of_a_key_are_found_as_kafka_finds_them(
    start_cluster: StartCluster, api: MakeApi, engine: str, order: str
) -> None:
    cluster = await filled(start_cluster, engine=engine)
    reverse = order == "DESCENDING"
    for key in KEYS:
        for bounds, end_from, start_to in FINDS:
            query = "&".join(part for part in (bounds, f"order={order}") if part)
            rows = await api(cluster).rows(f"{SESSIONS}/{quote(key.decode())}?{query}")
            expected = wanted(cluster, end_from, start_to, (key, key), reverse=reverse)
            assert sessions_of(rows) == expected, (key, query)


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize(
    ("bounds", "keys"),
    [
        ("", (b"", b"\xff")),
        ("keyFrom=a%00&keyTo=aa", (b"a\x00", b"aa")),
        ("keyTo=a%00", (b"", b"a\x00")),
        ("keyFrom=b&keyTo=b", (b"b", b"b")),
        ("keyFrom=ca", (b"ca", b"\xff")),
    ],
)
async def test_sessions_of_a_range_of_keys(
    start_cluster: StartCluster,
    api: MakeApi,
    engine: str,
    order: str,
    bounds: str,
    keys: tuple[bytes, bytes],
) -> None:
    cluster = await filled(start_cluster, engine=engine)
    for times, end_from, start_to in FINDS:
        query = "&".join(part for part in (bounds, times, f"order={order}") if part)
        rows = await api(cluster).rows(f"{SESSIONS}?{query}")
        expected = wanted(cluster, end_from, start_to, keys, reverse=order == "DESCENDING")
        assert sessions_of(rows) == expected, query


@pytest.mark.parametrize("accept", ["application/json", NDJSON])
@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("limit", [1, 6, 100])
async def test_pages_of_any_size_from_any_pod_are_the_whole(
    start_cluster: StartCluster, api: MakeApi, accept: str, order: str, limit: int
) -> None:
    cluster = await filled(start_cluster, pods=3)
    turn = iter(range(1000))
    path = f"{SESSIONS}?limit={limit}&order={order}&endFrom=1500"
    found = await pages(lambda: api(cluster, next(turn) % 3), path, accept)
    rows = [row for page in found for row in page]
    assert sessions_of(rows) == wanted(cluster, 1500, reverse=order == "DESCENDING")
    assert all(len(page) <= limit for page in found)


async def test_one_session_is_a_point(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, pods=3)
    for ordinal in range(3):
        pod = api(cluster, ordinal)
        answer = await pod.get(f"{SESSIONS}/a%00?start=1000&end=2000")
        assert answer.json() == {
            "key": "a\x00",
            "sessionStart": 1000,
            "sessionEnd": 2000,
            "value": {"k": "6100", "t": 2000},
        }
        assert answer.headers["Queryable-State-Sequence"] == "1"
        for bounds in ("start=1000&end=2001", "start=1001&end=2000"):
            (await pod.get(f"{SESSIONS}/a%00?{bounds}")).problem(404, "KEY_NOT_FOUND")
        shown = (await pod.get(f"{SESSIONS}/a%00?start=1000&end=2000&times=rfc3339")).json()
        assert shown["sessionEnd"] == "1970-01-01T00:00:02Z"


async def test_a_merged_session_takes_the_place_of_the_old_one(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="rocksdb", **SESSION)
    await cluster.put([Put(b"a", b"1", start=1000, end=2000)])
    await cluster.put(
        [
            Put(b"a", None, start=1000, end=2000),
            Put(b"a", b"2", start=1000, end=2_000_000),  # In another segment.
        ]
    )
    assert sessions_of(await api(cluster).rows(f"{SESSIONS}/a")) == [("a", 1000, 2_000_000)]
    assert sessions_of(await api(cluster).rows(f"{SESSIONS}?orderBy=time")) == [
        ("a", 1000, 2_000_000)
    ]


async def test_retention_hides_by_the_end_of_a_session(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="rocksdb", partitions=1, **SESSION)
    hidden = Put(b"a", b"1", start=0, end=RETENTION_MS)
    kept = Put(b"a", b"2", start=0, end=RETENTION_MS + 1)
    await cluster.put([hidden, kept, Put(b"b", b"3", start=0, end=2 * RETENTION_MS)])
    pod = api(cluster)
    assert sessions_of(await pod.rows(f"{SESSIONS}/a")) == [seen(kept)]
    assert len(await pod.rows(SESSIONS)) == 2
    (await pod.get(f"{SESSIONS}/a?start=0&end={hidden.end}")).problem(404, "KEY_NOT_FOUND")
    assert (await pod.get(f"{SESSIONS}/a?start=0&end={kept.end}")).status == 200


@pytest.mark.parametrize(
    ("query", "status", "code", "word"),
    [
        ("?endFrom=soon", 400, "MALFORMED_REQUEST", "endFrom"),
        ("?startTo=1.5", 400, "MALFORMED_REQUEST", "startTo"),
        ("?startTo=-1", 400, "MALFORMED_REQUEST", "1970"),
        ("?keyFrom=b&keyTo=a", 400, "RANGE_REVERSED", "bytes"),
        ("?from=1", 400, "UNKNOWN_PARAMETER", "from"),
        ("?start=1&end=2", 400, "UNKNOWN_PARAMETER", "start"),
        ("?orderBy=end", 400, "MALFORMED_REQUEST", "orderBy"),
        ("/a?start=1", 400, "MALFORMED_REQUEST", "both"),
        ("/a?end=1", 400, "MALFORMED_REQUEST", "both"),
        ("/a?start=2&end=1", 400, "MALFORMED_REQUEST", "not before"),
        ("/a?start=1&end=2&order=ASCENDING", 400, "MALFORMED_REQUEST", "order"),
        ("/a?keyTo=a", 400, "UNKNOWN_PARAMETER", "keyTo"),
        ("/a?orderBy=time", 400, "UNKNOWN_PARAMETER", "orderBy"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    start_cluster: StartCluster, api: MakeApi, query: str, status: int, code: str, word: str
) -> None:
    cluster = await start_cluster(engine="memory", **SESSION)
    problem = (await api(cluster).get(SESSIONS + query)).problem(status, code)
    assert word in str(problem)


async def test_what_is_for_other_stores_says_what_to_ask(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", **SESSION)
    pod = api(cluster)
    for path in ("/state/stores/words", "/state/stores/words/a"):
        detail = (await pod.get(path)).problem(400, "UNKNOWN_QUERY_TYPE")["detail"]
        assert "/state/sessions" in detail
    (await pod.get("/state/windows/words")).problem(400, "UNKNOWN_QUERY_TYPE")
    (await pod.post("/state/get/words", {"keys": ["a"]})).problem(400, "UNKNOWN_QUERY_TYPE")
