"""A Spark stream keeps its columns and writes on while the format of its store changes."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from qss_spark import StoreSink
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.streams import JsonStream, held

pytestmark = pytest.mark.spark

BATCHES = 4
ROWS = 400
SCHEMA = "key string, value string"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    slowly = {"QSS_MIGRATION_SHARE": "0.0001", "QSS_MIGRATION_STEP_ROWS": "10"}
    made = PodCluster(
        tmp_path / "pods", partitions=2, format="Plain", value_serde="string", environment=slowly
    )
    with made:
        yield made


def change_format(cluster: PodCluster, row_format: str) -> None:
    definition = msgspec.structs.replace(cluster.assignment.definition, format=row_format)
    cluster.assignment = msgspec.structs.replace(cluster.assignment, definition=definition)
    cluster.assign(cluster.pods[0])


def is_moving(pod: PodProcess) -> bool:
    report = pod.report()
    return report is None or any(one.migration for one in report.replicas)


def finish(pod: PodProcess) -> None:
    """Lets a pod move the remaining rows at full speed."""
    pod.environment["QSS_MIGRATION_SHARE"] = "1"
    pod.stop()
    pod.start()
    wait_until(lambda: not is_moving(pod))


def test_a_stream_keeps_its_columns_while_the_format_changes(
    spark: SparkSession, cluster: PodCluster, tmp_path: Path
) -> None:
    (pod,) = cluster.pods
    stream = JsonStream(spark, tmp_path, SCHEMA)
    stream.write(
        [{"key": f"k{number}", "value": "0"} for number in range(ROWS * 10)],
        *(
            [{"key": f"k{number}", "value": f"{batch}"} for number in range(0, ROWS * 10, batch)]
            for batch in range(1, BATCHES)
        ),
    )
    sink = StoreSink(cluster.store, url=cluster.url)
    read: list[tuple[int, list[str]]] = []
    frames: list[DataFrame] = []

    def changing(rows: DataFrame, batch: int) -> None:
        """Changes the format before batch 1, and back before batch 3."""
        if batch == 1:
            change_format(cluster, "TimestampedWithHeaders")
        elif batch == 3:
            assert is_moving(pod), "the format changes back during the migration"
            change_format(cluster, "Plain")
        sink(rows, batch)
        frame = (
            spark.read.format("queryablestate")
            .option("url", cluster.url)
            .option("store", cluster.store)
            .load()
        )
        read.append((frame.count(), frame.columns))
        frames.append(frame)

    stream.run(changing)
    wanted = ROWS * 10
    assert read == [
        (wanted, ["key", "value"]),
        (wanted, ["key", "value", "timestamp", "headers"]),
        (wanted, ["key", "value", "timestamp", "headers"]),
        (wanted, ["key", "value"]),
    ]
    # A DataFrame that was planned with removed columns has nulls in them.
    early = frames[1].where("timestamp is null and headers is null")
    assert early.count() == wanted
    values = held(cluster, "k")
    assert values == {
        f"k{number}": f"{max(batch for batch in range(1, BATCHES) if number % batch == 0)}"
        for number in range(wanted)
    }
    finish(pod)
    assert held(cluster, "k") == values
