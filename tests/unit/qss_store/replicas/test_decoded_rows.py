"""Rows that are remembered from stage to commit: whose they are, and how many."""

import pyarrow as pa

from qss_core.model import Offset
from qss_store.replicas.views.decoded_rows import DecodedRows

BYTES_MAX = 4 * 1024 * 1024
CHUNK_BYTES_MAX = BYTES_MAX // 4
FIRST, SECOND = Offset(1), Offset(2)


def rows(value: int) -> tuple[pa.RecordBatch, ...]:
    return (pa.record_batch({"n": pa.array([value])}),)


def test_rows_are_taken_once_by_the_log_that_has_them() -> None:
    recent = DecodedRows(BYTES_MAX)
    mine, other = object(), object()
    assert recent.admits(10)
    recent.keep(mine, FIRST, rows(1))
    assert recent.take(other, FIRST) is None
    assert recent.take(mine, SECOND) is None
    assert recent.take(mine, FIRST) == rows(1)
    assert recent.take(mine, FIRST) is None


def test_large_chunks_are_not_kept() -> None:
    recent = DecodedRows(BYTES_MAX)
    assert recent.admits(CHUNK_BYTES_MAX)
    assert not recent.admits(CHUNK_BYTES_MAX + 1)


def test_what_nobody_takes_is_forgotten() -> None:
    recent = DecodedRows(BYTES_MAX)
    owner = object()
    kept = 40
    for number in range(kept):
        assert recent.admits(CHUNK_BYTES_MAX)
        recent.keep(owner, Offset(number), rows(number))
    found = [number for number in range(kept) if recent.take(owner, Offset(number))]
    assert found == list(range(kept - len(found), kept))
    assert 4 <= len(found) <= 8
