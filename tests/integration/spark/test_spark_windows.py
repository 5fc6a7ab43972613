"""Window and Session stores as a source and a sink of Spark."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_client import Store
from qss_core.model import StoreType
from qss_spark import StoreSink, read_store
from qss_spark.source.store_frame import StoreFrame
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import JsonStream

pytestmark = pytest.mark.spark

HOUR = 3_600_000
HEADERS = "headers array<struct<key: string, value: binary>>"
STORES: dict[str, dict[str, Any]] = {
    "windows": {
        "type": StoreType.WINDOW,
        "format": "TimestampedWithHeaders",
        "value_serde": "int64",
        "window_size_ms": HOUR,
        "retention_ms": 24 * HOUR,
    },
    "sessions": {
        "type": StoreType.SESSION,
        "format": "PlainWithHeaders",
        "value_serde": "int64",
        "session_gap_ms": HOUR,
        "retention_ms": 24 * HOUR,
    },
}
WINDOW_COLUMNS = (
    f"key string, window_start long, window_end long, value long, timestamp long, {HEADERS}"
)
WINDOWS: list[tuple[Any, ...]] = [
    ("a", 0, HOUR, 1, 5, [("h", b"\x00"), ("h", None)]),
    ("a", HOUR, 2 * HOUR, 2, 6, []),
    ("b", HOUR, 2 * HOUR, 3, 7, []),
]
SESSION_COLUMNS = f"key string, session_start long, session_end long, value long, {HEADERS}"
SESSIONS: list[tuple[Any, ...]] = [
    ("a", 0, 10, 1, [("h", b"x")]),
    ("a", 2 * HOUR, 3 * HOUR, 2, []),
    ("b", HOUR, HOUR, 3, []),
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PodCluster]]:
    clusters = {
        name: PodCluster(tmp_path_factory.mktemp(name), partitions=3, **members)
        for name, members in STORES.items()
    }
    with ExitStack() as stack, ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(stack.enter_context, clusters.values()))
        yield clusters


def write(rows: DataFrame, cluster: PodCluster, mode: str = "append") -> None:
    writer = rows.write.format("queryablestate").option("url", cluster.url)
    writer.option("store", cluster.store).mode(mode).save()


def read(spark: SparkSession, cluster: PodCluster, **options: Any) -> list[tuple[Any, ...]]:
    reader = spark.read.format("queryablestate").option("url", cluster.url)
    return plain(reader.options(**options).load(cluster.store))


def plain(rows: DataFrame) -> list[tuple[Any, ...]]:
    """The rows in order; times are milliseconds."""
    for name, kind in rows.dtypes:
        rows = rows.withColumn(name, F.unix_millis(name)) if kind == "timestamp" else rows
    return sorted(
        tuple([tuple(one) for one in cell] if isinstance(cell, list) else cell for cell in row)
        for row in rows.collect()
    )


def test_windows_are_written_chosen_replaced_and_read(
    spark: SparkSession, stores: dict[str, PodCluster]
) -> None:
    cluster = stores["windows"]
    write(spark.createDataFrame(WINDOWS, WINDOW_COLUMNS), cluster, "overwrite")
    assert read(spark, cluster) == WINDOWS
    assert read(spark, cluster, key="a") == WINDOWS[:2]
    assert read(spark, cluster, key="a", to="0") == WINDOWS[:1]
    assert read(spark, cluster, **{"from": "1970-01-01T01:00:00Z"}) == WINDOWS[1:]
    assert read(spark, cluster, keyFrom="b", keyTo="c") == WINDOWS[2:]
    assert read(spark, cluster, keyTo="a", **{"from": HOUR}) == WINDOWS[1:2]

    second = "window_start >= timestamp'1970-01-01 01:00:00Z'"
    narrowed = read_store(spark, cluster.store, url=cluster.url).filter(f"{second} and key = 'a'")
    assert isinstance(narrowed, StoreFrame)
    assert narrowed.narrowed == {"keys": '["a"]', "from": str(HOUR)}
    assert plain(narrowed) == WINDOWS[1:2]
    # What was read is written again, with its timestamps.
    whole = spark.read.format("queryablestate").option("url", cluster.url).load(cluster.store)
    write(spark.createDataFrame(whole.collect(), whole.schema), cluster, "overwrite")
    assert read(spark, cluster) == WINDOWS

    deleted = spark.createDataFrame([("a", 0, None)], "key string, window_start long, value long")
    write(deleted, cluster)
    assert read(spark, cluster) == WINDOWS[1:]

    write(spark.createDataFrame(WINDOWS[:1], WINDOW_COLUMNS), cluster, "overwrite")
    assert read(spark, cluster) == WINDOWS[:1]


def test_sessions_are_written_chosen_replaced_and_read(
    spark: SparkSession, stores: dict[str, PodCluster]
) -> None:
    cluster = stores["sessions"]
    write(spark.createDataFrame(SESSIONS, SESSION_COLUMNS), cluster, "overwrite")
    assert read(spark, cluster) == SESSIONS
    assert read(spark, cluster, key="a", endFrom="11") == SESSIONS[1:2]
    assert read(spark, cluster, startTo=HOUR) == [SESSIONS[0], SESSIONS[2]]
    assert read(spark, cluster, keyFrom="b") == SESSIONS[2:]
    early = "key >= 'b' and session_start < timestamp'1970-01-01 01:00:00.5Z'"
    narrowed = read_store(spark, cluster.store, url=cluster.url).where(early)
    assert isinstance(narrowed, StoreFrame)
    assert narrowed.narrowed == {"keyFrom": "b", "startTo": str(HOUR + 500)}
    assert plain(narrowed) == SESSIONS[2:]

    write(spark.createDataFrame(SESSIONS[1:], SESSION_COLUMNS), cluster, "overwrite")
    assert read(spark, cluster) == SESSIONS[1:]


def test_times_may_be_timestamps_of_spark(
    spark: SparkSession, stores: dict[str, PodCluster]
) -> None:
    start = datetime(2013, 1, 1, 10, tzinfo=UTC)
    columns = "key string, window_start timestamp, value long"
    rows = spark.createDataFrame([("late", start, 1)], columns)
    write(rows.selectExpr("*", "window_start + interval 1 hour as window_end"), stores["windows"])
    with Store(stores["windows"].url, stores["windows"].store) as store:
        (row,) = store.windows("late")
    assert (row.start, row.end) == (1_357_034_400_000, 1_357_034_400_000 + HOUR)


def test_rows_without_their_times_are_refused_and_nothing_is_written(
    spark: SparkSession, stores: dict[str, PodCluster]
) -> None:
    write(spark.createDataFrame([], WINDOW_COLUMNS), stores["windows"], "overwrite")
    for columns, row in (
        ("key string, value long", ("a", 1)),
        (WINDOW_COLUMNS, ("a", -1, HOUR - 1, 1, None, None)),
    ):
        with pytest.raises(PySparkException, match="window_start"):
            write(spark.createDataFrame([row], columns), stores["windows"])
    assert read(spark, stores["windows"]) == []


@pytest.mark.parametrize("collect", ["always", "never"])
def test_a_stream_writes_windows_and_another_checkpoint_takes_them_over(
    spark: SparkSession, stores: dict[str, PodCluster], tmp_path: Path, collect: Any
) -> None:
    cluster = stores["windows"]
    write(spark.createDataFrame([], WINDOW_COLUMNS), cluster, "overwrite")

    def run(name: str, rows: list[dict[str, Any]], **options: Any) -> None:
        stream = JsonStream(spark, tmp_path / name, "key string, window_start long, value long")
        stream.write(rows)
        sink = StoreSink(cluster.store, url=cluster.url, writer=collect, collect=collect, **options)
        stream.run(sink)

    run("one", [{"key": "a", "window_start": 0, "value": 1}])
    run("two", [{"key": "a", "window_start": HOUR, "value": 2}], onNewCheckpoint="takeOver")
    with Store(cluster.url, cluster.store) as store:
        assert [(row.start, row.value) for row in store.windows("a")] == [(0, 1), (HOUR, 2)]

    run(
        "three",
        [{"key": "b", "window_start": HOUR, "value": 3}],
        onNewCheckpoint="takeOver",
        replace=True,
    )
    with Store(cluster.url, cluster.store) as store:
        assert [(row.key, row.value) for row in store.windows()] == [("b", 3)]
