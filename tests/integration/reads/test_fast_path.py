"""The fast path answers plain requests exactly as the HTTP library does."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from qss_core.model import Isolation, StoreType
from qss_store.runtime.settings import Settings
from qss_testing.clients.packets import Connection, connected, get, post
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
HOUR = 3_600_000


@pytest.fixture
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = await start_cluster()
    await cluster.put_values({f"k{n}": {"n": n} for n in range(20)}, {"in": {"0": 5}})
    return cluster


@pytest.fixture
def answered(cluster: Cluster) -> list[bool]:
    """For each request that reached the fast path: whether the fast path answered it."""
    return cluster.fast_answers


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connected(cluster) as connection:
        yield connection


POINT = get("/state/stores/words/k1")
MANY = post("/state/get/words", {"keys": [f"k{n}" for n in range(20)]})


@pytest.mark.parametrize(
    "request_bytes",
    [
        POINT,
        MANY,
        post("/state/get/words", {"keys": ["k1", "none", "k1"]}),
        post("/state/get/words", {"keys": []}),
    ],
)
async def test_an_answer_of_the_fast_path_is_the_ordinary_one(
    connection: Connection, answered: list[bool], request_bytes: bytes
) -> None:
    await connection.send(request_bytes)
    quick = await connection.answer()
    assert answered == [True]
    await connection.send(request_bytes.replace(b"Host: pod", b"Host: pod\r\nX-Other: 1"))
    ordinary = await connection.answer()
    assert answered == [True]
    assert quick == ordinary
    assert quick[0] == b"HTTP/1.1 200 OK"


def counts_of(cluster: Cluster) -> dict[str, float]:
    families = cluster.nodes[0].pod.metrics.requests.collect()
    samples = [sample for family in families for sample in family.samples]
    return {one.labels["route"]: one.value for one in samples if one.name == "qss_requests_total"}


@pytest.mark.parametrize("isolation", ["READ_COMMITTED", "READ_UNCOMMITTED"])
@pytest.mark.parametrize(
    ("kind", "path", "rows"),
    [
        ("windows", "/state/windows/words/k1", 30),
        ("windows", "/state/windows/words/k1?limit=7", 7),
        ("windows", "/state/windows/words/k1?limit=30", 30),
        ("windows", "/state/windows/words/k1?order=DESCENDING&times=rfc3339", 30),
        ("windows", "/state/windows/words/k1?from=1970-01-01T02:00:00Z&to=18000000", 4),
        ("windows", "/state/windows/words/none", 0),
        ("sessions", "/state/sessions/words/k1?limit=3&executionInfo=false", 3),
        ("sessions", "/state/sessions/words/k1?requireActive=true&timeout=5", 30),
    ],
)
async def test_the_rows_of_a_key_are_the_ordinary_ones(
    start_cluster: StartCluster,
    isolation: str,
    kind: str,
    path: str,
    rows: int,
) -> None:
    of = StoreType.WINDOW if kind == "windows" else StoreType.SESSION
    cluster = await start_cluster(type=of, retention_ms=1000 * HOUR, isolation=Isolation(isolation))
    puts = [
        Put(f"k{key}".encode(), b'{"n": %d}' % n, n, start=n * HOUR, end=n * HOUR + 5)
        for key in range(3)
        for n in range(30)
    ]
    await cluster.put(puts, {"in": {"0": 5}})
    request = get(path)
    async with connected(cluster) as connection:
        await connection.send(request)
        quick = await connection.answer()
        assert cluster.fast_answers == [True]
        await connection.send(request.replace(b"Host: pod", b"Host: pod\r\nX-Other: 1"))
        ordinary = await connection.answer()
    assert quick == ordinary
    assert counts_of(cluster) == {f"/state/{kind}/{{store}}/{{key}}": 2}
    document = json.loads(quick[2])
    assert len(document["rows"]) == rows
    assert (document["cursor"] is not None) == (0 < rows < 30 and "limit" in path)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/state/windows/words/k1?start=0", 200),
        ("/state/windows/words/k1?limit=1001", 200),
        ("/state/windows/words/k1?orderBy=time", 400),
        ("/state/windows/words/k1?executionInfo=true", 200),
        ("/state/windows/words/k1?cursor=x", 400),
        ("/state/windows/words/k1?limit=0", 400),
        ("/state/windows/words/k1?limit=1&limit=1", 400),
        ("/state/windows/words/k1?color=red", 400),
        ("/state/windows/words/k1?from=5%2B", 400),
        ("/state/windows/birds/k1", 404),
        ("/state/windows/words/large", 200),
        ("/state/sessions/words/k1", 400),
    ],
)
async def test_rows_of_a_key_that_need_more_go_the_ordinary_way(
    start_cluster: StartCluster, path: str, status: int
) -> None:
    cluster = await start_cluster(
        type=StoreType.WINDOW, retention_ms=1000 * HOUR, value_serde="string"
    )
    await cluster.put([Put(b"k1", b"x", start=0)])
    await cluster.put([Put(b"large", b"x" * 9000, start=n * HOUR) for n in range(100)])
    open_iterators = cluster.nodes[0].pod.metrics.open_iterators
    async with connected(cluster) as connection:
        await connection.send(get(path))
        first, _, body = await connection.answer()
    assert first.startswith(b"HTTP/1.1 %d" % status), body
    assert cluster.fast_answers == [False]
    assert [sample.value for one in open_iterators.collect() for sample in one.samples] == [0]


async def test_rows_of_a_key_on_another_pod_go_the_ordinary_way(
    start_cluster: StartCluster,
) -> None:
    cluster = await start_cluster(2, type=StoreType.WINDOW, retention_ms=1000 * HOUR)
    keys = [b"k%d" % number for number in range(8)]
    await cluster.put([Put(key, b"1", start=0) for key in keys])
    async with connected(cluster) as connection:
        for key in keys:
            await connection.send(get(f"/state/windows/words/{key.decode()}"))
            _, _, body = await connection.answer()
            assert len(json.loads(body)["rows"]) == 1
    assert set(cluster.fast_answers) == {True, False}


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/state/stores/words/none"), 404),
        (get("/state/stores/birds/k1"), 404),
        (post("/state/get/words", {"keys": [1]}), 400),
        (post("/state/get/words", b"{"), 400),
        (post("/state/get/words", {"keys": ["k1"], "positionBound": {"in": {"0": 6}}}), 200),
        (post("/state/get/birds", {"keys": []}), 404),
    ],
)
async def test_what_fails_goes_the_ordinary_way(
    connection: Connection, answered: list[bool], request_bytes: bytes, status: int
) -> None:
    await connection.send(request_bytes)
    first, _, _ = await connection.answer()
    assert first.startswith(b"HTTP/1.1 %d" % status)
    await connection.send(POINT)
    await connection.answer()
    assert answered == [False, True]


@pytest.mark.parametrize(
    "request_bytes",
    [
        get("/state/stores/words/k1?timeout=1"),
        get("/state/stores/words/k%31"),
        get("/state/stores/words/k1", "If-None-Match: x"),
        get("/state/stores/words?limit=1001"),
        get("/state/stores/words?from=%6b"),
        get("/state/stores/words?executionInfo=true"),
        POINT.replace(b"HTTP/1.1", b"HTTP/1.0"),
        POINT.replace(b"GET ", b"HEAD "),
    ],
)
async def test_what_is_not_plain_is_answered_too(
    connection: Connection, answered: list[bool], request_bytes: bytes
) -> None:
    await connection.send(request_bytes)
    head = await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 10)
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200"))
    assert True not in answered


async def test_requests_in_any_packets_are_answered_in_their_order(
    connection: Connection, answered: list[bool]
) -> None:
    requests = [POINT, MANY, get("/state/stores/words/k2"), get("/state/stores/words/k3?timeout=9")]
    stream = b"".join(requests * 3)
    expected = []
    for request in requests * 3:
        await connection.send(request)
        expected.append(await connection.answer())
    assert answered.count(True) == 9
    for size in (len(stream), 1, 7, 100, len(POINT), len(POINT) + 1):
        for start in range(0, len(stream), size):
            await connection.send(stream[start : start + size])
            await asyncio.sleep(0)  # The server gets a turn, so it sees two packets.
        assert [await connection.answer() for _ in expected] == expected


async def test_the_bytes_of_a_body_are_never_taken_for_a_request(
    connection: Connection, answered: list[bool]
) -> None:
    head = b"POST /state/get/words HTTP/1.1\r\nHost: pod\r\nContent-Length: %d\r\n\r\n"
    await connection.send(head % len(POINT))
    await asyncio.sleep(0)
    await connection.send(POINT)
    first, _, body = await connection.answer()
    assert first.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "MALFORMED_REQUEST"
    await connection.send(POINT)
    assert (await connection.answer())[0] == b"HTTP/1.1 200 OK"
    assert True not in answered[:-1]


async def test_a_request_within_an_unfinished_head_is_no_request(
    cluster: Cluster, connection: Connection, answered: list[bool]
) -> None:
    await connection.send(POINT)
    await connection.answer()
    handler = only_connection(cluster)
    handler.data_received(b"GET /state/stores/words/k2 HTTP/1.1\r\nX-Other: ")
    handler.data_received(POINT)
    assert json.loads((await connection.answer())[2])["key"] == "k2"
    assert answered == [True]


async def test_a_client_that_takes_nothing_is_left_to_the_ordinary_way(
    cluster: Cluster, connection: Connection, answered: list[bool]
) -> None:
    await connection.send(POINT)
    await connection.answer()
    handler = only_connection(cluster)
    handler.pause_writing()
    handler.data_received(POINT)
    handler.resume_writing()
    assert (await connection.answer())[0] == b"HTTP/1.1 200 OK"
    await connection.send(POINT)
    await connection.answer()
    assert answered == [True, True]


async def test_a_connection_lives_on_by_answers_of_the_fast_path(
    cluster: Cluster, connection: Connection, answered: list[bool]
) -> None:
    await connection.send(POINT)
    await connection.answer()
    handler = only_connection(cluster)
    closes_at = handler._next_keepalive_close_time  # noqa: SLF001 aiohttp's.
    await connection.send(POINT)
    await connection.answer()
    assert handler._next_keepalive_close_time > closes_at  # noqa: SLF001
    assert answered == [True, True]


async def test_a_large_row_goes_the_ordinary_way(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(value_serde="string")
    await cluster.put_values({"k1": "v" * 300_000})
    async with connected(cluster) as connection:
        await connection.send(POINT)
        assert len((await connection.answer())[2]) > 300_000
    assert cluster.fast_answers == [False]


async def test_a_body_over_the_limit_goes_the_ordinary_way(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(settings=Settings(query_body_bytes_max=100))
    await cluster.put_values({"k1": 1})
    for keys, status in ((["k1"], 200), (["k1"] * 30, 413)):
        async with connected(cluster) as connection:
            await connection.send(post("/state/get/words", {"keys": keys}))
            assert (await connection.answer())[0].startswith(b"HTTP/1.1 %d" % status)
    assert cluster.fast_answers == [True]


def only_connection(cluster: Cluster) -> Any:
    server = cluster.nodes[0].runner.server
    assert server is not None
    [connection] = server.connections
    return connection


async def test_the_fast_answers_for_each_new_state(
    cluster: Cluster, connection: Connection, answered: list[bool]
) -> None:
    await connection.send(POINT)
    _, before, _ = await connection.answer()
    await cluster.put([Put(b"k1", b"2", 7)], {"in": {"0": 9}})
    await connection.send(POINT)
    _, after, body = await connection.answer()
    assert answered == [True, True]
    assert json.loads(body) == {"key": "k1", "value": 2, "timestamp": 7}
    changed = {name for name in after if before[name] != after[name]}
    assert changed == {
        "etag",
        "queryable-state-position",
        "queryable-state-sequence",
        "content-length",
    }


async def test_answers_of_the_fast_path_are_counted_as_others_are(
    cluster: Cluster, connection: Connection, answered: list[bool]
) -> None:
    requests = cluster.nodes[0].pod.metrics.requests
    for request in (POINT, MANY):
        for data in (request, request.replace(b"Host: pod", b"Host: pod\r\nX-Other: 1")):
            before = requests.bytes_in, requests.bytes_out
            await connection.send(data)
            _, _, body = await connection.answer()
            received, sent = requests.bytes_in - before[0], requests.bytes_out - before[1]
            assert sent == len(body)
            assert received == len(data.partition(b"\r\n\r\n")[2])
    assert answered == [True, True]
    assert counts_of(cluster) == {"/state/stores/{store}/{key}": 2, "/state/get/{store}": 2}


async def test_a_client_that_does_not_read_is_not_written_to_without_end(
    start_cluster: StartCluster,
) -> None:
    cluster = await start_cluster(value_serde="string")
    await cluster.put_values({"k1": "v" * 100_000})
    async with connected(cluster) as connection:
        for _ in range(200):
            await connection.send(POINT)
            await asyncio.sleep(0)
        for _ in range(200):
            assert (await connection.answer())[0] == b"HTTP/1.1 200 OK"
    assert cluster.fast_answers.count(True) < 200
