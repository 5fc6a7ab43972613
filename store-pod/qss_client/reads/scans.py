"""The pages of scans: ranges of keys, windows, sessions, versions. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from qss_client.reads.keys import (
    encoded_key,
    only_partition,
    partition_of_encoded,
    path_text,
)
from qss_client.reads.requests import (
    PAGE_ROWS,
    TABLE_ROWS,
    HttpRequest,
    ReadOptions,
    check_options,
    option_parameters,
    page_request,
    query_request,
)
from qss_client.reads.responses import (
    Row,
    SessionRow,
    VersionRow,
    WindowRow,
    row_of,
    session_row_of,
    version_row_of,
    window_row_of,
)
from qss_core.errors import MalformedRequestError, NullKeyError
from qss_core.model import StoreDefinition
from qss_core.serdes.registry import serde_of

RowType = TypeVar("RowType")
Time = int | str  # Milliseconds since 1970, RFC 3339, or a date.
# Makes the request of a page from the store, the most rows, and the cursor of the last page.
MakePage = Callable[[StoreDefinition, int, str | None], HttpRequest]


@dataclass(frozen=True, slots=True)
class Scan(Generic[RowType]):
    """Makes the requests for pages, and the rows of their answers."""

    request: MakePage
    row_of: Callable[[Mapping[str, Any]], RowType]
    rows_max: int = TABLE_ROWS  # A page by time is merged in the pod's memory.


def scan_keys(
    bounds: Mapping[str, Any], order: str, partitions: Sequence[int] | None, options: ReadOptions
) -> Scan[Row]:
    """A range (`from`, `to`), a prefix (`prefix`) or everything. Raises NullKeyError."""
    if bounds.get("prefix", "") is None:
        raise NullKeyError("prefix is None: to read all keys, call range() without bounds")

    def request(definition: StoreDefinition, limit: int, cursor: str | None) -> HttpRequest:
        return page_request(
            definition,
            bounds,
            order=order,
            limit=limit,
            cursor=cursor,
            partitions=partitions,
            options=options,
        )

    return Scan(request, row_of)


def scan_range(
    bounds: tuple[Any, Any],
    index: str | None,
    order: str,
    partitions: Sequence[int] | None,
    options: ReadOptions,
) -> Scan[Row]:
    """Rows between two inclusive bounds of the key, or of an index's keys; None is open."""
    lower, upper = bounds
    if index is None:
        return scan_keys({"from": lower, "to": upper}, order, partitions, options)
    query = {"type": "IndexQuery", "index": index, "lower": lower, "upper": upper, "order": order}

    def request(definition: StoreDefinition, limit: int, cursor: str | None) -> HttpRequest:
        return query_request(
            definition,
            query,
            partitions,
            options,
            execution_info=False,
            limit=limit,
            cursor=cursor,
        )

    return Scan(request, row_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Windows or sessions of a key, or of all keys between two; times by parameter.

    `order_by` is "key" (partition by partition) or "time" (merged over all).
    """

    times: Mapping[str, Time | None]
    key: Any = None
    key_from: Any = None
    key_to: Any = None
    order: str = "ASCENDING"
    order_by: str = "key"
    partitions: Sequence[int] | None = None
    options: ReadOptions

    def __post_init__(self) -> None:
        """Raises MalformedRequestError for options of many keys beside a single key."""
        check_options(self.options)
        others = (self.key_from, self.key_to, self.partitions)
        if self.key is not None and (self.order_by != "key" or any(o is not None for o in others)):
            raise MalformedRequestError(
                "the rows of one key are in one partition, in order of time: leave out key_from, "
                "key_to, order_by and partitions"
            )

    @property
    def rows_max(self) -> int:
        """The most rows that a page may have."""
        return TABLE_ROWS if self.order_by == "key" else PAGE_ROWS


def scan_windows(timed: Timed) -> Scan[WindowRow]:
    """Windows whose start is between `from` and `to`, inclusive."""
    return Scan(_timed_page("windows", timed), window_row_of, timed.rows_max)


def scan_sessions(timed: Timed) -> Scan[SessionRow]:
    """Sessions by `endFrom` (end then or later) and `startTo` (start then or earlier)."""
    return Scan(_timed_page("sessions", timed), session_row_of, timed.rows_max)


def _timed_page(what: str, timed: Timed) -> MakePage:
    def request(definition: StoreDefinition, limit: int, cursor: str | None) -> HttpRequest:
        times = {name: str(time) for name, time in timed.times.items() if time is not None}
        parameters = {
            **times,
            **option_parameters(timed.options),
            "order": timed.order,
            "limit": str(limit),
        }
        if cursor is not None:
            parameters["cursor"] = cursor
        if timed.key is not None:
            return _of_key(what, definition, timed, parameters)
        return _of_keys(what, definition, timed, parameters)

    return request


def _of_key(
    what: str, definition: StoreDefinition, timed: Timed, parameters: dict[str, str]
) -> HttpRequest:
    encoded = encoded_key(definition, timed.key)
    partition = partition_of_encoded(definition, encoded, timed.options.partition)
    text = path_text(definition, encoded)
    path = f"/state/{what}/{definition.name}"
    if text is None:  # A path cannot hold the key: it becomes a range of one key.
        shown = serde_of(definition.key_serde).key_to_text(encoded)
        parameters.pop("partition", None)
        parameters |= {"keyFrom": shown, "keyTo": shown, "partitions": str(partition)}
    else:
        path += f"/{quote(text, safe='')}"
    return HttpRequest(
        method="GET",
        path=path,
        parameters=parameters,
        partition=partition,
        timeout_s=timed.options.timeout_s,
    )


def scan_versions(
    key: Any, bounds: tuple[Time | None, Time | None], order: str, options: ReadOptions
) -> Scan[VersionRow]:
    """Versions of a key that were valid between two inclusive times; None is open."""
    first, last = bounds

    def request(definition: StoreDefinition, limit: int, cursor: str | None) -> HttpRequest:
        times = {"from": first, "to": last, "cursor": cursor}
        given = {name: str(time) for name, time in times.items() if time is not None}
        given |= {"order": order, "limit": str(limit)}
        found = one_request("versions", definition, key, given, options)
        if found is not None:
            return found
        query = {
            "type": "MultiVersionedKeyQuery",
            "key": key,
            "fromTime": first,
            "toTime": last,
            "order": order,
        }
        return version_query(definition, query, options, limit=limit, cursor=cursor)

    return Scan(request, version_row_of)


def version_query(
    definition: StoreDefinition,
    query: Mapping[str, Any],
    options: ReadOptions,
    *,
    limit: int | None = None,
    cursor: str | None = None,
) -> HttpRequest:
    """A query of versions in a body, for a key that a path cannot hold."""
    request = query_request(
        definition, query, None, options, execution_info=False, limit=limit, cursor=cursor
    )
    encoded = encoded_key(definition, query["key"])
    partition = partition_of_encoded(definition, encoded, options.partition)
    return replace(request, partition=partition)


def _of_keys(
    what: str, definition: StoreDefinition, timed: Timed, parameters: dict[str, str]
) -> HttpRequest:
    serde = serde_of(definition.key_serde)
    for name, key in (("keyFrom", timed.key_from), ("keyTo", timed.key_to)):
        if key is not None:
            parameters[name] = serde.key_to_text(encoded_key(definition, key))
    if timed.order_by != "key":
        parameters["orderBy"] = timed.order_by
    if timed.partitions is not None:
        parameters["partitions"] = ",".join(str(partition) for partition in timed.partitions)
    return HttpRequest(
        method="GET",
        path=f"/state/{what}/{definition.name}",
        parameters=parameters,
        partition=only_partition(definition, timed.partitions),
        timeout_s=timed.options.timeout_s,
    )


def one_request(
    what: str,
    definition: StoreDefinition,
    key: Any,
    exact: Mapping[str, Time],
    options: ReadOptions,
) -> HttpRequest | None:
    """The request for one window (`start`), session (`start`, `end`), or versions of one key.

    None if a path cannot hold the key.
    """
    check_options(options)
    encoded = encoded_key(definition, key)
    text = path_text(definition, encoded)
    if text is None:
        return None
    times = {name: str(time) for name, time in exact.items()}
    return HttpRequest(
        method="GET",
        path=f"/state/{what}/{definition.name}/{quote(text, safe='')}",
        parameters={**times, **option_parameters(options)},
        partition=partition_of_encoded(definition, encoded, options.partition),
        timeout_s=options.timeout_s,
    )
