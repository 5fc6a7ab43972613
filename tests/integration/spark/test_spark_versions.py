"""A Versioned store is a sink of Spark, which tells its dropped rows, and no source."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from qss_client import Store
from qss_core.model import StoreType
from qss_spark import StoreSink
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import JsonStream

pytestmark = pytest.mark.spark

HOUR = 3_600_000
DAY = 24 * HOUR
COLUMNS = "key string, value long, timestamp long"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    members: dict[str, Any] = {
        "type": StoreType.VERSIONED,
        "format": "Plain",
        "value_serde": "int64",
        "history_retention_ms": HOUR,
    }
    with PodCluster(tmp_path_factory.mktemp("versions"), partitions=3, **members) as cluster:
        yield cluster


def history(cluster: PodCluster, key: str) -> list[tuple[Any, int, int | None]]:
    with Store(cluster.url, cluster.store) as store:
        rows = store.versions(key, order="ASCENDING")
        return [(row.value, row.valid_from, row.valid_to) for row in rows]


def test_a_batch_and_a_stream_write_versions(
    spark: SparkSession, cluster: PodCluster, tmp_path: Path
) -> None:
    rows = [("a", 1, 1000), ("a", None, 3000), ("b", 2, 2000), ("a", 3, 2000)]
    writer = spark.createDataFrame(rows, COLUMNS).write.format("queryablestate")
    writer.options(url=cluster.url, store=cluster.store).mode("overwrite").save()
    assert history(cluster, "a") == [(1, 1000, 2000), (3, 2000, 3000)]
    assert history(cluster, "b") == [(2, 2000, None)]

    stream = JsonStream(spark, tmp_path, COLUMNS)
    stream.write([{"key": "a", "value": 4, "timestamp": 1500}, {"key": "b", "timestamp": 2500}])
    stream.run(StoreSink(cluster.store, url=cluster.url))
    assert history(cluster, "a") == [(1, 1000, 1500), (4, 1500, 2000), (3, 2000, 3000)]
    assert history(cluster, "b") == [(2, 2000, 2500)]


def test_a_stream_warns_of_rows_that_are_older_than_the_history(
    spark: SparkSession, cluster: PodCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The keys are in all partitions: the numbers of all of them are added."""

    def rows_at(*times: int) -> list[dict[str, Any]]:
        keys = (f"k{number}" for number in range(12))
        return [{"key": key, "value": 1, "timestamp": time} for key in keys for time in times]

    stream = JsonStream(spark, tmp_path, COLUMNS)
    stream.write(rows_at(DAY), rows_at(DAY - HOUR - 1, DAY - HOUR, DAY + 1), rows_at(DAY))
    stream.run(StoreSink(cluster.store, url=cluster.url, writer="late", collect="always"))
    older = "they are older than store words keeps (1 h)"
    told = [line for line in caplog.messages if "dropped" in line]
    assert told == [f"batch 1: 12 of 36 rows were dropped: {older}"]


@pytest.mark.parametrize("schema", [None, "key string, value long"])
def test_a_read_is_refused_and_names_the_method_to_use(
    spark: SparkSession, cluster: PodCluster, schema: str | None
) -> None:
    reader = spark.read.format("queryablestate").options(url=cluster.url, store=cluster.store)
    with pytest.raises(PySparkException, match=r"Store\.versions"):
        (reader if schema is None else reader.schema(schema)).load().collect()
