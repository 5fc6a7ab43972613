"""Scans over a RocksDB iterator that several scans share, a stretch of rows at a time."""

from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import cast

from rocksdict import Rdict, RdictIter, ReadOptions

from qss_store.storage.rocksdb.errors import translated
from qss_store.storage.stretches import (
    FIRST_STRETCH_ROWS,
    STRETCH_BYTES,
    STRETCH_ROWS,
    RowStretches,
    Stretch,
    before,
    up_to,
)

# An iterator reads freed memory if its family was dropped and no reference to it is left.
Held = tuple[RdictIter, Rdict]


def newest(held: Held, lower: bytes | None, upper: bytes | None) -> RowStretches:
    """As `forward`, and faster, while the family has not changed since the iterator was opened."""
    _iterator, family = held
    # Opened now, so it sees the present rows.
    rows = cast(Iterator[tuple[bytes, bytes]], family.items(from_key=lower))
    return RowStretches.of(_of_newest(held, rows, lower, upper))


def _of_newest(
    held: Held, rows: Iterator[tuple[bytes, bytes]], lower: bytes | None, upper: bytes | None
) -> Iterator[Stretch]:
    count, is_past = FIRST_STRETCH_ROWS, False
    while True:
        if upper is None:
            some = up_to(STRETCH_BYTES, islice(rows, count))
        else:
            some, is_past = before(upper, islice(rows, count))
        if some.keys:
            yield some
        if is_past:
            return
        if not some.keys:
            break
        lower = some.keys[-1] + b"\x00"
        count = min(2 * count, STRETCH_ROWS)
    # These rows end silently at a damaged block; the shared iterator reports the damage.
    yield from _forward(held, lower, upper)


def forward(held: Held, lower: bytes | None, upper: bytes | None) -> RowStretches:
    """Rows in order, in stretches; between two stretches another scan may use the iterator."""
    return RowStretches.of(_forward(held, lower, upper))


def _forward(held: Held, lower: bytes | None, upper: bytes | None) -> Iterator[Stretch]:
    iterator, _family = held
    start = lower if lower is not None else b""
    for count in chain((FIRST_STRETCH_ROWS,), repeat(STRETCH_ROWS)):
        iterator.seek(start)
        some = _ascending(iterator, upper, count)
        _check_status(iterator)
        if some.keys:
            yield some
        if len(some.keys) < count and some.size < STRETCH_BYTES:
            return
        start = some.keys[-1] + b"\x00"


def _ascending(iterator: RdictIter, upper: bytes | None, count: int) -> Stretch:
    keys: list[bytes] = []
    rows: list[bytes] = []
    left = STRETCH_BYTES
    while len(keys) < count and left > 0 and iterator.valid():
        key, row = iterator.key(), iterator.value()
        if upper is not None and key >= upper:
            break
        keys.append(key)
        rows.append(row)
        left -= len(key) + len(row)
        iterator.next()
    return Stretch(keys, rows, STRETCH_BYTES - left)


def read_past_cache(family: Rdict, after: bytes | None) -> tuple[bytes | None, int]:
    """A stretch of rows behind a key: its last key, None at the end, and its bytes."""
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # noqa: FBT003 rocksdict's stub lacks it.
    iterator = family.iter(options)
    iterator.seek(b"" if after is None else after + b"\x00")
    some = _ascending(iterator, None, STRETCH_ROWS)
    _check_status(iterator)
    return (some.keys[-1], some.size) if some.keys else (None, 0)


def backward(held: Held, lower: bytes | None, upper: bytes | None) -> RowStretches:
    """As `forward`, from the last row on."""
    return RowStretches.of(_backward(held, lower, upper))


def _backward(held: Held, lower: bytes | None, upper: bytes | None) -> Iterator[Stretch]:
    iterator, _family = held
    below = upper  # The next rows have smaller keys; None: all rows.
    first = _first_from(iterator, lower)
    if lower is not None and (first is None or (upper is not None and first >= upper)):
        return
    for count in chain((FIRST_STRETCH_ROWS,), repeat(STRETCH_ROWS)):
        if below is None:
            iterator.seek_to_last()
        else:
            iterator.seek_for_prev(below)
            if iterator.valid() and iterator.key() == below:
                iterator.prev()
        some = _descending(iterator, first, count)
        _check_status(iterator)
        if some.keys:
            yield some
        is_whole = len(some.keys) < count and some.size < STRETCH_BYTES
        if is_whole or some.keys[-1] == first:
            return
        below = some.keys[-1]


def _descending(iterator: RdictIter, first: bytes | None, count: int) -> Stretch:
    keys: list[bytes] = []
    rows: list[bytes] = []
    left = STRETCH_BYTES
    while len(keys) < count and left > 0 and iterator.valid():
        key, row = iterator.key(), iterator.value()
        keys.append(key)
        rows.append(row)
        left -= len(key) + len(row)
        if key == first:
            break
        iterator.prev()
    return Stretch(keys, rows, STRETCH_BYTES - left)


def _first_from(iterator: RdictIter, lower: bytes | None) -> bytes | None:
    """The first key of a scan with a lower bound.

    A backward scan ends there without looking for a key before it: after a million deleted rows
    that would take a second.
    """
    if lower is None:
        return None
    iterator.seek(lower)
    _check_status(iterator)
    key: bytes | None = iterator.key() if iterator.valid() else None
    return key


def _check_status(iterator: RdictIter) -> None:
    """Raises the iterator's error: a damaged block also ends an iteration."""
    try:
        iterator.status()
    except Exception as error:
        raise translated(error) from error
