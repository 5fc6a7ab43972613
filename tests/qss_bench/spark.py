"""Measures a micro-batch of 200 rows into a store, against the same query into `noop`.

It has no target: nobody would choose a sink that keeps nothing.
"""

import statistics
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_bench.loads.triggers import trigger_ms
from qss_bench.report import Figure
from qss_spark import StoreSink
from qss_spark.session import local_session
from qss_testing.pods.pod_process import PodCluster

BATCH_ROWS = 200
WARM_UP = 10
BATCHES = 40
ROUNDS = 5


def measure(directory: Path) -> list[Figure]:
    """Median trigger times of interleaved rounds, after one round in which the JVM compiles."""
    spark = local_session("bench")
    spark.sparkContext.setLogLevel("OFF")  # It reports a stopped query as an error.
    ours, theirs = [], []
    with PodCluster(directory / "spark", pods=1, partitions=12) as cluster:
        for number in range(ROUNDS + 1):
            theirs.append(_median_ms(spark, directory / f"noop{number}", None))
            sink = StoreSink(cluster.store, url=cluster.url, writer=f"bench{number}")
            ours.append(_median_ms(spark, directory / f"store{number}", sink))
    spark.stop()
    ours, theirs = ours[1:], theirs[1:]
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = ratios.index(sorted(ratios)[len(ratios) // 2])
    return [
        Figure(
            name="Spark micro-batch of 200 rows / noop sink",
            value=ratios[middle],
            unit="x",
            detail=f"{ours[middle]:.0f} / {theirs[middle]:.0f} ms a trigger",
        )
    ]


def _median_ms(spark: SparkSession, checkpoint: Path, sink: StoreSink | None) -> float:
    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", BATCH_ROWS)
        .option("numPartitions", 2)
        .load()
        .select(
            F.col("value").cast("string").alias("key"),
            F.concat(F.lit('{"n":'), F.col("value").cast("string"), F.lit("}")).alias("value"),
        )
    )
    found = trigger_ms(rows, checkpoint, sink, warm=WARM_UP, batches=BATCHES)
    return statistics.median(found)
