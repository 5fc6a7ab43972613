"""The client's operations as exchanges: each yields requests and returns a value.

A shell (sync or async) sends each request and passes the answer in. It repeats failed requests by
the rules of `retries`, and throws the failure into the exchange when these rules stop. If an answer
has a failure inside, the exchange yields the request again, with that failure.
"""

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from qss_client.http.answer import POSITION_HEADER, HttpAnswer
from qss_client.reads.json_values import JsonReader
from qss_client.reads.requests import (
    BATCH_KEYS_MAX,
    PAGE_ROWS,
    HttpRequest,
    ReadOptions,
    count_request,
    get_request,
    many_request,
)
from qss_client.reads.responses import (
    NewerRow,
    Row,
    SessionRow,
    StateQueryResult,
    VersionRow,
    WindowRow,
    failure_of,
    merged,
    read_query_answer,
    row_of,
    session_row_of,
    version_row_of,
    window_row_of,
)
from qss_client.reads.scans import (
    RowType,
    Scan,
    Time,
    Timed,
    one_request,
    scan_sessions,
    scan_windows,
    version_query,
)
from qss_client.reads.session import SessionState
from qss_client.reads.tables import ARROW, joined, read_stream
from qss_core.errors import KeyNotFoundError, UnknownQueryTypeError
from qss_core.model import StoreDefinition
from qss_core.positions import Position, parse_bound
from qss_core.times import time_of_json

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")
Exchange = Generator[HttpRequest, HttpAnswer, Result]


@dataclass(frozen=True, slots=True)
class Page(Generic[RowType]):
    """The rows of one page of a scan, and the cursor for the next page; None at the end."""

    rows: tuple[RowType, ...]
    cursor: str | None


def get(
    state: SessionState, definition: StoreDefinition, key: Any, options: ReadOptions
) -> Exchange[Row | None]:
    """The key's row; None if its partition answered that there is none."""
    request = get_request(definition, key, options)
    if request.method == "POST":  # The key cannot be in a path.
        rows = yield from _get_some(state, definition, [key], options)
        return rows[0]
    found = yield from _one(state, request)
    return None if found is None else row_of(found)


def get_newer(
    state: SessionState,
    definition: StoreDefinition,
    key: Any,
    etag: str | None,
    options: ReadOptions,
) -> Exchange[NewerRow | None]:
    """The key's row; None if its partition still has the state that `etag` names."""
    request = get_request(definition, key, options)
    if request.method == "POST":  # Answers to many keys have no ETag.
        rows = yield from _get_some(state, definition, [key], options)
        return NewerRow(rows[0], None)
    try:
        answer = yield replace(request, none_match=etag)
    except KeyNotFoundError as error:
        state.saw_token(error.details.get(POSITION_HEADER))
        return NewerRow(None, None)
    state.saw_token(answer.headers.get(POSITION_HEADER))
    if answer.status == 304:
        return None
    return NewerRow(row_of(state.read(answer.body)), answer.headers.get("etag"))


def get_many(
    state: SessionState,
    definition: StoreDefinition,
    keys: Sequence[Any],
    options: ReadOptions,
) -> Exchange[list[Row | None]]:
    """The keys' rows, in their order; raises the first failure."""
    rows: list[Row | None] = []
    for start in range(0, len(keys), BATCH_KEYS_MAX):
        some = keys[start : start + BATCH_KEYS_MAX]
        rows += yield from _get_some(state, definition, some, options)
    return rows


def _get_some(
    state: SessionState,
    definition: StoreDefinition,
    keys: Sequence[Any],
    options: ReadOptions,
) -> Exchange[list[Row | None]]:
    request = many_request(definition, keys, options)
    document = yield from _whole(state, request, lambda document: document["results"])
    _saw_partitions(state, document)
    return [row_of(one) if one["status"] == "FOUND" else None for one in document["results"]]


def many_table(
    state: SessionState,
    definition: StoreDefinition,
    keys: Sequence[Any],
    options: ReadOptions,
) -> "Exchange[pa.Table]":
    """A row for each key, in their order, as an Arrow table; raises the first failure."""
    tables: list[pa.Table] = []
    for start in range(0, max(1, len(keys)), BATCH_KEYS_MAX):
        some = keys[start : start + BATCH_KEYS_MAX]
        request = replace(many_request(definition, some, options), accept=ARROW)
        document = yield from _whole(state, request, failed_keys, read_stream)
        _saw_partitions(state, document)
        tables.append(document["table"].drop_columns(["failure"]))
    return joined(tables)


def failed_keys(document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The failures in a batch get's table, in the form of a JSON answer."""
    failures = document["table"].column("failure").drop_null().to_pylist()
    return ({"failure": json.loads(failure)} for failure in failures)


def page(
    state: SessionState,
    definition: StoreDefinition,
    scan: Scan[RowType],
    limit: int,
    cursor: str | None,
) -> Exchange[Page[RowType]]:
    """Reads one page of a scan; raises a partition's failure."""
    request = scan.request(definition, limit, cursor)
    if request.method == "POST":  # The key cannot be in a path.
        results = yield from _results(state, request)
        parts = results["partitionResults"].values()
        document = {**results, "rows": [row for one in parts for row in one["result"]]}
    else:
        document = yield from _whole(
            state, request, lambda document: document["partitions"].values()
        )
        _saw_partitions(state, document)
    return Page(tuple(scan.row_of(row) for row in document["rows"]), document.get("cursor"))


def table_page(
    state: SessionState,
    definition: StoreDefinition,
    scan: Scan[Any],
    limit: int,
    cursor: str | None,
) -> "Exchange[tuple[pa.Table, str | None]]":
    """Reads one page of a scan as an Arrow table, and its cursor; raises a partition's failure.

    A page without rows still has the columns, which are known only from a page.
    """
    request = replace(scan.request(definition, max(1, limit), cursor), accept=ARROW)
    document = yield from _whole(
        state, request, lambda document: document["partitions"].values(), read_stream
    )
    _saw_partitions(state, document)
    if limit == 0:
        return document["table"].slice(0, 0), None
    return document["table"], document["cursor"]


def window(
    state: SessionState,
    definition: StoreDefinition,
    key: Any,
    start: Time,
    options: ReadOptions,
) -> Exchange[WindowRow | None]:
    """The window of a key that starts at a time; None if there is none."""
    request = one_request("windows", definition, key, {"start": start}, options)
    if request is not None:
        found = yield from _one(state, request)
        return None if found is None else window_row_of(found)
    if definition.retain_duplicates:
        raise UnknownQueryTypeError(
            f"store {definition.name} retains duplicates: a window has many rows, ask for windows"
        )
    timed = Timed(key=key, times={"from": start, "to": start}, options=options)
    return (yield from _first(state, definition, scan_windows(timed), 1, lambda _: True))


def session(
    state: SessionState,
    definition: StoreDefinition,
    key: Any,
    bounds: tuple[Time, Time],
    options: ReadOptions,
) -> Exchange[SessionRow | None]:
    """The session of a key with exactly this start and end; None if there is none."""
    start, end = bounds
    request = one_request("sessions", definition, key, {"start": start, "end": end}, options)
    if request is not None:
        found = yield from _one(state, request)
        return None if found is None else session_row_of(found)
    timed = Timed(key=key, times={"endFrom": end, "startTo": start}, options=options)
    exact = time_of_json("start", start), time_of_json("end", end)
    # Sessions are ordered by their ends, so those with this end come first.
    scan = scan_sessions(timed)
    return (
        yield from _first(
            state, definition, scan, PAGE_ROWS, lambda row: (row.start, row.end) == exact
        )
    )


def _first(
    state: SessionState,
    definition: StoreDefinition,
    scan: Scan[RowType],
    rows_max: int,
    matches: Callable[[RowType], bool],
) -> Exchange[RowType | None]:
    """The first row that matches; it may be on a later page."""
    cursor = None
    while True:
        some = yield from page(state, definition, scan, rows_max, cursor)
        found = next((row for row in some.rows if matches(row)), None)
        cursor = some.cursor
        if found is not None or cursor is None:
            return found


def version(
    state: SessionState,
    definition: StoreDefinition,
    key: Any,
    as_of: Time | None,
    options: ReadOptions,
) -> Exchange[VersionRow | None]:
    """The version of a key that was valid at a time, or the latest; None: no value then."""
    exact = {} if as_of is None else {"asOf": as_of}
    request = one_request("versions", definition, key, exact, options)
    if request is not None:
        found = yield from _one(state, request)
    else:
        query = {"type": "VersionedKeyQuery", "key": key, "asOfTimestamp": as_of}
        results = yield from _results(state, version_query(definition, query, options))
        found = next(one["result"] for one in results["partitionResults"].values())
    return None if found is None else version_row_of(found)


def _results(state: SessionState, request: HttpRequest) -> Exchange[Mapping[str, Any]]:
    """The answer to an IQv2 request, without failures."""
    document: Mapping[str, Any] = yield from _whole(
        state, request, lambda document: document["partitionResults"].values()
    )
    state.saw(Position.from_json(document["position"]))
    return document


def _one(state: SessionState, request: HttpRequest) -> Exchange[Mapping[str, Any] | None]:
    try:
        answer = yield request
    except KeyNotFoundError as error:
        # A key that is absent in a state may be there in an older one.
        state.saw_token(error.details.get(POSITION_HEADER))
        return None
    state.saw_token(answer.headers.get(POSITION_HEADER))
    document: Mapping[str, Any] = state.read(answer.body)
    return document


def query(state: SessionState, request: HttpRequest) -> Exchange[StateQueryResult]:
    """Any query (`query_request`); a partition's failure is a value in the result."""
    answer = yield request
    result = read_query_answer(answer.body, request.body.get("limit"), state.read)
    state.saw(result.position)
    return result


def count(
    state: SessionState,
    definition: StoreDefinition,
    options: ReadOptions,
    *,
    exact: bool = False,
    partitions: Sequence[int] | None = None,
) -> Exchange[int]:
    """The number of rows, estimated or exact; raises a partition's failure."""
    request = count_request(definition, options, exact=exact, partitions=partitions)
    document = yield from _whole(state, request, lambda document: document["partitions"].values())
    _saw_partitions(state, document)
    counted: int = document["count"]
    return counted


def _whole(
    state: SessionState,
    request: HttpRequest,
    parts: Callable[[Any], Iterable[Mapping[str, Any]]],
    read: JsonReader | None = None,
) -> Exchange[Any]:
    """An answer without a failure in its parts; repeats the request while a part has one."""
    while True:
        answer = yield request
        document = (read or state.read)(answer.body)
        failed = next((part["failure"] for part in parts(document) if "failure" in part), None)
        if failed is None:
            return document
        request = replace(request, after=failure_of(failed))


def _saw_partitions(state: SessionState, document: Mapping[str, Any]) -> None:
    positions: list[Position] = [
        parse_bound(partition["position"])
        for partition in document.get("partitions", {}).values()
        if partition.get("position")
    ]
    state.saw(merged(positions))
