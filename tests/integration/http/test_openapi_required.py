"""The OpenAPI document requires the members that a query cannot do without, and no others."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_core.model import StoreType
from qss_core.queries.types import QUERY_TYPES
from qss_store.http.query.openapi.document import make_document
from qss_store.http.query.routes import QUERY_ROUTES
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
SCHEMAS = make_document(QUERY_ROUTES)["components"]["schemas"]
HOUR_MS = 3_600_000
SAMPLES: dict[str, Any] = {
    "key": "a",
    "prefix": "a",
    "timeFrom": 0,
    "timeTo": "2013-01-01T05:00:00Z",
}
# A key or times: the description alone says it. An index is of a custom store type.
OTHERS = {"WindowRangeQuery", "TimestampedWindowRangeWithHeadersQuery", "IndexQuery"}
STORES: dict[str, dict[str, Any]] = {
    "Window": {"type": StoreType.WINDOW, "window_size_ms": 1000, "retention_ms": HOUR_MS},
    "Session": {
        "type": StoreType.SESSION,
        "session_gap_ms": 1000,
        "retention_ms": HOUR_MS,
        "format": "PlainWithHeaders",
    },
    "Version": {
        "type": StoreType.VERSIONED,
        "history_retention_ms": HOUR_MS,
        "format": "Plain",
    },
}


@pytest.mark.parametrize("name", sorted(QUERY_TYPES.keys() - OTHERS))
async def test_the_members_that_a_query_needs_are_the_required_ones(
    start_cluster: StartCluster, api: MakeApi, name: str
) -> None:
    given = next((members for word, members in STORES.items() if word in name), {})
    members = {"format": "TimestampedWithHeaders", **given}
    pod = api(await start_cluster(2, engine="memory", **members))
    required = [member for member in SCHEMAS[name]["required"] if member != "type"]
    whole = {"type": name, **{member: SAMPLES[member] for member in required}}
    answer = await pod.post("/state/query/words", {"query": whole})
    assert answer.status == 200, answer.body
    for member in required:
        assert "default" not in SCHEMAS[name]["properties"][member]
        query = {key: value for key, value in whole.items() if key != member}
        refused = await pod.post("/state/query/words", {"query": query})
        assert refused.status == 400, member
        assert member in json.loads(refused.body)["detail"]
