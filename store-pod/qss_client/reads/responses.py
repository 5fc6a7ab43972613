"""Parses a store's answers to values. Pure."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from qss_client.reads.json_values import JsonReader, read_json
from qss_core.errors import StoreError, TooLargeError
from qss_core.positions import Position, parse_bound
from qss_core.wire.messages import Problem, decode, error_of

Headers = tuple[tuple[str, str | None], ...]  # Values are base64.


@dataclass(frozen=True, slots=True)
class Row:
    """One row: key and value as JSON of their types, bytes as base64.

    With `decimal=True` the client returns a Decimal for each number with a point or an exponent.
    With `raw=True` it returns msgspec.Raw for key and value: `bytes(row.value)` is the store's
    JSON.

    `timestamp` (milliseconds since 1970) and `headers` are set if the store's format keeps them,
    `index_key` if an index was queried.
    """

    key: Any
    value: Any
    timestamp: int | None = None
    headers: Headers | None = None
    index_key: Any = None


@dataclass(frozen=True, slots=True)
class NewerRow:
    """A key's row in a newer state of its partition; `row` is None where the key is absent.

    `etag` names the state, for the next question; None where the pod gave no name.
    """

    row: Row | None
    etag: str | None


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One row of a window: `start <= t < end`, in milliseconds since 1970.

    `sequence` is set if the store retains duplicates; it distinguishes the rows of a window.
    """

    key: Any
    start: int
    end: int
    value: Any
    timestamp: int | None = None
    headers: Headers | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session: `start <= t <= end`, in milliseconds since 1970."""

    key: Any
    start: int
    end: int
    value: Any
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A version of a key: `valid_from <= t < valid_to`, in milliseconds since 1970.

    `valid_to` is None for the latest version.
    """

    key: Any
    value: Any
    valid_from: int
    valid_to: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition's answer to a query (KIP-796 QueryResult): a result or a failure."""

    partition: int
    result: Any = None
    failure: StoreError | None = None
    position: Position | None = None
    sequence: int | None = None
    served_by: str | None = None
    role: str | None = None
    epoch: int | None = None
    stream_time: int | None = None
    execution_info: tuple[str, ...] = ()
    end: bool | None = None  # Set for rows: whether they are all; False if a limit cut them off.

    @property
    def is_success(self) -> bool:
        """Whether there is a result; it may be None."""
        return self.failure is None

    def get_result(self) -> Any:
        """The result; raises the failure if there is one."""
        if self.failure is not None:
            raise self.failure
        return self.result


@dataclass(frozen=True, slots=True)
class StateQueryResult:
    """A query's answers by partition (KIP-796 StateQueryResult).

    cursor: continues with the rows that are left, also those of partitions without a result; None
    if no rows are left. Without a limit a query returns up to 1000 rows. limit: the limit of the
    query, or None.
    """

    partition_results: Mapping[int, PartitionResult]
    position: Position
    cursor: str | None = None
    limit: int | None = None

    def get_only_partition_result(self) -> PartitionResult | None:
        """The only result that is not null; None if there is none.

        Raises the first failure, which Kafka hides, ValueError for more than one result, and
        TooLargeError as `rows` does.
        """
        for result in self.partition_results.values():
            result.get_result()
        self._check_whole()
        present = [one for one in self.partition_results.values() if one.result is not None]
        if len(present) > 1:
            raise ValueError(f"{len(present)} partitions have a result: ask one, or read them all")
        return present[0] if present else None

    @property
    def failures(self) -> dict[int, StoreError]:
        """The failures of partitions without a result."""
        return {
            number: one.failure
            for number, one in self.partition_results.items()
            if one.failure is not None
        }

    def first(self) -> Any:
        """The first row, or the first result that is not a list; None if there is none.

        Results are in order of their partitions. Raises the first failure, and TooLargeError if
        rows are missing without a limit, as `rows` and `count` do.
        """
        return next(iter(self.rows()), None)

    def rows(
        self,
        key: Callable[[Any], Any] | None = None,
        *,
        reverse: bool = False,
        whole: bool = True,
    ) -> list[Any]:
        """The rows of all partitions: one partition after the other, or sorted by `key`.

        A result that is not a list (a point's row, a count) is one element. `whole=False` returns
        the present rows, for a caller that continues with `cursor`.
        """
        found: list[Any] = []
        for result in self._results(whole=whole):
            found += result if isinstance(result, list) else [result]
        return found if key is None else sorted(found, key=key, reverse=reverse)

    def count(self) -> int:
        """The number over all partitions: the sum of counts, or the number of rows."""
        return sum(
            one if isinstance(one, int) else len(one) if isinstance(one, list) else 1
            for one in self._results()
        )

    def _results(self, *, whole: bool = True) -> list[Any]:
        """All results that are not null, in order of their partitions."""
        ordered = [self.partition_results[number] for number in sorted(self.partition_results)]
        results = [one.get_result() for one in ordered]
        if whole:
            self._check_whole()
        return [one for one in results if one is not None]

    @property
    def row_count(self) -> int:
        """The number of rows in all results."""
        return sum(
            len(one.result)
            for one in self.partition_results.values()
            if isinstance(one.result, list)
        )

    @property
    def is_cut(self) -> bool:
        """Whether rows are missing that the limit allows: the answer reached its size or its time.

        True also if the query has no limit and there are more rows than the default limit.
        """
        return self.cursor is not None and (self.limit is None or self.row_count < self.limit)

    def _check_whole(self) -> None:
        if not self.is_cut:
            return
        if self.limit is None:
            raise TooLargeError(
                "the store has more rows than a query without a limit returns: give limit=..., "
                "go on with query(..., cursor=result.cursor), or read all rows by range(), "
                f"windows() or sessions(); rows(whole=False) returns these {self.row_count}"
            )
        raise TooLargeError(
            f"the answer ended at its limit of bytes or time, with {self.row_count} of the "
            f"{self.limit} rows that were asked for. Go on with query(..., cursor=result.cursor), "
            "or read all rows by range(), windows() or sessions(); rows(whole=False) returns "
            f"these {self.row_count}"
        )


def row_of(document: Mapping[str, Any]) -> Row:
    """A row in a JSON or NDJSON answer."""
    return Row(
        key=document["key"],
        value=document["value"],
        timestamp=document.get("timestamp"),
        headers=_headers_of(document),
        index_key=document.get("indexKey"),
    )


def window_row_of(document: Mapping[str, Any]) -> WindowRow:
    return WindowRow(
        key=document["key"],
        start=document["windowStart"],
        end=document["windowEnd"],
        value=document["value"],
        timestamp=document.get("timestamp"),
        headers=_headers_of(document),
        sequence=document.get("sequence"),
    )


def session_row_of(document: Mapping[str, Any]) -> SessionRow:
    return SessionRow(
        key=document["key"],
        start=document["sessionStart"],
        end=document["sessionEnd"],
        value=document["value"],
        headers=_headers_of(document),
    )


def version_row_of(document: Mapping[str, Any]) -> VersionRow:
    return VersionRow(
        key=document["key"],
        value=document["value"],
        valid_from=document["validFrom"],
        valid_to=document["validTo"],
    )


def _headers_of(document: Mapping[str, Any]) -> Headers | None:
    headers = document.get("headers")
    return None if headers is None else tuple((one["key"], one["value"]) for one in headers)


def read_query_answer(
    body: bytes, limit: int | None = None, read: JsonReader = read_json
) -> StateQueryResult:
    """Parses the answer of `POST /state/query` to a query with that limit."""
    document = read(body)
    results = {
        int(partition): _partition_result(int(partition), one)
        for partition, one in document["partitionResults"].items()
    }
    position = Position.from_json(document.get("position") or {})
    return StateQueryResult(results, position, document.get("cursor"), limit)


def _partition_result(partition: int, document: Mapping[str, Any]) -> PartitionResult:
    failure = document.get("failure")
    position = document.get("position")
    return PartitionResult(
        partition=partition,
        result=document.get("result"),
        failure=None if failure is None else failure_of(failure),
        position=None if position is None else parse_bound(position),
        sequence=document.get("sequence"),
        served_by=document.get("servedBy"),
        role=document.get("role"),
        epoch=document.get("epoch"),
        stream_time=document.get("streamTime"),
        execution_info=tuple(document.get("executionInfo") or ()),
        end=document.get("end"),
    )


def failure_of(document: Mapping[str, Any]) -> StoreError:
    """The failure of one partition or key: `{reason, message, retryAfterMs?}`, or a problem."""
    if "code" in document:
        return error_of(decode(json.dumps(document).encode(), Problem))
    reason, message = document["reason"], document["message"]
    retry_after_ms = document.get("retryAfterMs")
    problem = Problem(title=reason, status=0, code=reason, detail=message)
    if retry_after_ms is not None:
        problem.details = {"retry_after_ms": retry_after_ms}
    return error_of(problem)


def merged(positions: Iterable[Position]) -> Position:
    merged_position = Position.empty()
    for position in positions:
        merged_position = merged_position.merge(position)
    return merged_position
