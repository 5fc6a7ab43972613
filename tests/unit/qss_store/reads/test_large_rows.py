"""A pod remembers which rows are large."""

from qss_core.model import PartitionId
from qss_store.reads.large_rows import LARGE_ROW_BYTES, LargeRows

_ZERO, _ONE = PartitionId(0), PartitionId(1)
_LARGE = LARGE_ROW_BYTES + 1


def test_a_large_row_is_known_until_a_read_finds_it_small_or_absent() -> None:
    rows = LargeRows()
    assert rows.size_of(_ZERO, b"a") == 0
    rows.note(_ZERO, b"a", _LARGE)
    rows.note(_ONE, b"a", LARGE_ROW_BYTES)
    assert rows.size_of(_ZERO, b"a") == _LARGE
    assert rows.size_of(_ONE, b"a") == 0
    assert rows.size_of(_ZERO, b"b") == 0
    rows.note(_ZERO, b"a", 10)
    assert rows.size_of(_ZERO, b"a") == 0


def test_the_oldest_of_too_many_are_forgotten() -> None:
    rows = LargeRows()
    keys = [f"{number}".encode() for number in range(10_000)]
    for key in keys:
        rows.note(_ZERO, key, _LARGE)
    known = [key for key in keys if rows.size_of(_ZERO, key)]
    assert known == keys[-len(known) :]
    assert 1000 <= len(known) < 10_000
