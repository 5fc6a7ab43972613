"""One query writes several stores: each row into its own, each batch once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from qss_client import Store
from qss_core.errors import MalformedRequestError
from qss_spark import StoreSink, StoreSinks
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import ForeachBatch, JsonStream

pytestmark = pytest.mark.spark

COLUMNS = "side string, key string, value long"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PodCluster]]:
    clusters = {
        name: PodCluster(
            tmp_path_factory.mktemp(name), partitions=2, store=name, value_serde="int64"
        )
        for name in ("left", "right")
    }
    with ExitStack() as stack, ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(stack.enter_context, clusters.values()))
        yield clusters


def row(side: str | None, key: str, value: int) -> dict[str, Any]:
    return {"side": side, "key": key, "value": value}


def sinks(clusters: dict[str, PodCluster], writer: str) -> dict[str, StoreSink]:
    return {
        name: StoreSink(name, url=cluster.url, writer=writer) for name, cluster in clusters.items()
    }


def held(cluster: PodCluster, prefix: str) -> dict[str, int]:
    with Store(cluster.url, cluster.store) as store:
        return {found.key: found.value for found in store.prefix(prefix)}


def batch_of(cluster: PodCluster, writer: str) -> int | None:
    with Store(cluster.url, cluster.store) as store:
        assert list(store.range())
        return store.position.offset_of(f"@batch.{writer}", 1)


def test_each_row_goes_to_the_sink_that_its_column_names(
    spark: SparkSession, clusters: dict[str, PodCluster], tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, COLUMNS)
    stream.write([row("left", "r1", 1), row("right", "r1", 2)], [row("left", "r2", 3)])
    stream.run(StoreSinks("side", sinks(clusters, "routes")))
    assert held(clusters["left"], "r") == {"r1": 1, "r2": 3}
    assert held(clusters["right"], "r") == {"r1": 2}
    # A store also takes a batch that has no rows for the store.
    assert batch_of(clusters["left"], "routes") == batch_of(clusters["right"], "routes") == 1


@pytest.mark.parametrize("side", ["elsewhere", None])
def test_a_row_of_no_sink_stops_the_query_and_nothing_is_written(
    spark: SparkSession, clusters: dict[str, PodCluster], tmp_path: Path, side: str | None
) -> None:
    stream = JsonStream(spark, tmp_path, COLUMNS)
    stream.write([row("left", "lost", 1), row(side, "lost", 2)])
    with pytest.raises(StreamingQueryException, match=f"{side!r}.* is no sink: .*left, right"):
        stream.run(StoreSinks("side", sinks(clusters, f"lost-{side}")))
    assert held(clusters["left"], "lost") == {}


def test_a_missing_column_is_named(
    spark: SparkSession, clusters: dict[str, PodCluster], tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, "key string, value long")
    stream.write([{"key": "a", "value": 1}])
    with pytest.raises(StreamingQueryException, match="no column 'side' to choose a sink by"):
        stream.run(StoreSinks("side", sinks(clusters, "missing")))


def test_no_sinks_are_refused() -> None:
    with pytest.raises(MalformedRequestError, match="at least one sink"):
        StoreSinks("side", {})


def test_a_replay_repairs_a_crash_between_two_stores(
    spark: SparkSession, clusters: dict[str, PodCluster], tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, COLUMNS)
    stream.write([row("left", "c1", 1), row("right", "c1", 2)])

    def fail(rows: DataFrame, batch: int) -> None:
        raise RuntimeError("the driver died here")

    whole = sinks(clusters, "crash")
    broken: dict[str, ForeachBatch] = {"left": whole["left"], "right": fail}
    with pytest.raises(StreamingQueryException, match="the driver died here"):
        stream.run(StoreSinks("side", broken))  # type: ignore[arg-type] # A sink that fails.
    assert held(clusters["left"], "c") == {"c1": 1}
    assert held(clusters["right"], "c") == {}

    stream.write([row("left", "c1", 3)])
    stream.run(StoreSinks("side", sinks(clusters, "crash")))
    assert held(clusters["left"], "c") == {"c1": 3}
    assert held(clusters["right"], "c") == {"c1": 2}
    assert batch_of(clusters["left"], "crash") == batch_of(clusters["right"], "crash") == 1
