"""A Versioned store is a sink of Spark, and no source."""

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

COLUMNS = "key string, value long, timestamp long"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    members: dict[str, Any] = {
        "type": StoreType.VERSIONED,
        "format": "Plain",
        "value_serde": "int64",
        "history_retention_ms": 3_600_000,
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


@pytest.mark.parametrize("schema", [None, "key string, value long"])
def test_a_read_is_refused_and_names_the_method_to_use(
    spark: SparkSession, cluster: PodCluster, schema: str | None
) -> None:
    reader = spark.read.format("queryablestate").options(url=cluster.url, store=cluster.store)
    with pytest.raises(PySparkException, match=r"Store\.versions"):
        (reader if schema is None else reader.schema(schema)).load().collect()
