"""Splits many rows into columns at once, with few steps for all of them.

Parts of fixed size (times, sequences, timestamps) become numpy numbers. Keys and values stay bytes,
as a list or as an Arrow array. If bytes cannot be split so, the functions for single rows are
called, which raise the error.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from qss_core.formats.timed_keys import (
    TIME_MAX,
    decode_session_key,
    decode_version_key,
    decode_window_key,
)
from qss_core.formats.values import TIMESTAMP_BYTES, TIMESTAMP_UNKNOWN, Format, splitter_of
from qss_core.model import StoreType
from qss_store.reads.codec import Codec, Shape

Numbers = npt.NDArray[np.int64]

_END = 2**30  # Larger than every key and row: Arrow needs an end.
_FEW = 200  # An Arrow call costs more than so many Python steps.
_TIMESTAMP = np.dtype(">i8")
_WINDOW = np.dtype([("start", ">i8"), ("sequence", ">i4")])
_SESSION = np.dtype([("end", ">i8"), ("start", ">i8")])  # A version's times have the same layout.


class _Whole:
    def __init__(self, listed: Sequence[bytes]) -> None:
        self.listed = listed

    @cached_property
    def array(self) -> pa.Array:
        return pa.array(self.listed, pa.binary())


class Parts:
    """The same slice, from `start` to before `end`, of each of many byte strings."""

    def __init__(self, whole: _Whole, start: int = 0, end: int | None = None) -> None:
        """Slices nothing until it is needed."""
        self._whole = whole
        self._start = start
        self._end = end

    @classmethod
    def of(cls, listed: Sequence[bytes]) -> "Parts":
        return cls(_Whole(listed))

    def cut(self, start: int = 0, end: int | None = None) -> "Parts":
        """A slice of byte strings that are whole so far."""
        return Parts(self._whole, start, end)

    @property
    def _is_all(self) -> bool:
        return self._start == 0 and self._end is None

    def listed(self) -> Sequence[bytes]:
        if self._is_all:
            return self._whole.listed
        part = slice(self._start, self._end)
        return [one[part] for one in self._whole.listed]

    def array(self) -> pa.Array:
        """The slices as an Arrow array."""
        whole = self._whole.array
        if self._is_all:
            return whole
        return pc.binary_slice(whole, self._start, _END if self._end is None else self._end)

    def numbers(self, kind: np.dtype[Any]) -> npt.NDArray[Any] | None:
        """The slices as numbers; None if one has another size."""
        if len(self._whole.listed) < _FEW:
            listed = self.listed()
            fits = set(map(len, listed)) == {kind.itemsize}
            return np.frombuffer(b"".join(listed), kind) if fits else None
        array = self.array()
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
        if (ends[1:] - ends[:-1] != kind.itemsize).any():
            return None
        return np.frombuffer(data, kind, len(array), int(ends[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Columns of at least one row."""

    keys: Parts
    times: tuple[Numbers, ...]  # Start and end as shown; empty for rows without times.
    sequences: Numbers | None  # Set if the store retains duplicates.
    values: Parts
    timestamps: Numbers | None  # Set if the query asks for them; headers likewise.
    headers: Sequence[bytes] | None  # Encoded blocks.


class _Keys(NamedTuple):
    """Parts of row keys; `row_times` replace the timestamps of rows that have none."""

    keys: Parts
    times: tuple[Numbers, ...] = ()
    row_times: Numbers | None = None
    sequences: Numbers | None = None


class _SplitRows(NamedTuple):
    """Parts of rows; None if the format does not keep the part."""

    values: Parts
    timestamps: Numbers | None = None
    headers: Sequence[bytes] | None = None


TakeApart = Callable[[Sequence[bytes], Sequence[bytes]], Columns]


def make_take_apart(codec: Codec, shape: Shape) -> TakeApart:
    """Makes the function (row keys, rows; at least one) -> columns that the shape asks for.

    The function raises MalformedBytesError for bytes of another type or format.
    """
    keys_of, rows_of = _KEYS[codec.type], _ROWS.get(codec.format, partial(_split, codec.format))

    def take_apart(row_keys: Sequence[bytes], rows: Sequence[bytes]) -> Columns:
        keys, found = keys_of(row_keys, codec), rows_of(rows)
        timestamps = _known(found.timestamps, keys.row_times)
        headers = (b"",) * len(rows) if found.headers is None else found.headers
        return Columns(
            keys=keys.keys,
            times=keys.times,
            sequences=keys.sequences,
            values=found.values,
            timestamps=timestamps if shape.timestamp else None,
            headers=headers if shape.headers else None,
        )

    return take_apart


def _known(timestamps: Numbers | None, row_times: Numbers | None) -> Numbers | None:
    """Timestamps, where an unknown one is replaced by the time in the row's key, if it has one."""
    if timestamps is None or row_times is None:
        return row_times if timestamps is None else timestamps
    unknown = timestamps == TIMESTAMP_UNKNOWN
    return np.where(unknown, row_times, timestamps) if unknown.any() else timestamps


# --- Row keys


def _plain_keys(row_keys: Sequence[bytes], _codec: Codec) -> _Keys:
    return _Keys(Parts.of(row_keys))


def _window_keys(row_keys: Sequence[bytes], codec: Codec) -> _Keys:
    keys, suffixes = _suffixes(row_keys, _WINDOW, decode_window_key)
    starts, size = suffixes["start"].astype(np.int64), codec.window_size_ms
    ends = np.minimum(starts, TIME_MAX - size) + size
    sequences = suffixes["sequence"].astype(np.int64) if codec.retain_duplicates else None
    return _Keys(keys, (starts, ends), starts, sequences)


def _session_keys(row_keys: Sequence[bytes], codec: Codec) -> _Keys:
    is_version = codec.type is StoreType.VERSIONED
    decode = decode_version_key if is_version else decode_session_key
    keys, suffixes = _suffixes(row_keys, _SESSION, decode)
    starts, ends = (suffixes[name].astype(np.int64) for name in ("start", "end"))
    return _Keys(keys, (starts, ends), ends)


_KEYS = {
    StoreType.KEY_VALUE: _plain_keys,
    StoreType.WINDOW: _window_keys,
    StoreType.SESSION: _session_keys,
    StoreType.VERSIONED: _session_keys,
}


def _suffixes(
    row_keys: Sequence[bytes], kind: np.dtype[Any], decode: Callable[[bytes], object]
) -> tuple[Parts, npt.NDArray[Any]]:
    """The keys, and the suffixes after them."""
    whole, size = Parts.of(row_keys), kind.itemsize
    suffixes = whole.cut(-size).numbers(kind)
    if suffixes is None:
        raise _refused(map(decode, row_keys))
    return whole.cut(0, -size), suffixes


# --- Rows


def _plain_rows(rows: Sequence[bytes]) -> _SplitRows:
    return _SplitRows(Parts.of(rows))


def _timestamped_rows(rows: Sequence[bytes]) -> _SplitRows:
    whole = Parts.of(rows)
    timestamps = whole.cut(0, TIMESTAMP_BYTES).numbers(_TIMESTAMP)
    if timestamps is None:
        raise _refused(map(splitter_of(Format.Timestamped), rows))
    return _SplitRows(whole.cut(TIMESTAMP_BYTES), timestamps.astype(np.int64))


def _split(store_format: Format, rows: Sequence[bytes]) -> _SplitRows:
    """Splits row by row, since headers have any size."""
    blocks, timestamps, values = zip(*map(splitter_of(store_format), rows), strict=True)
    has_timestamps = timestamps[0] is not None
    return _SplitRows(
        Parts.of(values), np.array(timestamps, np.int64) if has_timestamps else None, blocks
    )


_ROWS = {Format.Plain: _plain_rows, Format.Timestamped: _timestamped_rows}


def _refused(taken_apart: Iterator[object]) -> AssertionError:
    """Splits the rows one by one, which raises MalformedBytesError."""
    deque(taken_apart, maxlen=0)
    return AssertionError("rows that are refused together have a row that is refused alone")
