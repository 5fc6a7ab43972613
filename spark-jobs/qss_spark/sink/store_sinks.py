"""`StoreSinks`: one query writes several stores, each row into the one that a column names.

The batch is computed once and kept while the stores take their rows, one after the other. Each
store commits it in a transaction of its own under the same batch id: a crash between two of them is
made good by the replay, and a reader of several stores bounds its reads by `@batch.<writer>`.
"""

from collections.abc import Mapping

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_core.errors import MalformedRequestError
from qss_spark.sink.store_sink import StoreSink


class StoreSinks:
    """Give it to `foreachBatch`: `StoreSinks(column="store", sinks={"left": StoreSink(...), ...})`.

    column: names each row's sink; it does not go into the store.
    sinks: by the names that the column has. With one `writer` name for all of them, one bound
        `{"@batch.<writer>": ...}` reads the same batch from every store.

    Raises MalformedRequestError, and writes nothing, where a row names no sink.
    """

    def __init__(self, column: str, sinks: Mapping[str, StoreSink]) -> None:
        """Remembers; the stores are asked when the first batch comes."""
        if not sinks:
            raise MalformedRequestError("StoreSinks needs at least one sink")
        self._column = column
        self._sinks = dict(sinks)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Writes one micro-batch; Spark calls it."""
        if self._column not in rows.columns:
            raise MalformedRequestError(
                f"there is no column {self._column!r} to choose a sink by: there are {rows.columns}"
            )
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._check_names(kept)
            for name, sink in self._sinks.items():
                sink(kept.where(F.col(self._column) == name).drop(self._column), batch)
        finally:
            kept.unpersist()

    def _check_names(self, rows: DataFrame) -> None:
        """A row of no sink would be lost."""
        column = F.col(self._column)
        others = rows.where(column.isNull() | ~column.isin(*self._sinks)).select(column).take(1)
        if others:
            raise MalformedRequestError(
                f"a row's column {self._column} is {others[0][0]!r}, which is no sink: there are "
                f"{', '.join(self._sinks)}"
            )
