"""`StoreSinks`: one query writes several stores; a column chooses the store of each row.

The batch is computed once and cached while the stores take their rows, one after the other. Each
store commits its rows in its own transaction with the same batch id. After a crash between two
commits the replay completes the batch. A reader of several stores bounds its reads by
`@batch.<writer>`.
"""

from collections.abc import Mapping

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_core.errors import MalformedRequestError
from qss_spark.sink.store_sink import StoreSink


class StoreSinks:
    """Give it to `foreachBatch`: `StoreSinks(column="store", sinks={"left": StoreSink(...), ...})`.

    column: the name of each row's sink; it is not written. sinks: by the values of the column. If
    all have the same `writer`, the bound `{"@batch.<writer>": ...}` reads the same batch from every
    store.

    Raises MalformedRequestError, and writes nothing, if a row has no sink.
    """

    def __init__(self, column: str, sinks: Mapping[str, StoreSink]) -> None:
        """The stores are contacted at the first batch."""
        if not sinks:
            raise MalformedRequestError("StoreSinks needs at least one sink")
        self._column = column
        self._sinks = dict(sinks)

    def __call__(self, rows: DataFrame, batch: int) -> None:
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
        """Raises for rows without a sink, which would be lost."""
        column = F.col(self._column)
        others = rows.where(column.isNull() | ~column.isin(*self._sinks)).select(column).take(1)
        if others:
            raise MalformedRequestError(
                f"a row's column {self._column} is {others[0][0]!r}, which is no sink: there are "
                f"{', '.join(self._sinks)}"
            )
