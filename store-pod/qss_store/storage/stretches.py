"""Rows of a scan in stretches of some hundred rows, with lists of keys and rows.

A Python step for each row costs more than RocksDB's own work, so readers of many rows take, convert
and merge them a stretch at a time.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, Self, cast

from qss_core.errors import MalformedBytesError
from qss_core.formats.values import RowConverter

Row = tuple[bytes, bytes]

FIRST_STRETCH_ROWS, STRETCH_ROWS = 32, 256  # Many scans want only a few rows.
STRETCH_BYTES = 256 * 1024  # Or one row more. Every running scan may hold a stretch.


class Stretch(NamedTuple):
    """Consecutive rows: their keys, as many rows, and the bytes of all."""

    keys: list[bytes]
    rows: list[bytes]
    size: int


class RowStretches(chain[Row]):
    """The rows of a scan one by one; `stretches_of` takes them in stretches."""

    stretches: Iterator[Stretch]

    @classmethod
    def of(cls, stretches: Iterator[Stretch]) -> Self:
        """Rows that are taken one way do not come the other way."""
        rows = (zip(some.keys, some.rows, strict=True) for some in stretches)
        made = cast(Self, cls.from_iterable(rows))
        made.stretches = stretches
        return made


def stretches_of(rows: Iterator[Row], bytes_max: int = STRETCH_BYTES) -> Iterator[Stretch]:
    """All rows; no stretch is empty. `bytes_max` limits stretches of rows that come one by one."""
    return rows.stretches if isinstance(rows, RowStretches) else _made_of(rows, bytes_max)


def _made_of(rows: Iterator[Row], bytes_max: int) -> Iterator[Stretch]:
    count = FIRST_STRETCH_ROWS
    while (some := up_to(bytes_max, islice(rows, count))).keys:
        yield some
        count = min(2 * count, STRETCH_ROWS)


def up_to(bytes_max: int, source: Iterable[Row]) -> Stretch:
    """The first rows, up to the row that reaches `bytes_max` bytes."""
    keys: list[bytes] = []
    rows: list[bytes] = []
    left = bytes_max
    for key, row in source:
        keys.append(key)
        rows.append(row)
        left -= len(key) + len(row)
        if left <= 0:
            break
    return Stretch(keys, rows, bytes_max - left)


def before(upper: bytes, source: Iterable[Row]) -> tuple[Stretch, bool]:
    """The first rows before `upper`, and whether a row behind them came.

    They end with the row that reaches STRETCH_BYTES of rows: keys are counted behind the loop.
    """
    keys: list[bytes] = []
    rows: list[bytes] = []
    left = STRETCH_BYTES
    is_past = False
    for key, row in source:
        if key >= upper:
            is_past = True
            break
        keys.append(key)
        rows.append(row)
        left -= len(row)
        if left <= 0:
            break
    return Stretch(keys, rows, STRETCH_BYTES - left + sum(map(len, keys))), is_past


def converted(stretches: Iterator[Stretch], convert: RowConverter) -> Iterator[Stretch]:
    """The same keys, with converted rows.

    Raises MalformedBytesError for a row of another format, after the rows before it.
    """
    for keys, rows, _ in stretches:
        made: list[bytes] = []
        malformed: MalformedBytesError | None = None
        try:
            made.extend(map(convert, rows))  # `made` keeps the rows before a malformed row.
        except MalformedBytesError as error:
            malformed = error
        if made:
            yield _stretch(keys[: len(made)], made)
        if malformed is not None:
            raise malformed


def merged(
    newer: Iterator[Stretch], older: Iterator[Stretch], *, reverse: bool
) -> Iterator[Stretch]:
    """Merges two scans by key; the newer row of a key wins."""
    ends = _ends_backward if reverse else _ends_forward
    new, old = next(newer, None), next(older, None)
    while new is not None and old is not None:
        # No later row of either scan comes before the smaller of the two last keys.
        new_count, old_count = ends(new.keys, old.keys)
        if not old_count:
            yield cut(new, 0, new_count)
        elif not new_count:
            yield cut(old, 0, old_count)
        else:
            yield _merged_rows(cut(new, 0, new_count), cut(old, 0, old_count), reverse=reverse)
        new = cut(new, new_count) if new_count < len(new.keys) else next(newer, None)
        old = cut(old, old_count) if old_count < len(old.keys) else next(older, None)
    for left, others in ((new, newer), (old, older)):
        if left is not None:
            yield left
            yield from others


def _ends_forward(one: list[bytes], other: list[bytes]) -> tuple[int, int]:
    """The number of keys of each list that are not after the smaller of the two last keys."""
    end = min(one[-1], other[-1])
    return bisect_right(one, end), bisect_right(other, end)


def _ends_backward(one: list[bytes], other: list[bytes]) -> tuple[int, int]:
    end = max(one[-1], other[-1])
    return _count_from(one, end), _count_from(other, end)


def _count_from(descending: list[bytes], end: bytes) -> int:
    return len(descending) - bisect_left(descending[::-1], end)


def _merged_rows(new: Stretch, old: Stretch, *, reverse: bool) -> Stretch:
    rows = dict(zip(old.keys, old.rows, strict=True))
    rows.update(zip(new.keys, new.rows, strict=True))
    keys = sorted(rows, reverse=reverse)
    return _stretch(keys, [rows[key] for key in keys])


def cut(some: Stretch, start: int, end: int | None = None) -> Stretch:
    """A part of the stretch, or all of it."""
    if start == 0 and (end is None or end == len(some.keys)):
        return some
    return _stretch(some.keys[start:end], some.rows[start:end])


def _stretch(keys: list[bytes], rows: list[bytes]) -> Stretch:
    return Stretch(keys, rows, sum(map(len, keys)) + sum(map(len, rows)))
