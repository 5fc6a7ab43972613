"""Checks that the store's serdes can read the keys and values of staged rows. Pure.

Unreadable bytes would make queries fail: a scan would end at them until the row is written anew.
Rows are checked when a request brings them, staged or with their commit, and not when a commit is
applied: so batches that were decided without these checks can be applied.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.serdes.contract import Serde
from qss_core.serdes.json import JSON_REFUSALS, check_json_syntax

# These serdes take any bytes; Java, too, decodes text that is not UTF-8.
_TAKE_ANYTHING = frozenset(("bytes", "string"))
_NUMBERS = frozenset(("int16", "int32", "int64", "float32", "float64"))
_NO_TIMESTAMP = -1  # As in Kafka.


@dataclass(frozen=True, slots=True)
class _Turn:
    """The rows that are checked before other requests take their turn: some milliseconds."""

    rows: int
    size: int  # Bytes of keys and values.


_TURN = _Turn(rows=2000, size=512 * 1024)
_SLOW_TURN = _Turn(rows=200, size=16 * 1024)  # For serdes that run Python code for each value.


class RowValidator:
    """The checks of a store's rows."""

    def __init__(self, keys: Serde, values: Serde) -> None:
        """Checks keys and values with these serdes."""
        self._keys = keys
        self._values = values
        self.is_slow = _is_slow(keys) or _is_slow(values)
        self._turn = _SLOW_TURN if self.is_slow else _TURN

    def check(self, rows: pa.RecordBatch) -> None:
        """Raises MalformedRequestError for rows that the serdes cannot read."""
        check_column(rows.column("key"), self._keys, "a key")
        check_column(rows.column("value"), self._values, "a value")
        if "timestamp" in rows.schema.names:
            _check_timestamps(rows.column("timestamp"))

    def pieces(self, rows: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, float]]:
        """The rows in order, in pieces, each with the share of a turn that its check takes.

        The share is above 1 only for a piece of one row.
        """
        sizes = np.zeros(rows.num_rows, dtype=np.int64)
        for name in ("key", "value"):
            lengths = pc.fill_null(pc.binary_length(rows.column(name)), 0)
            sizes += lengths.to_numpy(zero_copy_only=False)
        ends = np.cumsum(sizes)
        start = before = 0
        while start < rows.num_rows:
            fitting = int(np.searchsorted(ends, before + self._turn.size, side="right"))
            end = max(start + 1, min(fitting, start + self._turn.rows))
            size = int(ends[end - 1]) - before
            share = max((end - start) / self._turn.rows, size / self._turn.size)
            yield rows.slice(start, end - start), share
            start, before = end, before + size


def check_column(column: pa.BinaryArray, serde: Serde, what: str) -> None:
    """Raises MalformedRequestError for bytes that the serde cannot read; null is allowed.

    `what` names the column in the message.
    """
    if serde.name in _TAKE_ANYTHING:
        return
    if serde.name in _NUMBERS:
        sizes = pc.binary_length(column)
        if pc.any(pc.not_equal(sizes, serde.item_bytes)).as_py():
            raise MalformedRequestError(
                f"{what} is no {serde.name}: it has {serde.item_bytes} bytes, big-endian"
            )
        return
    if serde.name == "json" and _are_json(column):
        return
    read = serde.json_bytes
    try:
        for one in column.drop_null().to_pylist():
            read(one)
    except MalformedBytesError as error:
        raise MalformedRequestError(f"{what} is no {serde.name}: {error.message}") from error


def _is_slow(serde: Serde) -> bool:
    return serde.name != "json" and serde.name not in _TAKE_ANYTHING | _NUMBERS


def _check_timestamps(column: pa.Int64Array) -> None:
    earliest = pc.min(column).as_py()
    if earliest is not None and earliest < _NO_TIMESTAMP:
        raise MalformedRequestError(
            f"a timestamp is milliseconds since 1970, or {_NO_TIMESTAMP} where it is unknown, "
            f"not {earliest}"
        )


def _are_json(column: pa.BinaryArray) -> bool:
    """Checks many values at once; False without the reason where one is no JSON."""
    try:
        column.cast(pa.string())  # Raises where one is not UTF-8.
        deque(map(check_json_syntax, column.drop_null().to_pylist()), maxlen=0)
    except (pa.ArrowInvalid, *JSON_REFUSALS):
        return False
    return True
