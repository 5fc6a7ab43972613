"""Scans over an iterator of RocksDB, which others may use between two stretches of rows."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import cast

from rocksdict import Rdict, RdictIter

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_store.storage.engine import PassingError

FULL = "the volume is full: free space or make it larger; nothing is lost"
_FIRST_STRETCH_ROWS, _STRETCH_ROWS = 16, 256  # Many scans want a few rows.
_STRETCH_BYTES = 256 * 1024  # Or one row more: as many scans as may run hold a stretch each.
_KEY = itemgetter(0)
# Of what ends by itself: files that another process has locked, limits of this one.
_PASSING = (
    "/LOCK: ",
    "Too many open files",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
)

# An iterator reads freed memory where nobody else holds its family and the family was dropped.
Held = tuple[RdictIter, Rdict]


def newest(held: Held, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """As `forward`, and quicker, while the family is still as the cursor has it."""
    _cursor, family = held
    # Opened now: it sees what is there now.
    rows = cast(Iterator[tuple[bytes, bytes]], family.items(from_key=lower))
    return chain.from_iterable(_stretches(held, rows, lower, upper))


def _stretches(
    held: Held, rows: Iterator[tuple[bytes, bytes]], lower: bytes | None, upper: bytes | None
) -> Iterator[Iterable[tuple[bytes, bytes]]]:
    stretch = _FIRST_STRETCH_ROWS
    while some := up_to(_STRETCH_BYTES, islice(rows, stretch)):
        last_key, _ = some[-1]
        if upper is not None and last_key >= upper:
            yield some[: bisect_left(some, upper, key=_KEY)]
            return
        yield some
        lower = last_key + b"\x00"
        stretch = min(2 * stretch, _STRETCH_ROWS)
    # At a damaged block these rows end without a word: the cursor has the last one.
    yield forward(held, lower, upper)


def up_to(bytes_max: int, rows: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The first rows, up to the one with which they have so many bytes."""
    some = []
    for row in rows:
        some.append(row)
        bytes_max -= len(row[0]) + len(row[1])
        if bytes_max <= 0:
            break
    return some


def forward(held: Held, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Rows in order, in stretches: between two of them another scan may use the cursor."""
    cursor, _family = held
    start = lower if lower is not None else b""
    for stretch in chain((_FIRST_STRETCH_ROWS,), repeat(_STRETCH_ROWS)):
        cursor.seek(start)
        rows: list[tuple[bytes, bytes]] = []
        left = _STRETCH_BYTES
        while len(rows) < stretch and left > 0 and cursor.valid():
            key = cursor.key()
            if upper is not None and key >= upper:
                break
            rows.append((key, row := cursor.value()))
            left -= len(key) + len(row)
            cursor.next()
        _check_status(cursor)
        yield from rows
        if len(rows) < stretch and left > 0:
            return
        start = rows[-1][0] + b"\x00"


def backward(held: Held, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """As `forward`, from the last row on."""
    cursor, _family = held
    below = upper  # The rows still to come have smaller keys; None: all rows.
    first = _first_from(cursor, lower)
    if lower is not None and (first is None or (upper is not None and first >= upper)):
        return
    for stretch in chain((_FIRST_STRETCH_ROWS,), repeat(_STRETCH_ROWS)):
        if below is None:
            cursor.seek_to_last()
        else:
            cursor.seek_for_prev(below)
            if cursor.valid() and cursor.key() == below:
                cursor.prev()
        rows: list[tuple[bytes, bytes]] = []
        left = _STRETCH_BYTES
        while len(rows) < stretch and left > 0 and cursor.valid():
            key = cursor.key()
            rows.append((key, row := cursor.value()))
            left -= len(key) + len(row)
            if key == first:
                break
            cursor.prev()
        _check_status(cursor)
        yield from rows
        if (len(rows) < stretch and left > 0) or rows[-1][0] == first:
            return
        below = rows[-1][0]


def _first_from(cursor: RdictIter, lower: bytes | None) -> bytes | None:
    """The first key that a scan with a lower bound has.

    A scan backward ends there and does not look for one before it: where a million rows before it
    were deleted, that would take a second.
    """
    if lower is None:
        return None
    cursor.seek(lower)
    _check_status(cursor)
    key: bytes | None = cursor.key() if cursor.valid() else None
    return key


def _check_status(cursor: RdictIter) -> None:
    """A damaged block also ends an iteration; only the status tells."""
    try:
        cursor.status()
    except Exception as error:
        raise translated(error) from error


def translated(error: Exception) -> StoreError:
    """Our error for one of RocksDB's, which come as bare exceptions with a text."""
    text = str(error)
    if "No space left" in text or "NoSpace" in text:
        return DiskFullError(FULL)
    if "Corruption" in text:
        return CorruptionError(f"the replica's files are damaged: {text[:200]}")
    if "previous error" in text:
        return PassingError("an earlier write failed: the database is being opened again")
    if "IO error" in text and not any(passing in text for passing in _PASSING):
        return CorruptionError(f"the replica's files cannot be read or written: {text[:200]}")
    if "IO error" in text:
        return PassingError(f"the replica's files cannot be opened now: {text[:200]}")
    return StoreError(f"RocksDB failed: {text[:200]}")
