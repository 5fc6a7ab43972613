"""Spark jobs write a store of type Custom, and read it by an index."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_client import Store
from qss_spark import StoreSink
from qss_testing.pods.extension_package import install_guide
from qss_testing.pods.own_store_pods import running
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import JsonStream

pytestmark = pytest.mark.spark

ORIGINS = ("EWR", "JFK", "LGA", "", "7")
FLIGHTS: list[dict[str, Any]] = [
    {"key": f"N{n % 40}", "origin": ORIGINS[n % 7 % 5], "n": n} for n in range(120)
]
LATEST = {row["key"]: row for row in FLIGHTS}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    directory = tmp_path_factory.mktemp("own-store")
    install_guide(directory / "site")
    with running(directory, 2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def written(
    spark: SparkSession, cluster: PodCluster, tmp_path_factory: pytest.TempPathFactory
) -> PodCluster:
    """Three batches of a stream; the second and the third move rows in the index."""
    directory = tmp_path_factory.mktemp("own-stream")
    stream = JsonStream(spark, directory, "key string, origin string, n int")
    stream.write(FLIGHTS[:40], FLIGHTS[40:80], FLIGHTS[80:])
    sink = StoreSink(cluster.store, cluster.url, valueColumns=["origin", "n"], collect="never")
    stream.run(sink)
    return cluster


def read(spark: SparkSession, cluster: PodCluster, **options: str) -> dict[str, Any]:
    """The values by their keys."""
    reader = spark.read.format("queryablestate").option("url", cluster.url)
    rows = reader.option("store", cluster.store).options(**options).load()
    parsed = rows.select("key", F.from_json("value", "origin string, n int").alias("value"))
    found = [(row["key"], row["value"].asDict()) for row in parsed.collect()]
    assert len(found) == len(dict(found)), "the same key came twice"
    return dict(found)


def by_origin(lower: str, upper: str) -> dict[str, Any]:
    return {
        key: {"origin": row["origin"], "n": row["n"]}
        for key, row in LATEST.items()
        if lower <= row["origin"] <= upper
    }


def test_a_stream_keeps_rows_and_index(spark: SparkSession, written: PodCluster) -> None:
    everything = by_origin("", "~")
    with Store(written.url, written.store) as store:
        assert {row.key: row.value for row in store.range()} == everything
        indexed = [(row.index_key, row.key) for row in store.range(index="by-origin")]
    assert sorted(indexed) == sorted((row["origin"], key) for key, row in everything.items())
    assert read(spark, written) == read(spark, written, index="by-origin") == everything


@pytest.mark.parametrize(
    ("options", "bounds"),
    [
        ({"from": "EWR", "to": "JFK"}, ("EWR", "JFK")),
        ({"from": '"JFK"'}, ("JFK", "~")),
        ({"to": '"7"'}, ("", "7")),
    ],
)
def test_an_index_chooses_rows(
    spark: SparkSession, written: PodCluster, options: dict[str, str], bounds: tuple[str, str]
) -> None:
    found = read(spark, written, index="by-origin", **options)
    assert found == by_origin(*bounds)
    assert 0 < len(found) < len(LATEST)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": "by-tail"}, "MALFORMED_REQUEST: .*by-origin"),
        ({"index": "by-origin", "key": "a"}, "give one of key, keys, prefix, or from and to"),
        ({"index": "by-origin", "prefix": "a"}, "give one of key, keys, prefix, or from and to"),
        ({"index": "by-origin", "from": "7"}, "MALFORMED_REQUEST"),
        ({"index": "by-origin", "from": "b", "to": "a"}, "RANGE_REVERSED"),
    ],
)
def test_a_wrong_read_by_an_index_is_refused_before_a_task_runs(
    spark: SparkSession, written: PodCluster, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message) as told:
        read(spark, written, **options)
    assert "Task" not in str(told.value)
