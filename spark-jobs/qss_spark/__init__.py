"""Writes and reads stores with Spark: `StoreSink` for streams, `queryablestate` for batches.

A stream passes its batches to `sink`. `rows` encodes the rows of a batch in Spark's tasks, with
`column_types` and `time_columns` for columns that need a cast or a conversion. The tasks stage
the rows, and the driver commits the batch with its position. A batch job reads stores by `source`,
which also writes DataFrames by the writer of `sink`. `options` has the options of both.

`session` configures a Spark session for stores, and `java` finds a Java for it. `flights_job` runs
the example jobs of `jobs/` over the input that `flights` writes; `progress` prints a line for each
batch. `demo` runs these jobs against a local cluster, and `commands` adds it to `qss`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qss_spark.sink.store_sink import StoreSink
    from qss_spark.sink.store_sinks import StoreSinks

__all__ = ["StoreSink", "StoreSinks"]


def __getattr__(name: str) -> Any:
    """Imports Spark only for names that need it: `qss` imports this package for its commands."""
    if name == "StoreSink":
        from qss_spark.sink.store_sink import StoreSink

        return StoreSink
    if name == "StoreSinks":
        from qss_spark.sink.store_sinks import StoreSinks

        return StoreSinks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
