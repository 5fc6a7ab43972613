"""The schemas of the OpenAPI document, made from the structs of requests and answers."""

from typing import Any

import msgspec

from qss_core.queries.requests import BatchRequest, PartitionAnswer, QueryAnswer, QueryRequest
from qss_core.queries.types import QUERY_TYPES, Query
from qss_core.wire.discovery import Instances, Lags, StoreBatches, Stores, StoreStatus
from qss_core.wire.messages import KeyMetadata, Problem, StoreMetadata
from qss_store.http.query.openapi.plain_schemas import plain_schemas
from qss_store.reads.get_many import BatchAnswer

_REFS = "#/components/schemas/{name}"
_STRUCTS = (
    BatchAnswer,
    BatchRequest,
    Instances,
    KeyMetadata,
    Lags,
    PartitionAnswer,
    Problem,
    QueryAnswer,
    QueryRequest,
    StoreBatches,
    StoreMetadata,
    StoreStatus,
    Stores,
)
TEXT: dict[str, Any] = {"type": "string"}
_NULLABLE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_COUNTS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"$ref": _REFS.format(name="PartitionAnswer")},
}
_LINE_KINDS = ("Row", "WindowRow", "SessionRow", "VersionRow", "Mark")
_KEY: dict[str, Any] = {"key": {"description": "JSON of the key serde."}}
_INDEX_KEY: dict[str, Any] = {
    "indexKey": {"description": "JSON of the index's serde; of an IndexQuery's rows."}
}
_LINES: dict[str, Any] = {"executionInfo": {"type": "array", "items": TEXT}}
# The structs have defaults for these members, since their absence has a code or a text of its own,
# as NULL_KEY. A query type with two forms, as WindowRangeQuery, names theirs in its description.
_WINDOW_OF_KEY = ("key", "timeFrom", "timeTo")
_NEEDED: dict[str, tuple[str, ...]] = {
    "KeyQuery": ("key",),
    "TimestampedKeyQuery": ("key",),
    "TimestampedKeyWithHeadersQuery": ("key",),
    "PrefixQuery": ("prefix",),
    "WindowKeyQuery": _WINDOW_OF_KEY,
    "TimestampedWindowKeyWithHeadersQuery": _WINDOW_OF_KEY,
    "VersionedKeyQuery": ("key",),
    "MultiVersionedKeyQuery": ("key",),
}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": _REFS.format(name=name)}


def make_schemas() -> dict[str, Any]:
    queries = msgspec.json.schema_components((Query,), ref_template=_REFS)
    _, components = msgspec.json.schema_components(_STRUCTS, ref_template=_REFS)
    # The JSON round trip turns tuples in defaults into arrays.
    components = msgspec.json.decode(msgspec.json.encode({**queries[1], **components}))
    components["Query"] = queries[0][0]
    for name, members in _NEEDED.items():
        _require(components[name], members)
    components["QueryRequest"]["properties"]["query"] = {"anyOf": [ref("Query"), ref("OwnQuery")]}
    components["OwnQuery"] = _own_query()
    position = {"anyOf": [TEXT, ref("Position"), {"type": "null"}]}
    for name in ("QueryRequest", "BatchRequest"):
        components[name]["properties"]["positionBound"] = position
    components["BatchAnswer"]["properties"]["results"]["items"] = ref("KeyResult")
    components["BatchRequest"]["properties"]["keys"]["items"] = _KEY["key"]
    return plain_schemas({**components, **_rows(), **_timed_rows(), **_answers()})


def _require(query: dict[str, Any], members: tuple[str, ...]) -> None:
    """Says that a query has to have the members; none of them has a default then."""
    query["required"] = [*query["required"], *members]
    for name in members:
        del query["properties"][name]["default"]


def _own_query() -> dict[str, Any]:
    name = {"type": "string", "not": {"enum": list(QUERY_TYPES)}}
    return {
        **_object({"type": name}, "type"),
        "description": "A query type of a user's own that the pods have installed.",
    }


def _value_members(timestamp: Any) -> dict[str, Any]:
    return {
        "value": {"description": "JSON of the value serde; bytes as base64."},
        "timestamp": {"type": timestamp, "description": "Milliseconds since 1970; -1: unknown."},
        "headers": {
            "type": "array",
            "items": ref("Header"),
        },
    }


def _rows() -> dict[str, Any]:
    """The row of a key, alone and in a list."""
    members = {**_KEY, **_value_members("integer")}
    status = {"enum": ["FOUND", "ABSENT", "FAILED"]}
    by_key = {"partition": {"type": "integer"}, "status": status, "failure": ref("Failure")}
    return {
        "Row": _object({**members, **_INDEX_KEY}, "key", "value"),
        "PointRow": _object({**members, **_LINES}, "key", "value"),
        "KeyResult": _object({**members, **by_key}, "key", "partition", "status"),
        "Rows": _paged("Row"),
        "Header": _object({"key": TEXT, "value": _NULLABLE_TEXT}, "key", "value"),
        "Line": {"anyOf": [ref(name) for name in _LINE_KINDS]},
    }


def _timed_rows() -> dict[str, Any]:
    """Windows, sessions and versions, alone and in a list."""
    time = {
        "type": ["integer", "string"],
        "description": "Milliseconds since 1970; with times=rfc3339 a text, where one can say it.",
    }
    sequence = {"type": "integer", "description": "Tells the rows of a window apart."}
    value = _value_members(["integer", "string"])
    window = {**_KEY, "windowStart": time, "windowEnd": time, "sequence": sequence, **value}
    session = {**_KEY, "sessionStart": time, "sessionEnd": time, **value}
    still = {**time, "type": [*time["type"], "null"]}  # Null: the latest version.
    version = {**_KEY, "validFrom": time, "validTo": still, "value": value["value"]}
    schemas: dict[str, Any] = {}
    for name, members, times in (
        ("WindowRow", window, ("windowStart", "windowEnd")),
        ("SessionRow", session, ("sessionStart", "sessionEnd")),
        ("VersionRow", version, ("validFrom", "validTo")),
    ):
        required = ("key", *times, "value")
        alone = _object({**members, **_LINES}, *required)
        schemas[name] = _object(members, *required)
        schemas[f"{name}Page"], schemas[f"{name}Alone"] = _paged(name), alone
        schemas[f"{name}s"] = {"anyOf": [ref(f"{name}Page"), ref(f"{name}Alone")]}
        schemas[f"{name}Line"] = {"anyOf": [ref(name), ref("Mark")]}
    return schemas


def _answers() -> dict[str, Any]:
    of_mark = {"partition": {"type": "integer"}, "cursor": _NULLABLE_TEXT}
    return {
        "Position": {
            "type": "object",
            "description": "Topic, partition, offset (KIP-796).",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0},
            },
        },
        "Count": _object(
            {
                "count": {"type": ["integer", "null"]},
                "exact": {"type": "boolean"},
                "partitions": _COUNTS,
            },
            *("count", "exact", "partitions"),
        ),
        "Mark": {
            "description": "The line after a partition's rows; `cursor` goes on after them.",
            "allOf": [ref("PartitionAnswer"), {"type": "object", "properties": of_mark}],
            "required": ["partition", "end", "cursor"],
        },
    }


def _paged(row: str) -> dict[str, Any]:
    members = {
        "rows": {"type": "array", "items": ref(row)},
        "partitions": _COUNTS,
        "cursor": _NULLABLE_TEXT,
    }
    return _object(members, *members)


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}
