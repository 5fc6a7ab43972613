"""Filters of `read_store` read only what they need, and give the same rows as Spark's own."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_core.errors import UnknownParameterError
from qss_spark import read_store, write_store
from qss_spark.source.store_frame import StoreFrame
from qss_testing.pods.pod_process import PodCluster

pytestmark = pytest.mark.spark

PARTITIONS = 4
PACKAGES = [(f"lib{letter}{number}", number) for letter in "abc" for number in range(10)]
# What a filter says, the options that it adds, and whether it lets a row through.
FILTERS: list[tuple[str, dict[str, str], Callable[[str, int], bool]]] = [
    ("key = 'liba6'", {"keys": '["liba6"]'}, lambda key, _: key == "liba6"),
    (
        "key in ('liba6', 'libb1', 'none') and key <> 'libb1'",
        {"keys": '["liba6", "libb1", "none"]'},
        lambda key, _: key == "liba6",
    ),
    (
        "key = 'liba6' or key = 'libc1'",
        {"keys": '["liba6", "libc1"]'},
        lambda key, _: key in ("liba6", "libc1"),
    ),
    (
        "startswith(key, 'lib') and key like 'liba%' and value > 7",
        {"prefix": "liba"},
        lambda key, value: key in ("liba8", "liba9"),
    ),
    (
        "key > 'libb8' and key <= 'libc0'",
        {"from": "libb8", "to": "libc0"},
        lambda key, _: key in ("libb9", "libc0"),
    ),
    ("key = 'liba6' or value = 3", {}, lambda key, value: key == "liba6" or value == 3),
    ("upper(key) = 'LIBA6'", {}, lambda key, _: key == "liba6"),
    # These mean another value in each query on the frame.
    ("key < cast(current_timestamp() as string)", {}, lambda *_: False),
    ("key >= cast(cast('Today' as date) as string)", {}, lambda *_: True),
    ("key <> 'none' and key >= cast(now() as string)", {}, lambda *_: True),
]


@pytest.fixture(scope="module")
def packages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    directory = tmp_path_factory.mktemp("packages")
    members: dict[str, Any] = {"value_serde": "int32", "partitions": PARTITIONS}
    with PodCluster(directory, **members) as cluster:
        rows = spark.createDataFrame(PACKAGES, "key string, value int")
        write_store(rows, cluster.store, url=cluster.url)
        yield cluster


def pairs(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.select("key", "value").collect())


def test_a_filter_reads_what_it_lets_through(spark: SparkSession, packages: PodCluster) -> None:
    store = read_store(spark, packages.store, url=packages.url)
    for condition, narrowed, lets_through in FILTERS:
        found = store.filter(condition)
        assert isinstance(found, StoreFrame)
        assert found.narrowed == narrowed, condition
        assert pairs(found) == [row for row in PACKAGES if lets_through(*row)], condition


def test_a_filter_of_a_key_reads_one_partition_and_changes_no_other_frame(
    spark: SparkSession, packages: PodCluster
) -> None:
    store = read_store(spark, packages.store, url=packages.url)
    one, other = store.filter(store["key"] == "liba6"), store.where(F.col("key") == "libb1")
    assert one.rdd.getNumPartitions() == 1
    assert store.rdd.getNumPartitions() == PARTITIONS
    # With Spark's own push-down the last filter stays at the source, and both rows are libb1.
    assert pairs(one.union(other)) == [("liba6", 6), ("libb1", 1)]
    assert store.count() == len(PACKAGES)
    # Columns of the whole frame are those of the filtered one, also for a second filter.
    again = one.filter(store["value"] == 6).select(store["key"])
    assert [row["key"] for row in again.collect()] == ["liba6"]
    assert pairs(one.filter("key = 'libb1'")) == []
    assert pairs(one.filter(F.udf(lambda value: value > 5, "boolean")("value"))) == [("liba6", 6)]


def test_the_users_own_options_stay(spark: SparkSession, packages: PodCluster) -> None:
    store = read_store(spark, packages.store, url=packages.url, from_="libb", schema="key string")
    found = store.filter("key < 'libb3'")
    assert isinstance(found, StoreFrame)
    assert found.narrowed == {}
    assert sorted(row["key"] for row in found.collect()) == ["libb0", "libb1", "libb2"]
    with pytest.raises(UnknownParameterError, match="'kei' is unknown"):
        read_store(spark, packages.store, url=packages.url, kei="a")
    with pytest.raises(PySparkException, match="nosuch"):
        read_store(spark, packages.store, url=packages.url).filter("nosuch = 1")
