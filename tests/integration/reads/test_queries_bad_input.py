"""Each error of a client has its own code, and the log quotes nothing of the request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_core.model import Partitioner
from qss_store.http.content_types import ARROW
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
SCAN = "/state/stores/words"
LONG_KEY = "k" * 65_537


@pytest.fixture
async def pod(start_cluster: StartCluster, api: MakeApi) -> Api:
    cluster = await start_cluster(2, engine="memory")
    await cluster.put_values({"a": 1})
    return api(cluster)


@pytest.mark.parametrize(
    ("path", "status", "code", "word"),
    [
        # Stores and paths
        ("/state/stores/birds/a", 404, "STORE_NOT_FOUND", "words"),
        ("/state/stores/birds?nonsense=1", 404, "STORE_NOT_FOUND", "words"),
        ("/state/stores/words/a/b", 404, "PATH_NOT_FOUND", "%2F"),
        ("/state", 404, "PATH_NOT_FOUND", "openapi"),
        ("/", 404, "PATH_NOT_FOUND", "openapi"),
        ("/state/query/words", 405, "METHOD_NOT_ALLOWED", "POST"),
        # Keys in paths
        ("/state/stores/words/", 400, "MALFORMED_REQUEST", "POST /state/get"),
        ("/state/stores/words/..", 400, "MALFORMED_REQUEST", "POST /state/get"),
        ("/state/stores/words/.", 400, "MALFORMED_REQUEST", "POST /state/get"),
        ("/state/stores/words/%ff", 400, "MALFORMED_REQUEST", "UTF-8"),
        ("/state/stores/words/%ed%a0%80", 400, "MALFORMED_REQUEST", "UTF-8"),
        ("/state/stores/words/%zz", 400, "MALFORMED_REQUEST", "%25"),
        ("/state/stores/words/100%", 400, "MALFORMED_REQUEST", "%25"),
        ("/state/stores/words/%2", 400, "MALFORMED_REQUEST", "%25"),
        (f"/state/stores/words/{'k' * 2049}", 413, "LIMIT_EXCEEDED", "POST /state/get"),
        ("/state/instance/words/%ff", 400, "MALFORMED_REQUEST", "UTF-8"),
        ("/state/instance/words/", 400, "MALFORMED_REQUEST", "POST"),
        # Parameters
        ("/state/stores/words/a?form=b", 400, "UNKNOWN_PARAMETER", "'form'"),
        ("/state/stores/words/a?limit=1", 400, "UNKNOWN_PARAMETER", "positionBound"),
        ("/state/stores/words?partition=1", 400, "UNKNOWN_PARAMETER", "partitions"),
        ("/state/count/words?prefix=a", 400, "UNKNOWN_PARAMETER", "'prefix'"),
        ("/state/stores/words/a?partition=1", 400, "MALFORMED_REQUEST", "Explicit"),
        ("/state/stores/words/a?positionBound=AAAA", 400, "MALFORMED_REQUEST", "positionBound"),
        ("/state/stores/words/a?positionBound={}", 400, "MALFORMED_REQUEST", "positionBound"),
        ("/state/stores/words/a?timeout=0", 400, "MALFORMED_REQUEST", "timeout"),
        ("/state/stores/words/a?timeout=61", 400, "MALFORMED_REQUEST", "timeout"),
        ("/state/stores/words/a?requireActive=yes", 400, "MALFORMED_REQUEST", "requireActive"),
        ("/state/stores/words?isolation=SERIALIZABLE", 400, "MALFORMED_REQUEST", "isolation"),
        # Scans
        ("/state/stores/words?from=b&to=a", 400, "RANGE_REVERSED", "DESCENDING"),
        ("/state/stores/words?from=a&prefix=a", 400, "MALFORMED_REQUEST", "prefix"),
        ("/state/stores/words?limit=0", 400, "MALFORMED_REQUEST", "limit"),
        ("/state/stores/words?limit=-1", 400, "MALFORMED_REQUEST", "limit"),
        ("/state/stores/words?limit=1.5", 400, "MALFORMED_REQUEST", "limit"),
        ("/state/stores/words?limit=100001", 413, "LIMIT_EXCEEDED", "100000"),
        ("/state/stores/words?order=DOWN", 400, "MALFORMED_REQUEST", "DESCENDING"),
        ("/state/stores/words?cursor=", 400, "MALFORMED_CURSOR", "without a cursor"),
        ("/state/stores/words?cursor=AAAA", 400, "MALFORMED_CURSOR", "without a cursor"),
        ("/state/stores/words?cursor=%20", 400, "MALFORMED_CURSOR", "without a cursor"),
        ("/state/stores/words?partitions=one", 400, "MALFORMED_REQUEST", "partitions"),
        ("/state/stores/words?from=%ff", 400, "MALFORMED_REQUEST", "UTF-8"),
    ],
)
async def test_a_get_that_is_wrong(
    pod: Api, path: str, status: int, code: str, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        problem = (await pod.get(path)).problem(status, code)
    assert word in problem["detail"]
    assert "Traceback" not in problem["detail"]
    told = [record for record in caplog.records if record.name.startswith("qss")]
    assert all(record.name == "qss_store.http.refusal_log" for record in told)
    asked = path.partition("?")[0].removeprefix("/state/stores/words/")
    assert not any(len(asked) > 3 and asked in record.getMessage() for record in told)


QUERY = "/state/query/words"
GET = "/state/get/words"
RANGE = {"type": "RangeQuery"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "word"),
    [
        (QUERY, b"", 400, "MALFORMED_REQUEST", "QueryRequest"),
        (QUERY, b"{", 400, "MALFORMED_REQUEST", "QueryRequest"),
        (QUERY, b"[]", 400, "MALFORMED_REQUEST", "array"),
        (QUERY, b"\xff", 400, "MALFORMED_REQUEST", "QueryRequest"),
        (QUERY, {}, 400, "MALFORMED_REQUEST", "query"),
        (QUERY, {"query": 1}, 400, "MALFORMED_REQUEST", "object"),
        (QUERY, {"query": {}}, 400, "MALFORMED_REQUEST", "type"),
        (QUERY, {"query": {"type": "KeyQuery", "kee": 1}}, 400, "MALFORMED_REQUEST", "kee"),
        (QUERY, {"query": {"type": "KeyQuery"}}, 400, "NULL_KEY", "key"),
        (QUERY, {"query": {"type": "KeyQuery", "key": 5}}, 400, "MALFORMED_REQUEST", "string"),
        (QUERY, {"query": {"type": "KeyQuery", "key": LONG_KEY}}, 413, "LIMIT_EXCEEDED", "65536"),
        (QUERY, {"query": RANGE, "requireactive": 1}, 400, "MALFORMED_REQUEST", "requireactive"),
        (QUERY, {"query": RANGE, "partitions": [-1]}, 400, "MALFORMED_REQUEST", "partitions"),
        (QUERY, {"query": RANGE, "partitions": "0"}, 400, "MALFORMED_REQUEST", "partitions"),
        (QUERY, {"query": RANGE, "positionBound": "!"}, 400, "MALFORMED_REQUEST", "positionBound"),
        (QUERY, {"query": RANGE, "positionBound": [1]}, 400, "MALFORMED_REQUEST", "positionBound"),
        (
            QUERY,
            {"query": RANGE, "positionBound": {"in": {"0": "5"}}},
            400,
            "MALFORMED_REQUEST",
            "offset",
        ),
        (QUERY, {"query": RANGE, "timeout": 0}, 400, "MALFORMED_REQUEST", "timeout"),
        (QUERY, {"query": RANGE, "limit": 0}, 400, "MALFORMED_REQUEST", "limit"),
        (QUERY, {"query": RANGE, "limit": 100_001}, 413, "LIMIT_EXCEEDED", "100000"),
        (QUERY, {"query": RANGE, "cursor": "x"}, 400, "MALFORMED_CURSOR", "cursor"),
        (QUERY, {"query": RANGE, "partition": 1}, 400, "MALFORMED_REQUEST", "partitions"),
        (
            QUERY,
            {"query": {"type": "CountQuery"}, "limit": 1},
            400,
            "MALFORMED_REQUEST",
            "limit",
        ),
        (
            QUERY,
            {"query": {"type": "RangeQuery", "lower": "b", "upper": "a"}},
            400,
            "RANGE_REVERSED",
            "bytes",
        ),
        (f"{QUERY}?limit=1", {"query": RANGE}, 400, "UNKNOWN_PARAMETER", "scope"),
        ("/state/query/birds", b"{", 404, "STORE_NOT_FOUND", "words"),
        (GET, {"keys": "a"}, 400, "MALFORMED_REQUEST", "keys"),
        (GET, {}, 400, "MALFORMED_REQUEST", "keys"),
        (GET, {"keys": ["a", None]}, 400, "NULL_KEY", "key"),
        (GET, {"keys": ["a", 1]}, 400, "MALFORMED_REQUEST", "string"),
        (GET, {"keys": [LONG_KEY]}, 413, "LIMIT_EXCEEDED", "65536"),
        (GET, {"keys": ["a"] * 1001}, 413, "LIMIT_EXCEEDED", "1000"),
        (GET, {"keys": [], "limit": 1}, 400, "MALFORMED_REQUEST", "limit"),
        (GET, {"keys": ["a"], "partition": 1}, 400, "MALFORMED_REQUEST", "Explicit"),
        (GET, {"keys": ["a"], "isolation": "X"}, 400, "MALFORMED_REQUEST", "isolation"),
        (GET, b'{"keys":["' + b"k" * 262_144 + b'"]}', 413, "LIMIT_EXCEEDED", "262144"),
        (QUERY, b" " * 262_145, 413, "LIMIT_EXCEEDED", "262144"),
    ],
)
async def test_a_post_that_is_wrong(
    pod: Api, path: str, body: Any, status: int, code: str, word: str
) -> None:
    assert word in (await pod.post(path, body)).problem(status, code)["detail"]


@pytest.mark.parametrize(
    ("path", "asked", "offered"),
    [
        (SCAN, "application/vnd.apache.parquet", ["application/json", NDJSON, ARROW, "text/csv"]),
        ("/state/count/words", ARROW, ["application/json"]),
        (f"{SCAN}/a", ARROW, ["application/json"]),
        ("/state/count/words", "text/csv", ["application/json"]),
    ],
)
async def test_a_form_that_is_not_served_and_those_that_are(
    pod: Api, path: str, asked: str, offered: list[str]
) -> None:
    answer = await pod.get(path, Accept=asked)
    assert answer.problem(406, "NOT_ACCEPTABLE")["details"]["offered"] == offered


@pytest.mark.parametrize(
    ("serde", "text", "obj"),
    [
        ("int32", "2147483648", 2147483648),
        ("int32", "a", "1"),
        ("int64", "1.0", 1.0),
        ("boolean", "1", 1),
        ("uuid", "5", 5),
        ("bytes", "?", "?"),
        ("list<int32>", "[1", [1, "2"]),
        ("float64", "x", "x"),
    ],
)
async def test_a_key_of_the_wrong_type(
    start_cluster: StartCluster, api: MakeApi, serde: str, text: str, obj: object
) -> None:
    pod = api(await start_cluster(engine="memory", key_serde=serde))
    for path in (f"{SCAN}/{text.replace('?', '%3F')}", f"{SCAN}?from={text}"):
        (await pod.get(path)).problem(400, "MALFORMED_REQUEST")
    (await pod.post(GET, {"keys": [obj]})).problem(400, "MALFORMED_REQUEST")
    query = {"query": {"type": "KeyQuery", "key": obj}}
    (await pod.post(QUERY, query)).problem(400, "MALFORMED_REQUEST")


async def test_an_explicit_store_needs_the_partition_in_a_batch(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", partitioner=Partitioner.EXPLICIT)
    pod = api(cluster)
    (await pod.post(GET, {"keys": ["a"]})).problem(400, "MALFORMED_REQUEST")
    (await pod.post(GET, {"keys": ["a"], "partition": 4})).problem(404, "DOES_NOT_EXIST")
    answer = (await pod.post(GET, {"keys": ["a"], "partition": 3})).json()
    assert answer["results"] == [{"key": "a", "partition": 3, "status": "ABSENT"}]


async def talk(cluster: Cluster, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.ports[0])
    for part in parts:
        writer.write(part)
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


@pytest.mark.parametrize("raw", ["ä".encode(), b"\xff"])
async def test_bytes_in_a_path_that_nobody_escaped(start_cluster: StartCluster, raw: bytes) -> None:
    cluster = await start_cluster(engine="memory")
    head = b"GET /state/stores/words/" + raw + b" HTTP/1.1\r\nHost: x\r\n\r\n"
    said = await talk(cluster, head)
    assert b"400 Bad Request" in said
    assert b'"code":"MALFORMED_REQUEST"' in said


async def test_a_slow_body_is_refused(start_cluster: StartCluster) -> None:
    cluster = await start_cluster(engine="memory", settings=Settings(query_body_deadline_s=0.2))
    head = b"POST /state/get/words HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
    assert b'"code":"REQUEST_TIMEOUT"' in await talk(cluster, head, b'{"keys"')


async def test_a_body_that_is_packed_is_refused(pod: Api) -> None:
    answer = await pod.post(GET, b"x", Content_Encoding="gzip")
    answer.problem(415, "UNSUPPORTED_MEDIA")


async def test_keys_and_values_are_not_in_the_metrics(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory")
    await cluster.put_values({"secret-key": "secret-value"})
    pod = api(cluster)
    await pod.get(f"{SCAN}/secret-key")
    await pod.get("/nowhere/secret-key")
    await pod.get(f"{SCAN}?from=secret-key", Accept=NDJSON)
    text = cluster.nodes[0].pod.metrics.render(lambda: None).decode()
    assert "secret" not in text
    route = 'qss_requests_total{listener="query",route="/state/stores/{store}/{key}",status="200"}'
    assert f"{route} 1.0" in text


@pytest.mark.parametrize("way", ["fast", "ordinary"])
async def test_a_member_that_is_given_twice_is_refused(
    start_cluster: StartCluster, api: MakeApi, way: str
) -> None:
    cluster = await start_cluster(1, engine="memory")
    headers = {} if way == "fast" else {"X_Other": "1"}
    pod = api(cluster)
    twice = b'{"keys": ["a"], "keys": ["b"]}'
    problem = (await pod.post("/state/get/words", twice, **headers)).problem(
        400, "MALFORMED_REQUEST"
    )
    assert problem["detail"] == "the body has the member 'keys' twice: give it once"
    query = b'{"query": {"type": "KeyQuery", "key": "a", "key": "b"}}'
    (await pod.post("/state/query/words", query, **headers)).problem(400, "MALFORMED_REQUEST")
