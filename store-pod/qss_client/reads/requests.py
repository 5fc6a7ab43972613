"""Builds requests: paths, parameters, bodies, and the partition that answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from qss_client.arguments import (
    check_choice,
    check_limit,
    check_seconds,
    check_text,
    is_whole_number,
    shown_value,
)
from qss_client.reads.keys import (
    encoded_key,
    only_partition,
    partition_of_encoded,
    path_text,
)
from qss_core.errors import MalformedRequestError, StoreError
from qss_core.formats.values import Format
from qss_core.model import Isolation, PartitionId, StoreDefinition
from qss_core.positions import Position, decode_token, encode_token, parse_bound
from qss_core.serdes.registry import serde_of

LINE_KEYS_MAX = 4096  # Characters of keys and cursor; a bound takes up to 24 KiB of 32.
PAGE_ROWS = 10_000
TABLE_ROWS = 100_000  # Rows of a page as an Arrow table.
BATCH_KEYS_MAX = 1000
# The range queries for whole rows; PlainWithHeaders has none.
_RANGE_OF_ALL = {
    Format.Plain: "RangeQuery",
    Format.Timestamped: "TimestampedRangeQuery",
    Format.TimestampedWithHeaders: "TimestampedRangeWithHeadersQuery",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of every read.

    position_bound: the answer is at least as new as this position, its token, or its JSON
        (topic -> partition -> offset). Other values raise MalformedRequestError.
    require_active: only the partition's active may answer.
    isolation: READ_UNCOMMITTED also reads rows that are staged and not committed yet; None: the
        store's `spec.isolation`.
    partition: the key's partition, for stores whose writer chose it (partitioner Explicit).
    timeout_s: the seconds in which the store has to answer; the client's `RetryLimits` apply to a
        store that cannot be reached.
    max_staleness_s: a standby may answer if it was level with its active within so many seconds;
        others raise TooStaleError. None: any standby may answer.
    """

    position_bound: Position | str | Mapping[str, Mapping[str, int] | Mapping[int, int]] | None = (
        None
    )
    require_active: bool = False
    isolation: Isolation | None = None
    partition: int | None = None
    timeout_s: float = 10.0
    max_staleness_s: float | None = None

    def __post_init__(self) -> None:
        """Raises MalformedRequestError for values that no request can have."""
        check_choice("require_active", self.require_active)
        check_seconds("timeout_s", self.timeout_s, least=0)
        if self.max_staleness_s is not None:
            check_seconds("max_staleness_s", self.max_staleness_s, least=0)
        if self.isolation is not None and self.isolation not in tuple(Isolation):
            raise MalformedRequestError(
                f"isolation: {' or '.join(Isolation)}, not {shown_value(self.isolation)}"
            )
        if self.partition is not None and not is_whole_number(self.partition):
            raise MalformedRequestError(
                f"partition: a whole number, not {shown_value(self.partition)}"
            )

    @property
    def bound(self) -> Position | None:
        given = self.position_bound
        if given is None or isinstance(given, Position):
            return given
        if isinstance(given, Mapping):
            given = {
                topic: {str(partition): offset for partition, offset in offsets.items()}
                if isinstance(offsets, Mapping)
                else offsets
                for topic, offsets in given.items()
            }
        return parse_bound(given)


DEFAULTS = ReadOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request; the active of `partition` is asked first, None: any pod.

    after: the failure inside the answer to this request, which is therefore repeated.
    is_point: whether it reads one key, which is quick wherever the pod works.
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    partition: PartitionId | None = None
    timeout_s: float = DEFAULTS.timeout_s
    after: StoreError | None = None
    accept: str | None = None  # None: the default content type.
    none_match: str | None = None  # The ETag of a state; the answer is 304 while it is the newest.
    is_point: bool = False

    @property
    def requires_active(self) -> bool:
        """Whether only the active of its partition may answer."""
        members: Mapping[str, Any] = self.parameters if self.body is None else self.body
        return str(members.get("requireActive", "")).lower() == "true"

    @property
    def target(self) -> str:
        query = urlencode(self.parameters)
        return f"{self.path}?{query}" if query else self.path

    @property
    def data(self) -> bytes | None:
        """The body as JSON. Raises MalformedRequestError for values that JSON does not have."""
        if self.body is None:
            return None
        try:
            return json.dumps(self.body, allow_nan=False).encode()
        except RecursionError as error:
            raise MalformedRequestError("the request is nested too deeply for JSON") from error
        except (TypeError, ValueError) as error:
            raise MalformedRequestError(f"the request cannot be JSON: {error}") from error

    @property
    def headers(self) -> dict[str, str] | None:
        """The headers that the body, `accept` and `none_match` need."""
        headers = {} if self.body is None else {"Content-Type": "application/json"}
        if self.accept is not None:
            headers["Accept"] = self.accept
        if self.none_match is not None:
            headers["If-None-Match"] = self.none_match
        return headers or None

    def bounded(self, position: Position | None) -> "HttpRequest":
        """The request with this position bound merged into its own."""
        if position is None or not position.topics:
            return self
        members: Mapping[str, Any] = self.parameters if self.body is None else self.body
        if "positionBound" in members:
            position = decode_token(members["positionBound"]).merge(position)
        bound = {**members, "positionBound": encode_token(position)}
        return replace(self, parameters=bound) if self.body is None else replace(self, body=bound)


def check_options(options: object) -> None:
    """Raises MalformedRequestError for any other type."""
    if not isinstance(options, ReadOptions):
        raise MalformedRequestError(
            f"options: a ReadOptions, as ReadOptions(timeout_s=3), not {options!r}"
        )


def get_request(definition: StoreDefinition, key: Any, options: ReadOptions) -> HttpRequest:
    """A point query; it uses `POST /state/get` if the key cannot be in a path."""
    check_options(options)
    encoded = encoded_key(definition, key)
    partition = partition_of_encoded(definition, encoded, options.partition)
    text = path_text(definition, encoded)
    if text is None:
        return many_request(definition, [key], options, partition)
    return HttpRequest(
        method="GET",
        path=f"/state/stores/{definition.name}/{quote(text, safe='')}",
        parameters=option_parameters(options),
        partition=partition,
        timeout_s=options.timeout_s,
        is_point=True,
    )


def many_request(
    definition: StoreDefinition,
    keys: Sequence[Any],
    options: ReadOptions,
    partition: PartitionId | None = None,
) -> HttpRequest:
    """A batch get of at most BATCH_KEYS_MAX keys."""
    check_options(options)
    return HttpRequest(
        method="POST",
        path=f"/state/get/{definition.name}",
        body={"keys": list(keys), **_members(options)},
        partition=partition,
        timeout_s=options.timeout_s,
    )


def page_request(
    definition: StoreDefinition,
    bounds: Mapping[str, Any],
    *,
    order: str,
    limit: int,
    cursor: str | None,
    partitions: Sequence[int] | None,
    options: ReadOptions,
) -> HttpRequest:
    """The request for one page of a range (`from`, `to`), a prefix (`prefix`) or a scan.

    Keys that are too long for a line go to `POST /state/query`, which returns the same rows.
    """
    check_options(options)
    serde = serde_of(definition.key_serde)
    given = {name: value for name, value in bounds.items() if value is not None}
    texts = {
        name: serde.key_to_text(serde.encode(serde.from_json(value)))
        for name, value in given.items()
    }
    if sum(map(len, (*texts.values(), cursor or ""))) > LINE_KEYS_MAX:
        return query_request(
            definition,
            _range_query(definition, given, order),
            partitions,
            options,
            execution_info=False,
            limit=limit,
            cursor=cursor,
        )
    parameters = {**texts, "order": order, "limit": str(limit), **option_parameters(options)}
    if cursor is not None:
        parameters["cursor"] = cursor
    only = only_partition(definition, partitions)
    if partitions is not None:
        parameters["partitions"] = ",".join(str(partition) for partition in partitions)
    return HttpRequest(
        method="GET",
        path=f"/state/stores/{definition.name}",
        parameters=parameters,
        partition=only,
        timeout_s=options.timeout_s,
    )


def _range_query(
    definition: StoreDefinition, bounds: Mapping[str, Any], order: str
) -> dict[str, Any]:
    if "prefix" in bounds:
        return {"type": "PrefixQuery", "prefix": bounds["prefix"], "order": order}
    kind = _RANGE_OF_ALL[Format(definition.format)]
    return {
        "type": kind,
        "lower": bounds.get("from"),
        "upper": bounds.get("to"),
        "order": order,
    }


def query_members(
    kind: str, fields: Mapping[str, Any], members: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The `query` of an IQv2 request from its type and its fields."""
    check_text("type", kind)
    if not isinstance(members, Mapping | None):
        raise MalformedRequestError(
            f'members: a dict as {{"lower": "a"}}, not {shown_value(members)}'
        )
    return {**fields, **(members or {}), "type": kind}


def query_request(
    definition: StoreDefinition,
    query: Mapping[str, Any],
    partitions: Sequence[int] | None,
    options: ReadOptions,
    *,
    execution_info: bool,
    limit: int | None = None,
    times: str | None = None,
    cursor: str | None = None,
) -> HttpRequest:
    """A whole IQv2 request (KIP-796)."""
    check_options(options)
    check_limit(limit)
    check_choice("execution_info", execution_info)
    body: dict[str, Any] = {"query": dict(query), **_members(options)}
    if times is not None:
        body["times"] = times
    if limit is not None:
        body["limit"] = limit
    if cursor is not None:
        body["cursor"] = cursor
    only = only_partition(definition, partitions)
    if partitions is not None:
        body["partitions"] = list(partitions)
    if execution_info:
        body["executionInfo"] = True
    return HttpRequest(
        method="POST",
        path=f"/state/query/{definition.name}",
        body=body,
        partition=only,
        timeout_s=options.timeout_s,
    )


def count_request(
    definition: StoreDefinition,
    options: ReadOptions,
    *,
    exact: bool = False,
    partitions: Sequence[int] | None = None,
) -> HttpRequest:
    """A request for the number of rows, estimated or exact."""
    check_options(options)
    check_choice("exact", exact)
    only = only_partition(definition, partitions)
    parameters = option_parameters(options)
    if exact:
        parameters["exact"] = "true"
    if partitions is not None:
        parameters["partitions"] = ",".join(str(partition) for partition in partitions)
    return HttpRequest(
        method="GET",
        path=f"/state/count/{definition.name}",
        parameters=parameters,
        partition=only,
        timeout_s=options.timeout_s,
    )


def option_parameters(options: ReadOptions) -> dict[str, str]:
    return {name: _text(value) for name, value in _members(options).items()}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")  # Without an exponent.
    return str(value)


def _members(options: ReadOptions) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if (bound := options.bound) is not None:
        members["positionBound"] = encode_token(bound)
    if options.require_active:
        members["requireActive"] = True
    if options.isolation is not None:
        members["isolation"] = Isolation(options.isolation).value
    if options.partition is not None:
        members["partition"] = options.partition
    if options.timeout_s != DEFAULTS.timeout_s:
        members["timeout"] = options.timeout_s
    if options.max_staleness_s is not None:
        members["maxStaleness"] = options.max_staleness_s
    return members
