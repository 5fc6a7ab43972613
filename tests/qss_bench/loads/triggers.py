"""Measures the triggers of a streaming query."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame


def trigger_ms(
    rows: DataFrame,
    checkpoint: Path,
    sink: Callable[[DataFrame, int], None] | None,
    *,
    warm: int,
    batches: int,
) -> list[float]:
    """The times of so many triggers in milliseconds, after `warm` others; None is Spark's `noop`.

    Raises the query's failure.
    """
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(sink) if sink else writer.format("noop")
    query = writer.trigger(processingTime="0 seconds").start()
    seen: dict[int, float] = {}
    while len(seen) < warm + batches and query.isActive:
        query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                seen[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
    failure = query.exception()
    query.stop()
    if failure:
        raise failure
    return [seen[batch] for batch in sorted(seen)[warm:]]
