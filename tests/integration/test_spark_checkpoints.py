"""A query continues from the state of the committed batch, not from the state of a dead driver."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from qss_client import Store
from qss_spark import StoreSink
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers import word_counts
from qss_testing.writers.word_counts import Driver, write_words

pytestmark = pytest.mark.spark


def test_a_rerun_batch_replaces_the_state_that_a_dead_driver_left(
    words: PodCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """The driver dies between the state of a batch and its commit; then the program changes."""
    writer = "replaced"
    source, checkpoint = tmp_path / f"{writer}-input", tmp_path / f"{writer}-checkpoint"
    write_words(source, "a", "a")
    with Driver(tmp_path, words.url, writer, "--dies-after", "1") as driver:
        assert driver.ended() == -9, driver.said()

    def go_on() -> None:
        sink = StoreSink(words.store, words.url, writer, valueColumns=["n"])
        query = word_counts.start(spark, source, checkpoint, sink, writer, weight=100)
        query.awaitTermination()

    go_on()  # Batch 1 again: 1 from batch 0, plus 100.
    write_words(source, "a")
    go_on()  # Batch 2 reads the state from the files of batch 1.
    with Store(words.url, words.store) as store:
        row = store.get(f"{writer}/a")
    assert row is not None
    assert row.value == 201
