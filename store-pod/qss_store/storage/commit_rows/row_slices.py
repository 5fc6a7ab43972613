"""Cuts the rows of a commit into slices, so that no reader waits long.

rocksdict holds the interpreter's lock during a write, so every reader may wait for a whole write.
Rows are therefore written in slices of limited rows and bytes; readers see the state before the
batch until the last slice is written.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from qss_client.chunks.chunk import ChunkRows, read_batches, rows_of, split_batches
from qss_client.chunks.row_keys import Numbers
from qss_core.formats.headers import Headers
from qss_core.formats.values import Format, RowEncoder, encoder_of
from qss_store.runtime.settings import Settings
from qss_store.storage.placement.placed_rows import RowPlacer

# So many small rows are placed at once: most of the cost is per call, not per row.
PLACED_ROWS_MAX = 5000
PLACED_BYTES_MAX = 4 * 1024 * 1024
SLICE_BYTES_MAX = 1024 * 1024
INDEXED_SLICE_BYTES_MAX = 64 * 1024
_DECODED_ROWS_MAX = 500  # For a payload with large rows.


class SliceLimits(NamedTuple):
    """The size of one write; a single row may exceed it."""

    rows: int
    size: int


def slice_limits(settings: Settings, *, is_indexed: bool) -> SliceLimits:
    """The limits of a store's commits, at least 1 row; `is_indexed`: the store has indexes."""
    if is_indexed:
        return SliceLimits(max(1, settings.indexed_slice_rows_max), INDEXED_SLICE_BYTES_MAX)
    return SliceLimits(max(1, settings.slice_rows_max), SLICE_BYTES_MAX)


class LateRows(NamedTuple):
    """Rows that no reader will see: `expired` rows were dropped, `hidden` rows are written."""

    expired: int = 0
    hidden: int = 0


NONE_LATE = LateRows()


@dataclass(frozen=True, slots=True)
class StoreSlice:
    """The rows of one write, and the number of `late` rows among the placed rows."""

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    places: Numbers | None = None
    late: LateRows = NONE_LATE


Payload = bytes | tuple[pa.RecordBatch, ...]  # A checked slice, or its decoded rows.


def store_slices(
    payloads: Iterable[Payload],
    store_format: Format,
    default_timestamp_ms: int,
    placer: RowPlacer,
    limits: SliceLimits,
) -> Iterator[StoreSlice]:
    """The rows of all payloads in commit order, in slices.

    Payloads are read one after the other, each sorted by key, so memory holds one at a time.
    """
    encode = encoder_of(store_format)
    for payload in payloads:
        for batch in _batches_of(payload):
            placed = placer.place(batch)
            if placed.expired or placed.hidden:
                yield StoreSlice(late=LateRows(placed.expired, placed.hidden))
            for at in range(0, placed.rows.num_rows, limits.rows):
                rows = rows_of(placed.rows.slice(at, limits.rows))
                places = None if placed.places is None else placed.places[at : at + limits.rows]
                values = _encoded(rows, encode, default_timestamp_ms)
                for some in _bounded(rows.keys, values, limits.size):
                    there = None if places is None else places[some]
                    yield StoreSlice(rows.keys[some], values[some], there)


def _batches_of(payload: Payload) -> Iterator[pa.RecordBatch]:
    if isinstance(payload, tuple):
        return split_batches(payload, PLACED_ROWS_MAX)
    is_small = len(payload) <= PLACED_BYTES_MAX
    return read_batches(payload, PLACED_ROWS_MAX if is_small else _DECODED_ROWS_MAX)


def _encoded(rows: ChunkRows, encode: RowEncoder, default_timestamp_ms: int) -> list[bytes | None]:
    count = len(rows.keys)
    timestamps = rows.timestamps or [None] * count
    headers: list[Headers] = rows.headers or [()] * count
    return [
        None
        if value is None
        else encode(value, default_timestamp_ms if timestamp is None else timestamp, header)
        for value, timestamp, header in zip(rows.values, timestamps, headers, strict=True)
    ]


def _bounded(keys: list[bytes], values: list[bytes | None], bytes_max: int) -> Iterator[slice]:
    """Cuts a slice with large rows."""
    if sum(map(len, keys)) + sum(map(len, filter(None, values))) <= bytes_max:
        if keys:
            yield slice(0, len(keys))
        return
    start = size = 0
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        size += len(key) + len(value or b"")
        if size > bytes_max and index > start:
            yield slice(start, index)
            start, size = index, len(key) + len(value or b"")
    if start < len(keys):
        yield slice(start, len(keys))
