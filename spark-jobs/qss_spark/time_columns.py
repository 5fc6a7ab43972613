"""Converts columns of times: milliseconds since 1970, Spark timestamps, Spark windows."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, WINDOW_START
from qss_core.errors import MalformedRequestError
from qss_core.model import StoreDefinition
from qss_core.quantities import shown_duration
from qss_spark.column_types import type_name

WINDOW_END = "window_end"
WINDOW = "window"  # The column of F.window, a struct of start and end.
SESSION_WINDOW = "session_window"


def milliseconds(column: pa.Array, name: str) -> pa.Array:
    """A column of times as milliseconds; nulls stay null."""
    if pa.types.is_timestamp(column.type):
        return pc.cast(pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False), pa.int64())
    if pa.types.is_integer(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.int64())
    raise MalformedRequestError(
        f'column "{name}" has type {type_name(column.type)} and cannot be stored as a time: give '
        f'a timestamp, e.g. F.col("{name}").cast("timestamp"), or milliseconds since 1970 (long)'
    )


def missing_times(wanted: Collection[str], have: Collection[str]) -> set[str]:
    """The wanted time columns that the present columns do not provide."""
    missing = set(wanted) - set(have)
    return missing - {WINDOW_START} if WINDOW in have else missing


def with_window(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with `window_start` and `window_end` from a column `window`, if they are missing."""
    if WINDOW_START in rows.schema.names or WINDOW not in rows.schema.names:
        return rows
    window = rows.column(WINDOW)
    if not pa.types.is_struct(window.type) or {f.name for f in window.type} != {"start", "end"}:
        raise MalformedRequestError(
            f'column "{WINDOW}" has type {type_name(window.type)} and is no window of Spark: name '
            f"the column that has the window's start {WINDOW_START}"
        )
    rows = rows.append_column(WINDOW_START, pc.struct_field(window, "start"))
    if WINDOW_END not in rows.schema.names:
        rows = rows.append_column(WINDOW_END, pc.struct_field(window, "end"))
    return rows


def hint_of_session(
    missing: Collection[str], have: Collection[str], definition: StoreDefinition
) -> str:
    """The advice for a `session_window`, which ends a gap later than its session."""
    if SESSION_WINDOW not in have or not {SESSION_START, SESSION_END} & set(missing):
        return ""
    return (
        f'. The column {SESSION_WINDOW} has them: {SESSION_START} is "{SESSION_WINDOW}.start", and '
        f'{SESSION_END}, the time of the last event, is "{SESSION_WINDOW}.end" less the gap '
        f"({shown_duration(definition.session_gap_ms or 0)})"
    )


def count_unaligned(starts: pa.Array, size_ms: int | None) -> int:
    """The number of windows that do not start at a multiple of the store's size."""
    return int(np.count_nonzero(starts.to_numpy() % size_ms)) if size_ms else 0
