"""Writes and reads stores with Spark: `StoreSink` for streams, `queryablestate` for batches.

A stream passes each of its batches to `sink`:

1. `rows` encodes the rows: serialized, partitioned as the store, sorted by key. `column_types`
   first checks the columns against the store's serdes, and an error names the cast that helps.
   `time_columns` converts columns of times.
2. Spark's tasks encode and stage a large batch; the driver does it for a small one. `options` has
   the options of the data source, and the batch that the driver sends to its tasks.
3. The driver commits the batch with the position of the query. Readers see the batch in all
   partitions from then on.

A batch job reads a store by `source`, as a table with the columns of its keys and values
(`read_store`). It also writes DataFrames (`write_store`), by the writer of `sink`.

`state` reads the state of a query from its checkpoint, without Spark, and `mirroring` copies it
into stores. `early_stop` ends a worker whose answer Spark does not want without PySpark's
traceback. `session` configures a Spark session for stores, and `java` finds a Java for it.
`flights_job` runs the example jobs of `jobs/` over the input that `flights` writes; `progress`
prints a line for each batch. `demo` runs these jobs against a local cluster, and `commands` adds it
to `qss`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qss_spark.mirroring.driver import mirror
    from qss_spark.sink.store_sink import StoreSink
    from qss_spark.sink.store_sinks import StoreSinks
    from qss_spark.source.store_frame import read_store, write_store

__all__ = ["StoreSink", "StoreSinks", "mirror", "read_store", "write_store"]


def __getattr__(name: str) -> Any:
    """Imports Spark only for names that need it: `qss` imports this package for its commands."""
    if name == "StoreSink":
        from qss_spark.sink.store_sink import StoreSink

        return StoreSink
    if name == "StoreSinks":
        from qss_spark.sink.store_sinks import StoreSinks

        return StoreSinks
    if name == "mirror":
        from qss_spark.mirroring.driver import mirror

        return mirror
    if name in ("read_store", "write_store"):
        from qss_spark.source import store_frame

        return getattr(store_frame, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
