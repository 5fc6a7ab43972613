"""Questions with many rows: the requests to a pod, and the expected rows of the reference."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from qss_core.model import StoreType
from qss_testing.reference.store_reference import Found, Reference

# Each key's partition of two by Kafka's partitioner; some keys are prefixes of others.
PARTITION_OF = {"a": 0, "a\x00": 0, "aa": 1, "ab": 0, "ba": 1, "d": 1, "ü": 0, "z/ä": 0, "none": 1}
UNCOMMITTED = {"isolation": "READ_UNCOMMITTED"}


@dataclass(frozen=True)
class Question:
    """A question that each type of store interprets in its way."""

    key: str
    key_from: str | None
    key_to: str | None
    first: int | None
    last: int | None
    reverse: bool
    by_time: bool
    uncommitted: bool
    of_key: bool  # For rows with times: those of `key` only.
    streamed: bool

    def key_bounds(self) -> tuple[bytes | None, bytes | None]:
        """The two bounds by key, the smaller first."""
        lower = None if self.key_from is None else self.key_from.encode()
        upper = None if self.key_to is None else self.key_to.encode()
        return (upper, lower) if lower and upper and lower > upper else (lower, upper)

    def time_bounds(self) -> tuple[int | None, int | None]:
        """The two bounds by time, the earlier first."""
        first, last = self.first, self.last
        return (last, first) if first and last and first > last else (first, last)


@dataclass(frozen=True)
class Scan:
    """A question with many rows, as a GET."""

    path: str
    parameters: Mapping[str, str]
    matches: Callable[[Found], bool]
    reverse: bool = False
    by_time: bool = False
    uncommitted: bool = False
    history: tuple[bytes, int | None, int | None] | None = None

    def url(self, **more: object) -> str:
        """The path and the query string."""
        query = urlencode({**self.parameters, **more})
        return f"{self.path}?{query}" if query else self.path

    def rows(self, reference: Reference) -> list[Found]:
        """All rows of the answer, in its order."""
        if self.history is not None:
            number = PARTITION_OF[self.history[0].decode()]
            found = reference.versions(number, *self.history, uncommitted=self.uncommitted)
        else:
            found = [
                row for row in reference.rows(uncommitted=self.uncommitted) if self.matches(row)
            ]
        return (
            sorted(found, key=self._order, reverse=self.reverse)
            if self.by_time
            else (self._by_partition(found))
        )

    def _by_partition(self, found: Sequence[Found]) -> list[Found]:
        rows = sorted(found, key=self._order, reverse=self.reverse)
        return sorted(rows, key=lambda row: row.partition)

    def _order(self, row: Found) -> tuple[Any, ...]:
        if self.by_time:
            return row.time, row.put.key, row.row_key[len(row.put.key) :]
        return (row.row_key,)

    def is_behind(self, row: Found, last: Found) -> bool:
        """Whether a row comes after another one in this scan."""
        if not self.by_time and row.partition != last.partition:
            return row.partition > last.partition
        if self.history is not None and self.reverse and last.members["validTo"] is None:
            # The latest version may have been replaced meanwhile; it is not returned twice.
            valid_to, valid_from = row.members["validTo"], last.members["validFrom"]
            is_older: bool = row.members["validFrom"] < valid_from
            return is_older if valid_to is None else valid_to <= valid_from
        return (self._order(row) < self._order(last)) is self.reverse and (
            row.row_key != last.row_key
        )


def scan_of(question: Question, store_type: StoreType) -> Scan:
    """The question as a scan."""
    parameters: dict[str, str] = {}
    if question.reverse:
        parameters["order"] = "DESCENDING"
    if question.uncommitted:
        parameters |= UNCOMMITTED
    match store_type:
        case StoreType.KEY_VALUE:
            return _scan_keys(question, parameters)
        case StoreType.VERSIONED:
            return _scan_versions(question, parameters)
    return _scan_times(question, parameters, store_type)


def _scan_keys(question: Question, parameters: dict[str, str]) -> Scan:
    lower, upper = question.key_bounds()
    prefix = question.key.encode()[:1] if question.of_key else None
    if prefix is not None:
        prefix = prefix if prefix < b"\x80" else question.key[:1].encode()
        parameters["prefix"] = prefix.decode()
        lower = upper = None
    if lower is not None:
        parameters["from"] = lower.decode()
    if upper is not None:
        parameters["to"] = upper.decode()
    return Scan(
        "/state/stores/words",
        parameters,
        lambda row: _is_inside(row.put.key, lower, upper) and row.put.key.startswith(prefix or b""),
        reverse=question.reverse,
        uncommitted=question.uncommitted,
    )


def _scan_versions(question: Question, parameters: dict[str, str]) -> Scan:
    first, last = question.time_bounds()
    parameters["order"] = "DESCENDING" if question.reverse else "ASCENDING"
    if first is not None:
        parameters["from"] = str(first)
    if last is not None:
        parameters["to"] = str(last)
    return Scan(
        f"/state/versions/words/{quote(question.key, safe='')}",
        parameters,
        lambda _: True,
        reverse=question.reverse,
        uncommitted=question.uncommitted,
        history=(question.key.encode(), first, last),
    )


def _scan_times(question: Question, parameters: dict[str, str], store_type: StoreType) -> Scan:
    first, last = question.time_bounds()
    lower, upper = question.key_bounds()
    is_window = store_type is StoreType.WINDOW
    path = "/state/windows/words" if is_window else "/state/sessions/words"
    by_time = question.by_time and not question.of_key
    if question.of_key:
        path += "/" + quote(question.key, safe="")
        lower = upper = question.key.encode()
    else:
        if lower is not None:
            parameters["keyFrom"] = lower.decode()
        if upper is not None:
            parameters["keyTo"] = upper.decode()
    if by_time:
        parameters["orderBy"] = "time"
    names = ("from", "to") if is_window else ("endFrom", "startTo")
    parameters |= {
        name: str(time) for name, time in zip(names, (first, last), strict=True) if time is not None
    }

    def matches(row: Found) -> bool:
        return (
            _is_inside(row.put.key, lower, upper)
            and (first is None or row.time >= first)
            and (last is None or row.put.start <= last)
        )

    return Scan(
        path,
        parameters,
        matches,
        reverse=question.reverse,
        by_time=by_time,
        uncommitted=question.uncommitted,
    )


def _is_inside(key: bytes, lower: bytes | None, upper: bytes | None) -> bool:
    return (lower is None or key >= lower) and (upper is None or key <= upper)
