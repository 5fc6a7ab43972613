"""The query of `kills`, a program of its own: `python -m qss_bench.peers.query SINK PLACE IN CK`.

It counts the keys of its input, a file a batch. SINK is a name of `SINKS`; PLACE says where the
sink's server is. Once batch N is computed the program prints `begins N`, writes the batch, and
prints `wrote N MS`.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_bench.mirrored.side import tell
from qss_bench.peers.sinks import PostgresSink, RedisSink, Sink
from qss_spark import StoreSink
from qss_spark.session import SHORT_RUN, local_session

STORE = "words"


@dataclass(frozen=True, slots=True)
class Kind:
    """How a sink is made, and whether it adds what a batch counted or replaces whole counts."""

    make: Callable[[str], Sink]
    adds: bool = False


SINKS = {
    "store": Kind(lambda place: StoreSink(STORE, url=place)),
    "PostgreSQL": Kind(lambda place: PostgresSink(place, adds=True), adds=True),
    "Redis, INCRBY": Kind(lambda place: RedisSink(int(place), adds=True), adds=True),
    "Redis, MSET of whole counts": Kind(lambda place: RedisSink(int(place))),
}


def main() -> None:
    """Runs until it is killed."""
    name, place, source, checkpoint = sys.argv[1:]
    kind = SINKS[name]
    session = local_session("killed", configuration=SHORT_RUN)
    sink = kind.make(place)
    rows = session.readStream.schema("k string").option("maxFilesPerTrigger", 1).json(source)
    if not kind.adds:
        rows = rows.groupBy("k").agg(F.count("*").alias("n"))
    writer = rows.writeStream.outputMode("append" if kind.adds else "update")
    writer = writer.foreachBatch(_telling(sink, counts=kind.adds))
    writer = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds")
    writer.start().awaitTermination()


def _telling(sink: Sink, *, counts: bool) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch: int) -> None:
        if counts:
            rows = rows.groupBy("k").agg(F.count("*").alias("n"))
        rows = rows.select(F.col("k").alias("key"), F.col("n").cast("string").alias("value"))
        rows = rows.persist()
        rows.count()
        began_s = time.perf_counter()
        tell(f"begins {batch}")
        sink(rows, batch)
        tell(f"wrote {batch} {(time.perf_counter() - began_s) * 1000:.0f}")
        rows.unpersist()

    return write


if __name__ == "__main__":
    main()
