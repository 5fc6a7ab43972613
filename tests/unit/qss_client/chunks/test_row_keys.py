"""The row keys of a batch are equal to row keys that are encoded one by one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from qss_client.chunks.row_keys import sequences_after, session_row_keys, window_row_keys
from qss_core.formats.timed_keys import (
    SEQUENCE_MAX,
    TIME_MAX,
    encode_session_key,
    encode_window_key,
)

TIMES = st.integers(0, TIME_MAX)
ROWS = st.lists(st.tuples(st.binary(max_size=20), TIMES, TIMES), max_size=20)


def batch_of(rows: list[tuple[bytes, int, int]]) -> pa.RecordBatch:
    starts = [min(first, second) for _, first, second in rows]
    ends = [max(first, second) for _, first, second in rows]
    return pa.record_batch(
        {
            "key": pa.array([key for key, _, _ in rows], pa.binary()),
            "window_start": pa.array(starts, pa.int64()),
            "session_start": pa.array(starts, pa.int64()),
            "session_end": pa.array(ends, pa.int64()),
        }
    )


@given(ROWS, st.integers(0, 20))
def test_windows(rows: list[tuple[bytes, int, int]], skipped: int) -> None:
    batch = batch_of(rows).slice(min(skipped, len(rows)))
    wanted = [encode_window_key(row["key"], row["window_start"]) for row in batch.to_pylist()]
    assert window_row_keys(batch).to_pylist() == wanted


@given(ROWS, st.integers(0, SEQUENCE_MAX))
def test_windows_of_a_store_that_retains_duplicates(
    rows: list[tuple[bytes, int, int]], last: int
) -> None:
    batch = batch_of(rows)
    sequences = sequences_after(last, len(rows))
    wanted = [
        encode_window_key(row["key"], row["window_start"], (last + 1 + index) % 2**31)
        for index, row in enumerate(batch.to_pylist())
    ]
    assert window_row_keys(batch, sequences).to_pylist() == wanted


@given(ROWS, st.integers(0, 20))
def test_sessions(rows: list[tuple[bytes, int, int]], skipped: int) -> None:
    batch = batch_of(rows).slice(min(skipped, len(rows)))
    wanted = [
        encode_session_key(row["key"], row["session_start"], row["session_end"])
        for row in batch.to_pylist()
    ]
    assert session_row_keys(batch).to_pylist() == wanted


def test_numbers_go_on_at_zero_after_the_largest() -> None:
    assert sequences_after(0, 2).tolist() == [1, 2]
    assert sequences_after(SEQUENCE_MAX - 1, 3).tolist() == [SEQUENCE_MAX, 0, 1]
    assert sequences_after(7, 0).tolist() == []
