"""The parameters of a GET under `/state`: their table, and how they are parsed.

The OpenAPI document is made from the table that requests are checked against.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import unquote_plus

from qss_core.errors import (
    MalformedRequestError,
    UnknownParameterError,
)
from qss_core.model import PARTITIONS_MAX, Isolation, PartitionId
from qss_core.positions import Position, parse_bound
from qss_core.queries.requests import BatchRequest, QueryRequest
from qss_core.queries.types import Order

UNBOUNDED = Position.empty()
TIMEOUT_S = 10.0
TIMEOUT_S_MAX = 60.0
_TRUTH = {"true": True, "false": False}
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_WHOLE_DIGITS_MAX = 9
_SEQUENCE = re.compile("[0-9]{1,16}")
_WHOLE = re.compile(f"[0-9]{{1,{_WHOLE_DIGITS_MAX}}}")

Choice = TypeVar("Choice", bound=StrEnum)
Default = TypeVar("Default", float, None)


class Scope(StrEnum):
    """Whether a pod may ask other pods."""

    ALL = "all"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: its description and its JSON schema."""

    description: str
    schema: dict[str, Any]


PARAMETERS: dict[str, Parameter] = {
    "positionBound": Parameter(
        description="Answer only from a state at or after this position: the token of an answer.",
        schema={"type": "string"},
    ),
    "requireActive": Parameter(
        description="Answer only from the active replica.",
        schema={"type": "boolean", "default": False},
    ),
    "isolation": Parameter(
        description="Which rows are seen; by default as the store says. READ_UNCOMMITTED: also "
        "those that the open batch of each writer has staged. Position, sequence and a position "
        "bound are about the committed ones. Counts that are not exact are of committed rows.",
        schema={"type": "string", "enum": [level.value for level in Isolation]},
    ),
    "timeout": Parameter(
        description="Seconds for the whole answer; for a stream, for a partition to begin.",
        schema={
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": TIMEOUT_S_MAX,
            "default": TIMEOUT_S,
        },
    ),
    "maxStaleness": Parameter(
        description="Seconds since the replica last was level with its active, at most.",
        schema={"type": "number", "minimum": 0},
    ),
    "executionInfo": Parameter(
        description="Say which layers answered, in how many nanoseconds.",
        schema={"type": "boolean", "default": False},
    ),
    "scope": Parameter(
        description="`local`: this pod's replicas alone, no other pod is asked.",
        schema={"type": "string", "enum": [scope.value for scope in Scope], "default": "all"},
    ),
    "partition": Parameter(
        description="The key's partition, in a store whose partitioner is Explicit.",
        schema={"type": "integer", "minimum": 0},
    ),
    "partitions": Parameter(
        description="Only these partitions: numbers with commas between.",
        schema={"type": "string", "pattern": "^[0-9]+(,[0-9]+)*$"},
    ),
    "exact": Parameter(
        description="Count every row. By default the count is RocksDB's estimate, which counts a "
        "key again each time that it is written, until a compaction.",
        schema={"type": "boolean", "default": False},
    ),
    "from": Parameter(
        description="The smallest key, inclusive, as the text of its serde.",
        schema={"type": "string"},
    ),
    "to": Parameter(
        description="The largest key, inclusive, as the text of its serde.",
        schema={"type": "string"},
    ),
    "prefix": Parameter(
        description="Only keys that start so; not together with from and to.",
        schema={"type": "string"},
    ),
    "order": Parameter(
        description="The order in each partition, by serialized key. ANY is ascending.",
        schema={"type": "string", "enum": [order.value for order in Order], "default": "ANY"},
    ),
    "limit": Parameter(
        description="Rows, at most. JSON: 1000 where none is given; NDJSON: no limit.",
        schema={"type": "integer", "minimum": 1},
    ),
    "after": Parameter(
        description="Only batches with a higher sequence.",
        schema={"type": "integer", "minimum": 0, "maximum": 2**53, "default": 0},
    ),
    "cursor": Parameter(
        description="Go on where an earlier answer to the same query stopped.",
        schema={"type": "string"},
    ),
}

_COMMON = (
    "positionBound",
    "requireActive",
    "isolation",
    "timeout",
    "maxStaleness",
    "executionInfo",
    "scope",
)
POINT_PARAMETERS = (*_COMMON, "partition")
PARTITIONS_PARAMETERS = (*_COMMON, "partitions")
COUNT_PARAMETERS = (*PARTITIONS_PARAMETERS, "exact")
SCAN_PARAMETERS = (*PARTITIONS_PARAMETERS, "from", "to", "prefix", "order", "limit", "cursor")
BODY_PARAMETERS = ("scope",)
STATUS_PARAMETERS = ("scope",)
BATCHES_PARAMETERS = ("scope", "after")
KEY_METADATA_PARAMETERS = ("partition",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of every read."""

    bound: Position = UNBOUNDED
    require_active: bool = False
    isolation: Isolation | None = None
    timeout_s: float = TIMEOUT_S
    max_staleness_s: float | None = None
    execution_info: bool = False
    scope: Scope = Scope.ALL
    partitions: tuple[PartitionId, ...] | None = None  # In order, without repeats.
    partition: PartitionId | None = None

    def __post_init__(self) -> None:
        """Raises MalformedRequestError for options out of range."""
        if not 0 < self.timeout_s <= TIMEOUT_S_MAX:
            raise MalformedRequestError(f"timeout: above 0 and up to {TIMEOUT_S_MAX:g} seconds")
        if self.max_staleness_s is not None and not 0 <= self.max_staleness_s < math.inf:
            raise MalformedRequestError("maxStaleness: 0 or more seconds")


_DEFAULTS = ReadOptions()


# --- From a query string


def parse_parameters(query_string: str, allowed: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a query string, decoded once: `+` is a space.

    Raises UnknownParameterError for a name that is not allowed, and MalformedRequestError for one
    that comes twice or is not UTF-8.
    """
    if not query_string:
        return {}
    found: dict[str, str] = {}
    for part in query_string.split("&"):
        name, _, value = part.partition("=")
        if name not in allowed:
            name = _unquote(name, "a parameter's name")
        if name not in allowed:
            raise UnknownParameterError(
                f"unknown parameter {name[:80]!r}: this request has {', '.join(allowed) or 'none'}",
                parameter=name[:80],
                allowed=list(allowed),
            )
        if name in found:
            raise MalformedRequestError(f"{name} is given twice")
        found[name] = _unquote(value, name)
    return found


def _unquote(text: str, what: str) -> str:
    try:
        decoded = unquote_plus(text, errors="strict")
        decoded.encode()
    except UnicodeError as error:
        raise MalformedRequestError(f"{what} is not UTF-8") from error
    return decoded


def options_of(parameters: dict[str, str]) -> ReadOptions:
    """The options in the parameters. Raises MalformedRequestError."""
    if not parameters:
        return _DEFAULTS
    return ReadOptions(
        bound=parse_bound(parameters["positionBound"])
        if "positionBound" in parameters
        else UNBOUNDED,
        require_active=truth_of("requireActive", parameters),
        isolation=one_of(Isolation, "isolation", parameters),
        timeout_s=_number("timeout", parameters, TIMEOUT_S),
        max_staleness_s=_number("maxStaleness", parameters, None),
        execution_info=truth_of("executionInfo", parameters),
        scope=scope_of(parameters),
        partitions=_partitions(parameters["partitions"]) if "partitions" in parameters else None,
        partition=_partition(parameters["partition"]) if "partition" in parameters else None,
    )


def order_of(parameters: dict[str, str]) -> Order:
    return one_of(Order, "order", parameters) or Order.ANY


def is_exact(parameters: dict[str, str]) -> bool:
    """Whether the parameters ask for an exact count."""
    return truth_of("exact", parameters)


def limit_of(parameters: dict[str, str]) -> int | None:
    """The limit in the parameters, unchecked."""
    return _whole("limit", parameters["limit"]) if "limit" in parameters else None


def sequence_after(parameters: dict[str, str]) -> int:
    """The sequence after which batches are asked for; 0 if none is given."""
    text = parameters.get("after", "0")
    if not _SEQUENCE.fullmatch(text):
        raise MalformedRequestError(
            f"after is a sequence, a whole number of at most 16 digits, not {text[:40]!r}"
        )
    return int(text)


def truth_of(name: str, parameters: dict[str, str]) -> bool:
    """Whether a parameter is true; an absent one is false."""
    text = parameters.get(name, "false")
    if text not in _TRUTH:
        raise MalformedRequestError(f"{name} is true or false, not {text[:40]!r}")
    return _TRUTH[text]


def one_of(kind: type[Choice], name: str, parameters: dict[str, str]) -> Choice | None:
    """The choice that a parameter names; None if it is absent."""
    text = parameters.get(name)
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError as error:
        names = ", ".join(choice.value for choice in kind)
        raise MalformedRequestError(f"{name} is one of {names}, not {text[:40]!r}") from error


def _number(name: str, parameters: dict[str, str], default: Default) -> float | Default:
    text = parameters.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise MalformedRequestError(
            f"{name} is a number of seconds, of at most nine digits before the point, not "
            f"{text[:40]!r}"
        )
    return float(text)


def _whole(name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise MalformedRequestError(
            f"{name} is a whole number of at most {_WHOLE_DIGITS_MAX} digits, not {text[:40]!r}"
        )
    return int(text)


def _partition(text: str) -> PartitionId:
    return PartitionId(_whole("partition", text))


def _partitions(text: str) -> tuple[PartitionId, ...]:
    return partitions_of([_whole("partitions", number) for number in text.split(",")])


# --- From a body


def options_of_body(request: QueryRequest | BatchRequest, scope: Scope) -> ReadOptions:
    """The options in a body. Raises MalformedRequestError."""
    partitions = request.partitions if isinstance(request, QueryRequest) else None
    if request.partition is not None and request.partition < 0:
        raise MalformedRequestError("partition: a number from 0")
    return ReadOptions(
        bound=UNBOUNDED if request.position_bound is None else parse_bound(request.position_bound),
        require_active=request.require_active,
        isolation=request.isolation,
        timeout_s=TIMEOUT_S if request.timeout is None else request.timeout,
        max_staleness_s=request.max_staleness,
        execution_info=request.execution_info,
        scope=scope,
        partitions=None if partitions is None else partitions_of(partitions),
        partition=None if request.partition is None else PartitionId(request.partition),
    )


def scope_of(parameters: dict[str, str]) -> Scope:
    return one_of(Scope, "scope", parameters) or Scope.ALL


def partitions_of(numbers: Iterable[int]) -> tuple[PartitionId, ...]:
    """Partition numbers in order, each once; they may exceed those of the store."""
    distinct = sorted(set(numbers))
    if distinct and (distinct[0] < 0 or len(distinct) > PARTITIONS_MAX):
        raise MalformedRequestError(f"partitions: up to {PARTITIONS_MAX} numbers from 0")
    return tuple(PartitionId(number) for number in distinct)
