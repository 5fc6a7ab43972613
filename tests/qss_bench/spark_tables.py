"""Measures writing and reading a large DataFrame with a store, against Parquet files."""

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_bench.report import Figure
from qss_spark.session import local_session
from qss_testing.pods.pod_process import PodCluster

ROWS = 5_000_000
VALUE_BYTES = 88  # With a key of 12 bytes a row has 100 bytes.


def measure(directory: Path) -> list[Figure]:
    """Seconds of one write and one read each, without targets: a store is not a file."""
    spark = local_session("bench-tables")
    files = str(directory / "parquet")
    with PodCluster(directory / "tables", pods=2, partitions=8, value_serde="bytes") as cluster:
        options = {"url": cluster.url, "store": cluster.store}
        rows = _rows(spark)
        written = (
            _seconds(
                lambda: rows.write.format("queryablestate").options(**options).mode("append").save()
            ),
            _seconds(lambda: rows.write.parquet(files)),
        )
        stored = spark.read.format("queryablestate").options(**options).load()
        read = (
            _seconds(lambda: _check(stored)),
            _seconds(lambda: _check(spark.read.parquet(files))),
        )
    spark.stop()
    return [_figure("write", *written), _figure("read", *read)]


def _rows(spark: SparkSession) -> DataFrame:
    number = F.lpad(F.col("id").cast("string"), 12, "0")
    value = F.substring(F.repeat(F.sha2(number, 256), 2), 1, VALUE_BYTES).cast("binary")
    return spark.range(ROWS, numPartitions=4).select(number.alias("key"), value.alias("value"))


def _check(rows: DataFrame) -> None:
    counted = rows.agg(F.count("key"), F.sum(F.length("value"))).collect()[0]
    assert tuple(counted) == (ROWS, ROWS * VALUE_BYTES), counted


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _figure(what: str, ours: float, theirs: float) -> Figure:
    return Figure(
        name=f"Spark batch {what} of 5 M rows of 100 bytes / Parquet",
        value=ours / theirs,
        unit="x",
        detail=f"{ours:.1f} / {theirs:.1f} s, {ROWS / ours:,.0f} rows/s",
    )
