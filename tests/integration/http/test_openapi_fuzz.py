"""The answers of pods of each store type fit their /openapi.json, whatever the request.

schemathesis makes the requests from the document; half of them are valid. QSS_FUZZ_EXAMPLES is the
number for each operation, by default a few that are the same in each run; `make fuzz` sends many,
different ones in each run.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from qss_core.model import StoreType
from qss_store.http.query.openapi.document import make_document
from qss_store.http.query.routes import QUERY_ROUTES
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import SESSION, WINDOW
from qss_testing.reference.own_stores import BY_VALUE

pytestmark = pytest.mark.long

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]

FEW = 6
EXAMPLES = int(os.environ.get("QSS_FUZZ_EXAMPLES", FEW))
KINDS: dict[str, dict[str, Any]] = {
    "KeyValue": {"format": "TimestampedWithHeaders"},
    "Window": WINDOW,
    "Session": SESSION,
    "Versioned": {"type": StoreType.VERSIONED},
    "Custom": {
        "type": StoreType.CUSTOM,
        "custom_name": "ByValue",
        "value_serde": "string",
        "extensions": BY_VALUE,
    },
}
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in make_document(QUERY_ROUTES)["paths"].items()
    for method in methods
]
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
KEYS = ["k1", "k2", "absent"]
NOW_MS = 1000


def named(document: dict[str, Any]) -> dict[str, Any]:
    """The document, in which requests name the existing store and some existing keys."""
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] == "store":
                    parameter["schema"] = {"enum": ["words"]}
                elif parameter["name"] == "key":
                    parameter["schema"] = {"anyOf": [{"enum": KEYS}, parameter["schema"]]}
    return document


def ask_all(document: dict[str, Any], label: str, url: str) -> None:
    """Sends an operation's requests; raises if an answer does not fit the document."""
    found: Any = schemathesis.openapi.from_dict(document).get_all_operations()
    operation = next(one for one in (each.ok() for each in found) if one.label == label)
    # An operation without parameters has no invalid requests.
    takes = bool(list(operation.iter_parameters()) or operation.body)
    for mode in GenerationMode if takes else [GenerationMode.POSITIVE]:

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=max(1, EXAMPLES // 2),
            derandomize=EXAMPLES == FEW,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            answer = case.call(base_url=url)
            case.validate_response(answer, checks=CHECKS)
            assert answer.status_code != 500, answer.text

        ask()


@pytest.mark.parametrize("label", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_keeps_to_the_document(
    start_cluster: StartCluster, api: MakeApi, kind: str, label: str
) -> None:
    cluster = await start_cluster(2, partitions=2, **KINDS[kind])
    await cluster.put(
        Put(key.encode(), b'"v"', NOW_MS, start=NOW_MS, end=NOW_MS) for key in KEYS[:2]
    )
    document = named((await api(cluster).get("/openapi.json")).json())
    await asyncio.to_thread(ask_all, document, label, cluster.url())
