"""The OpenAPI 3.1 document of the query port.

It is made from the port's routes. Parameters come from the tables that requests are checked
against.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from aiohttp import web

from qss_core.version import VERSION
from qss_core.wire.messages import encode
from qss_store.http.content_types import CSV, CURSOR_HEADER, JSON
from qss_store.http.middleware import PROBLEM_JSON
from qss_store.http.query.openapi.schemas import TEXT, make_schemas, ref
from qss_store.http.routes import NotInDocument, Operation, Route

_TOKEN_TEXT = (
    "A Kubernetes token with the store's audience, queryablestate.dev/NAMESPACE/STORE, or with the "
    "common one where the store's spec.access.commonAudience is true. Its account needs the verb "
    "get on queryablestatestores/query of this store; for discovery, update on .../write will do."
)
# Every path has these: no token, no right or a foreign host, too many requests, a head that is too
# large, an API server that does not answer.
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
    "status": "discovery",
    "batches": "discovery",
}
_OF_CSV = {CURSOR_HEADER: "The cursor of a page in CSV; absent after the last row."}
_EXAMPLES: dict[str, Any] = {
    "store": "word-counts",
    "key": "spark",
    "BatchRequest": {"keys": ["spark", "kafka"]},
    "QueryRequest": {"query": {"type": "RangeQuery", "lower": "a", "upper": "c"}, "limit": 100},
}


def make_document(routes: Iterable[Route[Any]]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for route in routes:
        assert route.operation is not None, f"{route.path} has no operation"
        if isinstance(route.operation, NotInDocument):
            continue
        paths.setdefault(route.path, {})[route.method.lower()] = _describe(route, route.operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Queryable State: a store pod's query port",
            "version": VERSION,
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
        # The empty requirement: a store with authentication None needs no token.
        "security": [{"serviceAccount": []}, {}],
    }


def _describe(route: Route[Any], operation: Operation) -> dict[str, Any]:
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
        "tags": [_tag(route.path)],
        "operationId": _operation_id(route),
        "parameters": _parameters(route.path, operation),
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


def _tag(path: str) -> str:
    if path == "/openapi.json":
        return "document"
    if path == "/state/stores":
        return "discovery"
    return _TAG_OF.get(path.split("/")[2], "rows")


def _operation_id(route: Route[Any]) -> str:
    words = route.path.replace(".json", "").strip("/").split("/")
    named = (f"by-{word[1:-1]}" if word.startswith("{") else word for word in words)
    return "-".join((route.method.lower(), *named))


def _parameters(path: str, operation: Operation) -> list[dict[str, Any]]:
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
        if f"{{{name}}}" in path
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


def _success(operation: Operation) -> dict[str, Any]:
    success: dict[str, Any] = {
        "description": "The answer.",
        "content": {media: {"schema": schema} for media, schema in operation.answers.items()},
    }
    headers = {**(operation.headers or {}), **(_OF_CSV if CSV in operation.answers else {})}
    if headers:
        success["headers"] = {
            name: {"description": text, "schema": TEXT} for name, text in headers.items()
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


class DocumentApi:
    """Serves the document of a port's routes; it is made for the first request."""

    def __init__(self, routes: Iterable[Route[Any]]) -> None:
        self._routes = routes

    @cached_property
    def _document(self) -> bytes:
        return encode(make_document(self._routes))

    async def get(self, _: web.Request) -> web.Response:
        return web.Response(body=self._document, headers={"Content-Type": JSON})
