"""Row keys of whole columns; equal to the bytes of `qss_core.formats.timed_keys`."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, WINDOW_START
from qss_core.formats.timed_keys import SEQUENCE_MAX

_WINDOW = np.dtype([("start", ">i8"), ("sequence", ">i4")])
_SESSION = np.dtype([("end", ">i8"), ("start", ">i8")])

Numbers = npt.NDArray[np.int64]


def window_row_keys(rows: pa.RecordBatch, sequences: Numbers | None = None) -> pa.BinaryArray:
    """The row keys of windows; `sequences` if the store retains duplicates, else all 0."""
    suffixes = np.zeros(rows.num_rows, _WINDOW)
    suffixes["start"] = rows.column(WINDOW_START).to_numpy()
    if sequences is not None:
        suffixes["sequence"] = sequences
    return _joined(rows.column("key"), suffixes)


def session_row_keys(rows: pa.RecordBatch) -> pa.BinaryArray:
    suffixes = np.empty(rows.num_rows, _SESSION)
    suffixes["end"] = rows.column(SESSION_END).to_numpy()
    suffixes["start"] = rows.column(SESSION_START).to_numpy()
    return _joined(rows.column("key"), suffixes)


def sequences_after(last: int, count: int) -> Numbers:
    """The next sequence numbers after `last`; as in Kafka they continue at 0 after the largest."""
    return (last + 1 + np.arange(count, dtype=np.int64)) & SEQUENCE_MAX


def _joined(keys: pa.BinaryArray, suffixes: npt.NDArray[np.void]) -> pa.BinaryArray:
    count, width = len(suffixes), suffixes.dtype.itemsize
    offsets = np.arange(0, width * (count + 1), width, dtype=np.int32)
    tails = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(suffixes.tobytes())]
    )
    return pc.binary_join_element_wise(keys, tails, pa.scalar(b"", pa.binary()))
