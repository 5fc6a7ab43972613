"""Measures micro-batches of a Spark query into a store, PostgreSQL and Redis, in turns."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_bench.loads.triggers import trigger_ms
from qss_bench.peers.servers import postgres_server, redis_server
from qss_bench.peers.sinks import PostgresSink, RedisSink, Sink
from qss_bench.peers.tables import Table
from qss_bench.report import Figure
from qss_spark import StoreSink
from qss_spark.session import local_session
from qss_testing.pods.pod_process import PodCluster

NEEDS = {"postgres", "initdb", "redis-server", "setpriv"}
PARTITIONS = 12  # As the example of the resource has it.
TARGET = 0.7
_KEYS_A_ROW = 10  # Each key is written again by every tenth batch.
_NOOP, _STORE, _POSTGRES, _REDIS = "noop", "store", "PostgreSQL", "Redis"


@dataclass(frozen=True, slots=True)
class Size:
    """The rows of a batch, and how many batches a round measures after those to warm up."""

    rows: int
    warm: int
    batches: int
    rounds: int


SIZES = (Size(200, 10, 40, 4), Size(5_000, 10, 30, 3), Size(100_000, 4, 10, 3))


@dataclass(slots=True)
class Triggers:
    """The times of triggers into one sink, a list of ms for each round."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """The median of all triggers."""
        return statistics.median(self._all)

    @property
    def p95_ms(self) -> float:
        """The time that nineteen of twenty triggers do not exceed."""
        return sorted(self._all)[int(len(self._all) * 0.95)]

    @property
    def _all(self) -> list[float]:
        return [one for some in self.rounds for one in some]


def measure(directory: Path) -> tuple[list[Table], list[Figure]]:
    """All sizes; every sink has a server of its own for all of them, and keys of each size."""
    spark = local_session("peers")
    spark.sparkContext.setLogLevel("OFF")  # It reports a stopped query as an error.
    columns = ("rows a batch, sink", "trigger, median (p95)", "rows/s", "to PostgreSQL")
    table, figures = Table("writes", (*columns, "without `noop`")), []
    with (
        postgres_server(directory / "postgres") as place,
        redis_server(directory / "redis") as (port, _),
        PodCluster(directory / "store", partitions=PARTITIONS) as cluster,
    ):

        def store(name: str) -> Sink:
            return StoreSink(cluster.store, url=cluster.url, writer=name)

        sinks: dict[str, Callable[[str], Sink | None]] = {
            _NOOP: lambda _: None,
            _STORE: store,
            _POSTGRES: lambda name: PostgresSink(place, query=name),
            _REDIS: lambda _: RedisSink(port),
        }
        for size in SIZES:
            figures += _measure_size(spark, directory, size, sinks, table)
    spark.stop()
    return [table], figures


def _measure_size(
    spark: SparkSession,
    directory: Path,
    size: Size,
    sinks: dict[str, Callable[[str], Sink | None]],
    table: Table,
) -> list[Figure]:
    found = {name: Triggers() for name in sinks}
    for number in range(size.rounds + 1):  # In the first one the JVM compiles.
        for name, make in sinks.items():
            run = f"{name}-{size.rows}-{number}"
            times = trigger_ms(
                _rows(spark, size),
                directory / "checkpoints" / run,
                make(run),
                warm=size.warm,
                batches=size.batches,
            )
            if number:
                found[name].rounds.append(times)
    theirs, floor = found[_POSTGRES], found[_NOOP].median_ms
    for name, one in found.items():
        above = (one.median_ms - floor) / (theirs.median_ms - floor)
        table.add(
            f"{size.rows:,} rows, {name}",
            f"{one.median_ms:.0f} ms ({one.p95_ms:.0f})",
            f"{size.rows / one.median_ms * 1000:,.0f}",
            f"{one.median_ms / theirs.median_ms:.2f}",
            "-" if name == _NOOP else f"{above:.2f}",
        )
    ours = found[_STORE]
    return [
        Figure(
            name=f"Spark micro-batch of {size.rows} rows / PostgreSQL",
            value=ours.median_ms / theirs.median_ms,
            unit="x",
            at_most=TARGET if size.rows == SIZES[0].rows else None,
            detail=f"{ours.median_ms:.0f} / {theirs.median_ms:.0f} ms a trigger",
        )
    ]


def _rows(spark: SparkSession, size: Size) -> DataFrame:
    """A stream with distinct keys in a batch, which come again, and values of about 90 bytes."""
    number = F.col("value")
    key = F.concat(F.lit(f"{size.rows}-"), (number % (_KEYS_A_ROW * size.rows)).cast("string"))
    hashed = F.sha2(number.cast("string"), 256)
    value = F.concat(F.lit('{"n":'), number, F.lit(',"hash":"'), hashed, F.lit('"}'))
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", size.rows)
    return source.option("numPartitions", 2).load().select(key.alias("key"), value.alias("value"))
