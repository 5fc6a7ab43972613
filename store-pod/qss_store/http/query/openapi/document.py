"""The OpenAPI 3.1 document of the query port.

Parameters come from the tables that requests are checked against; what is said here by hand is
which path has which.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from qss_core.queries.parameters import (
    BODY_PARAMETERS,
    COUNT_PARAMETERS,
    KEY_METADATA_PARAMETERS,
    PARAMETERS,
    POINT_PARAMETERS,
    SCAN_PARAMETERS,
    Parameter,
)
from qss_core.queries.timed_parameters import (
    OF_SESSIONS,
    OF_VERSIONS,
    OF_WINDOWS,
    SESSION_KEY_PARAMETERS,
    SESSION_PARAMETERS,
    VERSION_PARAMETERS,
    WINDOW_KEY_PARAMETERS,
    WINDOW_PARAMETERS,
)
from qss_core.wire.messages import encode
from qss_store.http.content_types import ARROW, JSON, NDJSON, OCTETS
from qss_store.http.middleware import PROBLEM_JSON
from qss_store.http.query.openapi.schemas import TEXT, make_schemas, ref

_VERSION = "0.1.0"
_TOKEN_TEXT = (
    "A Kubernetes token with the store's audience, queryablestate.dev/NAMESPACE/STORE, or with the "
    "common one where the store's spec.access.commonAudience is true. Its account needs the verb "
    "get on queryablestatestores/query of this store; for discovery, update on .../write will do."
)
# OpenAPI 3.1 says no more of bytes that are no JSON.
_BYTES: dict[str, Any] = {}
_POINT_HEADERS = {
    "Etag": "Weak; names the state, not the row. For If-None-Match.",
    "Vary": "Accept",
    "Queryable-State-Position": "The position of the state, as a token for positionBound.",
    "Queryable-State-Partition": "The key's partition.",
    "Queryable-State-Served-By": "The pod that answered.",
    "Queryable-State-Sequence": "The partition's sequence: equal ones are equal states.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One path: what it does, what it takes, and the schemas of its good answers by media type."""

    path: str
    summary: str
    answers: dict[str, dict[str, Any]]
    method: str = "get"
    parameters: tuple[str, ...] = ()
    described: Mapping[str, Parameter] = field(default_factory=lambda: PARAMETERS)
    body: str | None = None
    headers: dict[str, str] | None = None
    statuses: tuple[int, ...] = (400, 404, 503)


# Every path has them: no token, no right or a foreign host, too much at once, a head that is too
# large, and nobody there who could tell.
_ANYWHERE = (401, 403, 429, 431, 503)
_TAGS = {
    "rows": "Rows by key, range, prefix or time.",
    "discovery": "Which pods and stores there are, and how far they are.",
    "document": "This document.",
}
_TAG_OF = {
    "instances": "discovery",
    "instance": "discovery",
    "lags": "discovery",
}
_EXAMPLES: dict[str, Any] = {
    "store": "word-counts",
    "key": "spark",
    "BatchRequest": {"keys": ["spark", "kafka"]},
    "QueryRequest": {"query": {"type": "RangeQuery", "lower": "a", "upper": "c"}, "limit": 100},
}
_POINT = (400, 404, 406, 409, 413, 421, 500, 503, 504)
_WHOLE = (400, 404, 406, 503)
_MANY = (400, 404, 406, 408, 413, 415, 503)
_OPERATIONS = (
    _Operation(path="/openapi.json", summary="This document.", answers={JSON: {"type": "object"}}),
    _Operation(
        path="/state/stores",
        summary="The names and types of this pod's stores.",
        answers={JSON: ref("Stores")},
    ),
    _Operation(
        path="/state/instances",
        summary="The pods of each store that this pod knows (KIP-67 allMetadata).",
        answers={JSON: ref("Instances")},
    ),
    _Operation(
        path="/state/instances/{store}",
        summary="A store's pods, definition and assignment (KIP-67 allMetadataForStore).",
        answers={JSON: ref("StoreMetadata")},
    ),
    _Operation(
        path="/state/instance/{store}/{key}",
        summary="Which pods have a key's partition (KIP-535 queryMetadataForKey).",
        answers={JSON: ref("KeyMetadata")},
        parameters=KEY_METADATA_PARAMETERS,
        statuses=(400, 404, 413, 503),
    ),
    _Operation(
        path="/state/lags/{store}",
        summary="How far this pod's replicas are (KIP-535 allLocalStorePartitionLags).",
        answers={JSON: ref("Lags")},
    ),
    _Operation(
        path="/state/stores/{store}/{key}",
        summary="The row of one key. 304 where If-None-Match names the same state.",
        answers={JSON: ref("PointRow"), OCTETS: _BYTES},
        parameters=POINT_PARAMETERS,
        headers=_POINT_HEADERS,
        statuses=_POINT,
    ),
    _Operation(
        path="/state/stores/{store}",
        summary="A range, a prefix, or all rows; partition by partition, each in key order.",
        answers={JSON: ref("Rows"), NDJSON: ref("Line"), ARROW: _BYTES},
        parameters=SCAN_PARAMETERS,
        statuses=(*_WHOLE, 413, 429),
    ),
    *(
        operation
        for what, row, of_keys, of_key, described in (
            ("windows", "WindowRow", WINDOW_PARAMETERS, WINDOW_KEY_PARAMETERS, OF_WINDOWS),
            ("sessions", "SessionRow", SESSION_PARAMETERS, SESSION_KEY_PARAMETERS, OF_SESSIONS),
        )
        for operation in (
            _Operation(
                path=f"/state/{what}/{{store}}/{{key}}",
                summary=f"The {what} of a key; with exact bounds one row, as of a key.",
                answers={
                    JSON: ref(f"{row}s"),
                    NDJSON: ref(f"{row}Line"),
                    ARROW: _BYTES,
                    OCTETS: _BYTES,
                },
                parameters=of_key,
                described={**PARAMETERS, **described},
                headers=_POINT_HEADERS,
                statuses=(*_POINT, 429),
            ),
            _Operation(
                path=f"/state/{what}/{{store}}",
                summary=f"The {what} of all keys, or of a range of them.",
                answers={JSON: ref(f"{row}s"), NDJSON: ref(f"{row}Line"), ARROW: _BYTES},
                parameters=of_keys,
                described={**PARAMETERS, **described},
                statuses=(*_WHOLE, 413, 429),
            ),
        )
    ),
    _Operation(
        path="/state/versions/{store}/{key}",
        summary="The latest version of a key, or that of a time; with from, to, order, limit or "
        "cursor all that were valid in a range.",
        answers={
            JSON: ref("VersionRows"),
            NDJSON: ref("VersionRowLine"),
            ARROW: _BYTES,
            OCTETS: _BYTES,
        },
        parameters=VERSION_PARAMETERS,
        described={**PARAMETERS, **OF_VERSIONS},
        headers=_POINT_HEADERS,
        statuses=(*_POINT, 429),
    ),
    _Operation(
        path="/state/versions/{store}",
        summary="Refused: versions are asked for key by key. UNKNOWN_QUERY_TYPE.",
        answers={},
        statuses=(400, 404),
    ),
    _Operation(
        path="/state/count/{store}",
        summary="How many keys there are, by RocksDB's estimate or (exact) counted; null where a "
        "partition did not answer.",
        answers={JSON: ref("Count")},
        parameters=COUNT_PARAMETERS,
        statuses=(*_WHOLE, 429),
    ),
    _Operation(
        path="/state/get/{store}",
        summary="Many keys, a status for each.",
        answers={JSON: ref("BatchAnswer"), ARROW: _BYTES},
        method="post",
        parameters=BODY_PARAMETERS,
        body="BatchRequest",
        statuses=_MANY,
    ),
    _Operation(
        path="/state/query/{store}",
        summary="Any query, as IQv2 has it (KIP-796). NDJSON for queries that scan.",
        answers={JSON: ref("QueryAnswer"), NDJSON: ref("Line"), ARROW: _BYTES},
        method="post",
        parameters=BODY_PARAMETERS,
        body="QueryRequest",
        statuses=(*_MANY, 429),
    ),
)


def make_document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in _OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queryable State: a store pod's query port",
            "version": _VERSION,
            "description": "Ask any key, range, window, session or version of a streaming job's "
            "state. Any pod answers for all pods of its store, unless a request says otherwise.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {
                "url": "{scheme}://{host}:{port}",
                "description": "A pod of the store, or the service before all of them.",
                "variables": {
                    "scheme": {"default": "http", "enum": ["http", "https"]},
                    "host": {"default": "localhost"},
                    "port": {"default": "8080"},
                },
            }
        ],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": make_schemas(),
            "securitySchemes": {
                "serviceAccount": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": _TOKEN_TEXT,
                }
            },
        },
        # With the empty one: a store whose access is None wants no token.
        "security": [{"serviceAccount": []}, {}],
    }


def _describe(operation: _Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if operation.answers:
        responses["200"] = _success(operation)
    if operation.headers:
        responses["304"] = {"description": "The client's copy is of this state."}
    for status in sorted({*operation.statuses, *_ANYWHERE}):
        responses[str(status)] = _problem(status)
    described: dict[str, Any] = {
        "summary": operation.summary,
        "description": operation.summary,
        "tags": [_tag(operation)],
        "operationId": _operation_id(operation),
        "parameters": _parameters(operation),
        "responses": responses,
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {
                JSON: {"schema": ref(operation.body), "example": _EXAMPLES[operation.body]}
            },
        }
    return described


def _tag(operation: _Operation) -> str:
    if operation.path == "/openapi.json":
        return "document"
    if operation.path == "/state/stores":
        return "discovery"
    return _TAG_OF.get(operation.path.split("/")[2], "rows")


def _operation_id(operation: _Operation) -> str:
    words = operation.path.replace(".json", "").strip("/").split("/")
    named = (f"by-{word[1:-1]}" if word.startswith("{") else word for word in words)
    return "-".join((operation.method, *named))


def _parameters(operation: _Operation) -> list[dict[str, Any]]:
    in_path = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": TEXT,
            "description": text,
            "example": _EXAMPLES[name],
        }
        for name, text in (
            ("store", "The store's name."),
            ("key", "The text of the key's serde, percent-encoded; a / is %2F. Up to 2 KiB."),
        )
        if f"{{{name}}}" in operation.path
    ]
    in_query = [
        {
            "name": name,
            "in": "query",
            "schema": operation.described[name].schema,
            "description": operation.described[name].description,
        }
        for name in operation.parameters
    ]
    return in_path + in_query


def _success(operation: _Operation) -> dict[str, Any]:
    success: dict[str, Any] = {
        "description": "The answer.",
        "content": {media: {"schema": schema} for media, schema in operation.answers.items()},
    }
    if operation.headers:
        success["headers"] = {
            name: {"description": text, "schema": TEXT} for name, text in operation.headers.items()
        }
    return success


def _problem(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": f"A problem (RFC 9457) with a stable code, status {status}.",
        "content": {PROBLEM_JSON: {"schema": ref("Problem")}},
    }
    if status == 401:
        described["headers"] = {"Www-Authenticate": {"description": "Bearer.", "schema": TEXT}}
    return described


def openapi_route() -> web.RouteDef:
    """The route of the document."""
    document = encode(make_document())

    async def get(_: web.Request) -> web.Response:
        return web.Response(body=document, headers={"Content-Type": JSON})

    return web.get("/openapi.json", get)
