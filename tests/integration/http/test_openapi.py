"""The OpenAPI document and the handlers agree."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from qss_client.reads.tables import ARROW, read_stream
from qss_core.model import StoreType
from qss_core.positions import Position, encode_token
from qss_core.queries.parameters import PARAMETERS
from qss_core.queries.requests import BatchRequest, QueryRequest
from qss_core.queries.timed_parameters import OF_SESSIONS, OF_VERSIONS, OF_WINDOWS
from qss_store.http.content_types import CSV, CURSOR_HEADER
from qss_store.http.query.openapi.document import make_document
from qss_store.http.query.routes import CONSOLE_ROUTES, QUERY_ROUTES
from qss_testing.clients.http import NDJSON, Answer, Api
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
DOCUMENT = make_document(QUERY_ROUTES)
OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]
NOT_SERVED = ("/state/versions/{store}",)
SERVED = [one for one in OPERATIONS if one[0] not in NOT_SERVED and one[1] != "delete"]
BODIES: dict[str, Any] = {
    "/state/get/{store}": {"keys": ["a"]},
    "/state/query/{store}": {"query": {"type": "CountQuery"}},
}
VALID = {
    "positionBound": encode_token(Position.of({"in": {0: 1}})),
    "requireActive": "true",
    "isolation": "READ_COMMITTED",
    "timeout": "2.5",
    "maxStaleness": "1",
    "executionInfo": "true",
    "exact": "true",
    "scope": "all",
    "partition": "1",
    "partitions": "0,1",
    "from": "a",
    "to": "b",
    "prefix": "a",
    "order": "DESCENDING",
    "limit": "5",
    "keyFrom": "a",
    "keyTo": "b",
    "orderBy": "time",
    "times": "rfc3339",
    "asOf": "1000",
    "after": "3",
}
OF_TIME = {
    "from": "1000",
    "to": "2013-01-01T05:00:00Z",
    "endFrom": "0",
    "startTo": "2013-01-01T05:00:00+01:00",
}
TIMED: dict[str, dict[str, Any]] = {
    "windows": {"type": StoreType.WINDOW, "window_size_ms": 1000},
    "sessions": {"type": StoreType.SESSION, "session_gap_ms": 1000},
    "versions": {"type": StoreType.VERSIONED, "history_retention_ms": 3_600_000},
}
WITHOUT_TIMESTAMPS = {"sessions": "PlainWithHeaders", "versions": "Plain"}
EXACT = {"windows": "start=1000", "sessions": "start=1000&end=1500"}


def concrete(path: str) -> str:
    return path.replace("{store}", "words").replace("{key}", "a").replace("{writer}", "nobody")


def query_parameters(path: str, method: str) -> set[str]:
    described = DOCUMENT["paths"][path][method]["parameters"]
    return {one["name"] for one in described if one["in"] == "query"}


def closed(schema: Any) -> Any:
    """The schema, in which no object may have an unnamed member."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: closed(value) for name, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict


def _strict_schemas() -> dict[str, Any]:
    schemas = dict(DOCUMENT["components"]["schemas"])
    # A mark is a partition's answer with more members, so it is closed as a whole.
    of_mark = schemas["Mark"]
    members = {**schemas["PartitionAnswer"]["properties"], **of_mark["allOf"][1]["properties"]}
    mark = {"type": "object", "properties": members, "required": of_mark["required"]}
    strict: dict[str, Any] = closed({**schemas, "Mark": mark})
    return strict


STRICT = {"schemas": _strict_schemas()}


def check(schema: dict[str, Any], instance: Any) -> None:
    Draft202012Validator({**closed(schema), "components": STRICT}).validate(instance)


def check_answer(path: str, method: str, answer: Answer) -> None:
    """The document describes the answer."""
    responses = DOCUMENT["paths"][path][method]["responses"]
    described = responses[str(answer.status)]
    if answer.status == 304:
        return
    media = answer.media.partition(";")[0]
    schema = described["content"][media]["schema"]
    if answer.media == NDJSON:
        for line in answer.lines():
            check(schema, line)
    elif answer.media == ARROW:
        assert read_stream(answer.body)["table"].schema.names[0] == "key"
        return
    elif media == CSV:
        assert answer.body.startswith(b"key,")
        assert set(described["headers"]) >= {CURSOR_HEADER}
        return
    elif answer.media != "application/octet-stream":
        check(schema, json.loads(answer.body))
    if b'"rows":[' not in answer.body and answer.media != NDJSON:
        for name in described.get("headers", ()):
            assert name in answer.headers or name == CURSOR_HEADER


async def ask(pod: Api, path: str, method: str, query: str = "", **headers: str) -> Answer:
    target = concrete(path) + (f"?{query}" if query else "")
    if method == "post":
        return await pod.post(target, BODIES[path], **headers)
    if method == "delete":
        return await pod.send("DELETE", target, None, headers)
    return await pod.get(target, **headers)


def what_of(path: str) -> str:
    """The second word of a path."""
    return path.split("/")[2] if path.count("/") > 1 else ""


async def filled(start_cluster: StartCluster, api: MakeApi, path: str = "") -> Api:
    """A pod of a store of the type that the path needs."""
    what = what_of(path)
    members: dict[str, Any] = {"format": "TimestampedWithHeaders"}
    if what in TIMED:
        members |= {**TIMED[what], "retention_ms": 3_600_000}
    members["format"] = WITHOUT_TIMESTAMPS.get(what, members["format"])
    cluster = await start_cluster(2, engine="memory", **members)
    rows = [
        Put(key, b'{"n":1}', 5, (("h", b"x"), ("i", None)), 1000, 1500)
        for key in (b"a", b"ab", b"b")
    ]
    await cluster.put(rows, {"in": {"0": 41}})
    return api(cluster)


@pytest.fixture
async def pod(start_cluster: StartCluster, api: MakeApi) -> Api:
    return await filled(start_cluster, api)


def test_the_document_is_openapi() -> None:
    validate(DOCUMENT)
    identifiers = [DOCUMENT["paths"][path][method]["operationId"] for path, method in OPERATIONS]
    assert len(set(identifiers)) == len(identifiers)


async def test_the_document_is_served(pod: Api) -> None:
    assert (await pod.get("/openapi.json")).json() == DOCUMENT


async def test_every_route_is_documented_and_every_path_is_served(
    start_cluster: StartCluster,
) -> None:
    cluster = await start_cluster(engine="memory")
    app = cluster.nodes[0].runner.app
    assert app is not None
    served = {
        (route.resource.canonical, route.method.lower())
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    console = {(route.path, "get") for route in CONSOLE_ROUTES}
    assert make_document(CONSOLE_ROUTES)["paths"] == {}
    assert served - console == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), SERVED)
async def test_the_parameters_are_those_that_the_handler_takes(
    start_cluster: StartCluster, api: MakeApi, path: str, method: str
) -> None:
    pod = await filled(start_cluster, api, path)
    if path == "/openapi.json":
        return
    problem = (await ask(pod, path, method, "no-such=1")).problem(400, "UNKNOWN_PARAMETER")
    assert set(problem["details"]["allowed"]) == query_parameters(path, method)


@pytest.mark.parametrize(("path", "method"), SERVED)
async def test_every_documented_parameter_is_taken(
    start_cluster: StartCluster, api: MakeApi, path: str, method: str
) -> None:
    pod = await filled(start_cluster, api, path)
    valid = {**VALID, **OF_TIME} if what_of(path) in TIMED else VALID
    for name in query_parameters(path, method) & valid.keys():
        answer = await ask(pod, path, method, f"{name}={quote(valid[name])}")
        if name == "partition":
            assert "Explicit" in answer.problem(400, "MALFORMED_REQUEST")["detail"]
        else:
            assert answer.status == 200, (name, answer.body)
        check_answer(path, method, answer)


def test_every_parameter_is_used_and_described_as_it_is_checked() -> None:
    used = {name for path, method in OPERATIONS for name in query_parameters(path, method)}
    assert used == {*PARAMETERS, *OF_WINDOWS, *OF_SESSIONS, *OF_VERSIONS}
    for name, value in VALID.items():
        schema = {**OF_WINDOWS, **OF_VERSIONS, **PARAMETERS}[name].schema
        given = value if schema["type"] == "string" else json.loads(value)
        Draft202012Validator(schema).validate(given)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
async def test_real_answers_are_as_documented(
    start_cluster: StartCluster, api: MakeApi, path: str, method: str
) -> None:
    pod = await filled(start_cluster, api, path)
    check_answer(path, method, await ask(pod, path, method))
    for accept in DOCUMENT["paths"][path][method]["responses"].get("200", {}).get("content", ()):
        answer = await ask(pod, path, method, Accept=accept)
        assert answer.status in (200, 404 if method == "delete" else 406)
        check_answer(path, method, answer)
    check_answer(path, method, await missing(pod, path, method))


async def missing(pod: Api, path: str, method: str) -> Answer:
    elsewhere = path.replace("{store}", "birds")
    if method == "post":
        return await pod.post(elsewhere, BODIES[path])
    answer = await ask(pod, elsewhere, method)
    assert answer.status == (404 if "{store}" in path else 200)
    return answer


SCAN = "/state/stores/{store}"
POINT = "/state/stores/{store}/{key}"


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (SCAN, "limit=1"),
        (SCAN, "scope=local&executionInfo=true"),
        (SCAN, "partitions=0,1,9&maxStaleness=0"),
        ("/state/count/{store}", "scope=local&executionInfo=true"),
        ("/state/count/{store}", "partitions=9"),
        (POINT, "executionInfo=true"),
        (POINT, "positionBound=" + encode_token(Position.of({"in": {0: 99}}))),
        (POINT, "positionBound=!"),
    ],
)
async def test_failures_cursors_and_execution_info_are_as_documented(
    pod: Api, path: str, query: str
) -> None:
    check_answer(path, "get", await ask(pod, path, "get", query))
    if path == SCAN:
        check_answer(path, "get", await ask(pod, path, "get", query, Accept=NDJSON))
        # With a limit, since a stream breaks off at partitions that fail.
        csv = f"{query}&limit=5" if "limit" not in query else query
        check_answer(path, "get", await ask(pod, path, "get", csv, Accept=CSV))


@pytest.mark.parametrize("what", EXACT)
async def test_windows_and_sessions_are_as_documented(
    start_cluster: StartCluster, api: MakeApi, what: str
) -> None:
    path = f"/state/{what}/{{store}}"
    pod = await filled(start_cluster, api, path)
    for query in ("limit=1", "times=rfc3339", "orderBy=time&limit=1", "scope=local&partitions=9"):
        check_answer(path, "get", await ask(pod, path, "get", query))
        check_answer(path, "get", await ask(pod, path, "get", query, Accept=NDJSON))
    of_key, exact = f"{path}/{{key}}", EXACT[what]
    for query in (exact, f"{exact}&times=rfc3339&executionInfo=true", exact.replace("=1", "=9")):
        check_answer(of_key, "get", await ask(pod, of_key, "get", query))
    check_answer(of_key, "get", await ask(pod, of_key, "get", exact, If_None_Match="*"))


async def test_versions_are_as_documented(start_cluster: StartCluster, api: MakeApi) -> None:
    path = "/state/versions/{store}/{key}"
    pod = await filled(start_cluster, api, path)
    for query in ("", "asOf=5", "asOf=4", "times=rfc3339&executionInfo=true"):
        check_answer(path, "get", await ask(pod, path, "get", query))
    for query in ("limit=1", "from=5&times=rfc3339", "order=ANY&scope=local"):
        check_answer(path, "get", await ask(pod, path, "get", query))
        check_answer(path, "get", await ask(pod, path, "get", query, Accept=NDJSON))
    check_answer(path, "get", await ask(pod, path, "get", If_None_Match="*"))


async def test_a_304_is_as_documented(pod: Api) -> None:
    check_answer(POINT, "get", await ask(pod, POINT, "get", If_None_Match="*"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "store.example.org"}, 403), ({"X-Large": "x" * 70_000}, 431)],
)
@pytest.mark.parametrize(("path", "method"), SERVED)
async def test_refusals_before_any_handler_are_as_documented(
    pod: Api, path: str, method: str, headers: dict[str, str], status: int
) -> None:
    answer = await ask(pod, path, method, **headers)
    assert answer.status == status
    check_answer(path, method, answer)


QUERIES: list[dict[str, Any]] = [
    {"type": "KeyQuery", "key": "a"},
    {"type": "KeyQuery", "key": "nowhere", "skipCache": True},
    {"type": "TimestampedKeyQuery", "key": "a"},
    {"type": "TimestampedKeyWithHeadersQuery", "key": "a"},
    {"type": "RangeQuery", "lower": "a", "upper": None, "order": "ASCENDING"},
    {"type": "TimestampedRangeQuery"},
    {"type": "TimestampedRangeWithHeadersQuery", "order": "DESCENDING"},
    {"type": "PrefixQuery", "prefix": "a"},
    {"type": "CountQuery"},
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: str(query["type"]))
async def test_every_query_and_its_answer_are_as_documented(
    pod: Api, query: dict[str, Any]
) -> None:
    body = {"query": query, "executionInfo": True, "partitions": [0, 1, 2, 3, 9], "timeout": 5}
    check({"$ref": "#/components/schemas/QueryRequest"}, body)
    for target in ("/state/query/words", "/state/query/words?scope=local"):
        answer = await pod.post(target, body)
        assert answer.status == 200
        check_answer("/state/query/{store}", "post", answer)


async def test_every_member_of_a_body_is_documented_and_taken(pod: Api) -> None:
    members: dict[str, Any] = {
        "partitions": [0],
        "requireActive": True,
        "positionBound": {"in": {"0": 1}},
        "isolation": "READ_COMMITTED",
        "timeout": 1,
        "maxStaleness": 1,
        "executionInfo": True,
        "limit": 5,
        "cursor": None,
        "partition": None,
        "times": None,
    }
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["QueryRequest"]["properties"].keys() == {"query", *members}
    body = {"query": {"type": "RangeQuery"}, **members}
    check({"$ref": "#/components/schemas/QueryRequest"}, body)
    assert (await pod.post("/state/query/words", body)).status == 200
    of_batch = {name: members[name] for name in members if name in _camel(BatchRequest)}
    assert schemas["BatchRequest"]["properties"].keys() == {"keys", *of_batch}
    batch = {"keys": ["a", "nowhere"], **of_batch}
    check({"$ref": "#/components/schemas/BatchRequest"}, batch)
    check_answer("/state/get/{store}", "post", await pod.post("/state/get/words", batch))
    local = await pod.post("/state/get/words?scope=local", {"keys": ["a", "ab", "b"]})
    check_answer("/state/get/{store}", "post", local)


def _camel(kind: type[BatchRequest] | type[QueryRequest]) -> tuple[str, ...]:
    names: tuple[str, ...] = kind.__struct_encode_fields__
    return names
