"""Every query type on every store type and format: rows with exactly these members, or a reason.

The tests run on both engines, on one pod and on three.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_core.model import StoreType
from qss_core.queries.types import QUERY_TYPES
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.reference.own_stores import BY_VALUE

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]

START, END = 3_600_000, 3_700_000
QUERIES: dict[str, dict[str, Any]] = {
    "KeyQuery": {"key": "a"},
    "TimestampedKeyQuery": {"key": "a"},
    "TimestampedKeyWithHeadersQuery": {"key": "a"},
    "RangeQuery": {"lower": "a", "upper": "b"},
    "TimestampedRangeQuery": {"lower": "a", "upper": "b"},
    "TimestampedRangeWithHeadersQuery": {"lower": "a", "upper": "b"},
    "PrefixQuery": {"prefix": "a"},
    "CountQuery": {},
    "WindowKeyQuery": {"key": "a", "timeFrom": 0, "timeTo": END},
    "WindowRangeQuery": {"timeFrom": 0, "timeTo": END},
    "WindowRangeQuery of a key": {"key": "a"},
    "TimestampedWindowKeyWithHeadersQuery": {"key": "a", "timeFrom": 0, "timeTo": END},
    "TimestampedWindowRangeWithHeadersQuery": {"timeFrom": 0, "timeTo": END},
    "TimestampedWindowRangeWithHeadersQuery of a key": {"key": "a"},
    "SessionQuery": {"key": "a"},
    "VersionedKeyQuery": {"key": "a"},
    "MultiVersionedKeyQuery": {"key": "a"},
    "IndexQuery": {"index": "by-value"},
}
KEY_VALUE, TIMED, FULL = "key value", "key value timestamp", "key value timestamp headers"
WINDOW = "key windowStart windowEnd value"
SESSION = "key sessionStart sessionEnd value"
VERSION = "key validFrom validTo value"
COUNT = "a number"
# The query types of each store; every other one is UNKNOWN_QUERY_TYPE.
STORES: dict[tuple[str, str], dict[str, str]] = {
    ("KeyValue", "Plain"): {
        "KeyQuery": KEY_VALUE,
        "RangeQuery": KEY_VALUE,
        "PrefixQuery": KEY_VALUE,
        "CountQuery": COUNT,
    },
    ("KeyValue", "Timestamped"): {
        "KeyQuery": KEY_VALUE,
        "TimestampedKeyQuery": TIMED,
        "RangeQuery": KEY_VALUE,
        "TimestampedRangeQuery": TIMED,
        "PrefixQuery": TIMED,
        "CountQuery": COUNT,
    },
    ("KeyValue", "TimestampedWithHeaders"): {
        "KeyQuery": KEY_VALUE,
        "TimestampedKeyQuery": TIMED,
        "TimestampedKeyWithHeadersQuery": FULL,
        "RangeQuery": KEY_VALUE,
        "TimestampedRangeQuery": TIMED,
        "TimestampedRangeWithHeadersQuery": FULL,
        "PrefixQuery": FULL,
        "CountQuery": COUNT,
    },
    ("Window", "Plain"): {
        "WindowKeyQuery": WINDOW,
        "WindowRangeQuery": WINDOW,
        "CountQuery": COUNT,
    },
    # Kafka gives windows a timestamp, too (KIP-992 did not change them).
    ("Window", "Timestamped"): {
        "WindowKeyQuery": f"{WINDOW} timestamp",
        "WindowRangeQuery": f"{WINDOW} timestamp",
        "CountQuery": COUNT,
    },
    ("Window", "TimestampedWithHeaders"): {
        "WindowKeyQuery": f"{WINDOW} timestamp",
        "WindowRangeQuery": f"{WINDOW} timestamp",
        "TimestampedWindowKeyWithHeadersQuery": f"{WINDOW} timestamp headers",
        "TimestampedWindowRangeWithHeadersQuery": f"{WINDOW} timestamp headers",
        "CountQuery": COUNT,
    },
    # The timestamp of such a window is its start (KIP-1300); a session's is its end.
    ("Window", "PlainWithHeaders"): {
        "WindowKeyQuery": WINDOW,
        "WindowRangeQuery": WINDOW,
        "TimestampedWindowKeyWithHeadersQuery": f"{WINDOW} timestamp headers",
        "TimestampedWindowRangeWithHeadersQuery": f"{WINDOW} timestamp headers",
        "CountQuery": COUNT,
    },
    ("Session", "Plain"): {
        "WindowRangeQuery of a key": SESSION,
        "SessionQuery": SESSION,
        "CountQuery": COUNT,
    },
    ("Session", "PlainWithHeaders"): {
        "WindowRangeQuery of a key": SESSION,
        "TimestampedWindowRangeWithHeadersQuery of a key": f"{SESSION} timestamp headers",
        "SessionQuery": f"{SESSION} headers",
        "CountQuery": COUNT,
    },
    ("Versioned", "Plain"): {
        "VersionedKeyQuery": VERSION,
        "MultiVersionedKeyQuery": VERSION,
        "CountQuery": COUNT,
    },
}
# A store of type Custom is a KeyValue store with indexes.
STORES |= {
    ("Custom", store_format): {**STORES["KeyValue", store_format], "IndexQuery": of_index}
    for store_format, of_index in (
        ("Plain", "key indexKey value"),
        ("Timestamped", "key indexKey value timestamp"),
        ("TimestampedWithHeaders", "key indexKey value timestamp headers"),
    )
}
OWN: dict[str, Any] = {
    "custom_name": "ByValue",
    "value_serde": "string",
    "extensions": BY_VALUE,
}
PLACES = [("memory", 1), ("rocksdb", 1), ("rocksdb", 3)]


def members_of(result: Any) -> str:
    """The members of the rows of a result; a number has none."""
    if isinstance(result, int):
        return COUNT
    row = result[0] if isinstance(result, list) else result
    return " ".join(row)


@pytest.mark.parametrize(("engine", "pods"), PLACES)
@pytest.mark.parametrize(("kind", "store_format"), STORES, ids=" ".join)
async def test_a_store_answers_its_queries_and_no_others(
    start_cluster: StartCluster,
    api: MakeApi,
    engine: str,
    pods: int,
    kind: str,
    store_format: str,
) -> None:
    own = OWN if kind == StoreType.CUSTOM else {}
    cluster = await start_cluster(
        pods, engine=engine, type=StoreType(kind), format=store_format, **own
    )
    await cluster.put([Put(b"a", b"1", START, (("h", b"x"),), start=START, end=END)])
    found: dict[str, str] = {}
    for name, fields in QUERIES.items():
        query = {"type": name.partition(" ")[0], **fields}
        answer = await api(cluster).post("/state/query/words", {"query": query})
        if answer.status == 200:
            results = answer.json()["partitionResults"].values()
            present = [one["result"] for one in results if one.get("result") not in (None, [])]
            found[name] = members_of(present[0])
        else:
            answer.problem(400, "UNKNOWN_QUERY_TYPE")
    assert found == STORES[kind, store_format]


def test_every_query_type_is_tried() -> None:
    assert {name.partition(" ")[0] for name in QUERIES} == set(QUERY_TYPES)
