"""Stretches of rows are cut, converted and merged like single rows."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError
from qss_store.storage.stretches import (
    STRETCH_BYTES,
    Row,
    RowStretches,
    Stretch,
    converted,
    merged,
    stretches_of,
    up_to,
)

KEYS = st.sets(st.binary(min_size=1, max_size=2), max_size=60)


def in_stretches(rows: list[Row], lengths: list[int]) -> Iterator[Stretch]:
    """The rows, cut after these numbers of rows."""
    lengths = list(lengths)
    while rows:
        count = lengths.pop() if lengths else len(rows)
        some, rows = rows[:count], rows[count:]
        size = sum(len(key) + len(row) for key, row in some)
        yield Stretch([key for key, _ in some], [row for _, row in some], size)


@given(KEYS, KEYS, st.lists(st.integers(1, 9)), st.lists(st.integers(1, 9)), st.booleans())
def test_two_scans_are_merged_by_key_and_the_newer_row_wins(
    newer: set[bytes], older: set[bytes], new_cuts: list[int], old_cuts: list[int], reverse: bool
) -> None:
    new = [(key, b"new") for key in sorted(newer, reverse=reverse)]
    old = [(key, b"older") for key in sorted(older, reverse=reverse)]
    found = list(merged(in_stretches(new, new_cuts), in_stretches(old, old_cuts), reverse=reverse))
    rows = [row for some in found for row in zip(some.keys, some.rows, strict=True)]
    assert rows == sorted({**dict(old), **dict(new)}.items(), reverse=reverse)
    assert all(some.keys for some in found)
    assert sum(some.size for some in found) == sum(len(key) + len(row) for key, row in rows)


def test_rows_are_converted_with_their_keys_and_sizes() -> None:
    rows = [(b"a", b"1"), (b"b", b"22")]
    (some,) = converted(in_stretches(rows, []), lambda row: b"x" + row)
    assert some == Stretch([b"a", b"b"], [b"x1", b"x22"], 7)


def test_a_stretch_ends_with_the_row_that_fills_it() -> None:
    large = b"x" * (STRETCH_BYTES // 2)
    rows = iter([(b"a", large), (b"b", large), (b"c", b"1")])
    assert up_to(STRETCH_BYTES, rows).keys == [b"a", b"b"]
    assert up_to(STRETCH_BYTES, rows) == Stretch([b"c"], [b"1"], 2)
    assert up_to(STRETCH_BYTES, rows).keys == []


def test_rows_come_one_by_one_or_in_stretches() -> None:
    rows = [(b"%04d" % number, b"v") for number in range(1000)]
    for source in (iter(rows), RowStretches.of(in_stretches(rows, [10, 20]))):
        found = list(stretches_of(source))
        assert [key for some in found for key in some.keys] == [key for key, _ in rows]
        assert all(some.keys for some in found)
    assert list(RowStretches.of(in_stretches(rows, [10, 20]))) == rows


def test_rows_before_one_that_cannot_be_converted_come_first() -> None:
    def convert(row: bytes) -> bytes:
        if row == b"bad":
            raise MalformedBytesError("not of this format")
        return row

    rows = [(b"a", b"1"), (b"b", b"2"), (b"c", b"bad"), (b"d", b"4")]
    found = converted(in_stretches(rows, []), convert)
    assert next(found).keys == [b"a", b"b"]
    with pytest.raises(MalformedBytesError):
        next(found)
