"""Encodes many rows as JSON: makes objects of their columns, and encodes them with one call.

The bytes equal those of the writers of single rows (codec.py, timed_rows.py).
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import msgspec

from qss_core.formats.timed_keys import STILL_VALID
from qss_core.formats.values import TIMESTAMP_BYTES, Format
from qss_core.model import Sequence as StateSequence
from qss_core.model import StoreType
from qss_core.times import Times, time_writer
from qss_store.reads.codec import Codec, Shape, headers_json
from qss_store.reads.encode.columns import Columns, Numbers, TakeApart, make_take_apart
from qss_store.reads.encode.objects import Show, show_of
from qss_store.reads.plans.dispatch import RowsPlan

_TIMES = {
    StoreType.KEY_VALUE: (),
    StoreType.WINDOW: ("windowStart", "windowEnd"),
    StoreType.SESSION: ("sessionStart", "sessionEnd"),
    StoreType.VERSIONED: ("validFrom", "validTo"),
}
_ENCODER = msgspec.json.Encoder()


class StoredRowEncoder(Protocol):
    """Takes stored rows of a scan, at least one at a time."""

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        """Encodes stored rows, at least one.

        Raises MalformedBytesError for bytes of another serde or format.
        """


class ScanEncoder(StoredRowEncoder, Protocol):
    """Encodes the rows of a scan, of this pod and of others."""

    def of_lines(self, lines: Sequence[bytes]) -> bytes:
        """Joins rows that are JSON already."""

    def of_own_lines(self, _row_keys: Sequence[bytes], lines: Sequence[bytes]) -> bytes:
        """Joins rows of this pod that are JSON already."""
        return self.of_lines(lines)

    def begin(self, _sequence: StateSequence) -> bytes:
        """The bytes before the first rows of a state; another pod is told the state's sequence."""
        return b""


class JsonRows(ScanEncoder):
    """Encodes rows with commas between them, for an array."""

    def __init__(self, codec: Codec, plan: RowsPlan) -> None:
        self._lines = _make_lines(codec, plan)

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        return _ENCODER.encode(self._lines(row_keys, rows))[1:-1]

    def of_lines(self, lines: Sequence[bytes]) -> bytes:
        return b",".join(lines)


class NdjsonRows(ScanEncoder):
    """Encodes rows as one line each."""

    def __init__(self, codec: Codec, plan: RowsPlan) -> None:
        self._lines = _make_lines(codec, plan)

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        return _ENCODER.encode_lines(self._lines(row_keys, rows))

    def of_lines(self, lines: Sequence[bytes]) -> bytes:
        return b"\n".join(lines) + b"\n"


def members_of(codec: Codec, shape: Shape) -> tuple[str, ...]:
    """The members of a row in order; rows of an index have `indexKey` after the key."""
    members = ["key", *_TIMES[codec.type]]
    members += ["sequence"] if codec.retain_duplicates else []
    members += ["value"]
    members += ["timestamp"] if shape.timestamp else []
    members += ["headers"] if shape.headers else []
    return tuple(members)


def _make_lines(
    codec: Codec, plan: RowsPlan
) -> Callable[[Sequence[bytes], Sequence[bytes]], list[msgspec.Struct]]:
    shape, names = plan.shape, _TIMES[codec.type]
    line = _line_type(members_of(codec, shape))
    take_apart = make_take_apart(codec, shape)
    show_key, show_value = show_of(codec.key), show_of(codec.value)
    show_times = _show_times_of(getattr(plan, "times", Times.MILLIS))

    if _is_usual(codec, plan):
        return partial(_usual_lines, line, show_key, show_value, take_apart)

    def shown(columns: Columns) -> Iterable[Iterable[Any]]:
        yield show_key(columns.keys.listed())
        for name, times in zip(names, columns.times, strict=True):
            yield _or_null(times, show_times) if name == "validTo" else show_times(times)
        if columns.sequences is not None:
            yield columns.sequences.tolist()
        yield show_value(columns.values.listed())
        if columns.timestamps is not None:
            yield show_times(columns.timestamps)
        if columns.headers is not None:
            yield [msgspec.Raw(headers_json(block)) for block in columns.headers]

    return lambda row_keys, rows: list(map(line, *shown(take_apart(row_keys, rows))))


def _is_usual(codec: Codec, plan: RowsPlan) -> bool:
    """Whether the lines have a key, a value and a timestamp, from rows in the usual format."""
    is_plain = codec.type is StoreType.KEY_VALUE and codec.format is Format.Timestamped
    in_millis = getattr(plan, "times", Times.MILLIS) is Times.MILLIS
    return is_plain and in_millis and plan.shape.timestamp and not plan.shape.headers


def _usual_lines(
    line: type[msgspec.Struct],
    show_key: Show,
    show_value: Show,
    take_apart: TakeApart,
    row_keys: Sequence[bytes],
    rows: Sequence[bytes],
) -> list[msgspec.Struct]:
    """The lines without the arrays of columns, which take longer."""
    heads = b"".join([row[:TIMESTAMP_BYTES] for row in rows])
    if len(heads) != TIMESTAMP_BYTES * len(rows):
        take_apart(row_keys, rows)  # It raises the error of the row that is too short.
    stamps = struct.unpack(f">{len(rows)}q", heads)
    values = show_value([row[TIMESTAMP_BYTES:] for row in rows])
    return list(map(line, show_key(row_keys), values, stamps))


@lru_cache(maxsize=64)  # Enough for all shapes of one store in all its formats.
def _line_type(members: tuple[str, ...]) -> type[msgspec.Struct]:
    # Lines are in no reference cycles, so the garbage collector need not track them.
    return msgspec.defstruct("Line", [(name, Any) for name in members], gc=False)


def _show_times_of(times: Times) -> Callable[[Numbers], list[Any]]:
    if times is Times.MILLIS:
        return lambda numbers: numbers.tolist()
    write = time_writer(times)
    return lambda numbers: [msgspec.Raw(write(time)) for time in numbers.tolist()]


def _or_null(times: Numbers, show: Callable[[Numbers], list[Any]]) -> list[Any]:
    """The end of each version's validity; null for the latest version."""
    latest = (times == STILL_VALID).tolist()
    return [None if is_latest else one for one, is_latest in zip(show(times), latest, strict=True)]
