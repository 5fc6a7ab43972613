"""The store keeps with each batch the position of its inputs, from Spark's offset log."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from qss_spark import StoreSink
from qss_spark.sink.streaming_query import OffsetLog
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import JsonStream, held, positions, run_query

pytestmark = pytest.mark.spark

KEY_VALUE = "key string, value string"


def rows_of(source: DataFrame, prefix: str) -> DataFrame:
    """Rows with a key and a value for each number of the source."""
    return source.select(
        F.concat(F.lit(prefix), F.col("value").cast("string")).alias("key"),
        F.lit("1").alias("value"),
    )


@pytest.fixture(scope="module")
def kafka_like(spark: SparkSession) -> str:  # noqa: C901 only local classes are pickled by value.
    """A source with offsets as of Kafka: topics `<t>` and `<t>-b`, five rows in a batch."""

    class Partition(InputPartition):
        def __init__(self, start: int, end: int) -> None:
            super().__init__(start)
            self.start, self.end = start, end

    class Reader(DataSourceStreamReader):
        def __init__(self, topic: str, end: int) -> None:
            self.topic, self.end = topic, end

        def _offsets(self, end: int) -> dict[str, Any]:
            return {self.topic: {"0": end, "1": end}, f"{self.topic}-b": {"0": 0}}

        def initialOffset(self) -> dict[str, Any]:  # noqa: N802
            return self._offsets(0)

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
            return self._offsets(min(start[self.topic]["0"] + 5, self.end))

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            return [Partition(start[self.topic]["0"], end[self.topic]["0"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            assert isinstance(partition, Partition)
            for number in range(partition.start, partition.end):
                yield (number,)

        def commit(self, end: dict[str, Any]) -> None:
            pass

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "kafka-like"

        def schema(self) -> str:
            return "value long"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return Reader(str(self.options["topic"]), int(str(self.options["end"])))

    spark.dataSource.register(Source)
    return Source.name()


def test_files_are_a_topic_of_the_writer(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write([{"key": "file/a", "value": "1"}], [{"key": "file/b", "value": "2"}])
    stream.run(StoreSink("words", words.url, "file"))
    position = positions(words)
    assert position["file.source-0"] == {"0": 1}
    assert position["@batch.file"] == {"1": 1}


@pytest.mark.parametrize("kind", ["rate-micro-batch", "rate"])
def test_the_position_of_a_rate_source_is_its_last_offset(
    spark: SparkSession, words: PodCluster, tmp_path: Path, kind: str
) -> None:
    source = spark.readStream.format(kind)
    if kind == "rate-micro-batch":
        source = source.option("rowsPerBatch", 7)
    query = run_query(
        rows_of(source.load(), f"{kind}/"), StoreSink("words", words.url, kind), tmp_path / "c"
    )
    last = query.recentProgress[-1]
    end = json.loads(last["sources"][0]["endOffset"])
    number = end["offset"] if isinstance(end, dict) else end
    assert positions(words)[f"{kind}.source-0"] == {"0": number}
    assert positions(words)[f"@batch.{kind}"] == {"1": last["batchId"]}


def test_positions_name_kafkas_topics_and_stop_before_its_exclusive_ends(
    spark: SparkSession, words: PodCluster, tmp_path: Path, kafka_like: str
) -> None:
    source = spark.readStream.format(kafka_like).option("topic", "orders").option("end", 7)
    for end in (5, 7):
        rows = rows_of(source.load(), "kafka/")
        run_query(rows, StoreSink("words", words.url, "kafka"), tmp_path / "c")
        position = positions(words)
        assert position["orders"] == {"0": end - 1, "1": end - 1}
        assert position["orders-b"] == {}, "no row of this topic was read"
    assert len(held(words, "kafka/")) == 7


def test_the_position_of_a_query_covers_both_of_its_sources(
    spark: SparkSession, words: PodCluster, tmp_path: Path, kafka_like: str
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE)
    stream.write([{"key": "two/a", "value": "1"}, {"key": "two/b", "value": "2"}])
    source = spark.readStream.format(kafka_like).option("topic", "payments").option("end", 3)
    both = stream.rows().union(rows_of(source.load(), "two/"))
    stream.run(StoreSink("words", words.url, "two"), both)
    position = positions(words)
    assert position["two.source-0"] == {"0": 0}
    assert position["payments"] == {"0": 2, "1": 2}
    assert set(held(words, "two/")) == {"two/a", "two/b", "two/0", "two/1", "two/2"}


def test_a_batch_without_data_moves_only_the_number_of_the_batch(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, "key string, at timestamp")
    stream.write(
        [{"key": "idle/a", "at": "2026-01-01T00:00:00Z"}],
        [{"key": "idle/b", "at": "2026-01-01T01:00:00Z"}],
    )
    closed = (
        stream.rows()
        .withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"), "key")
        .agg(F.count("*").alias("value"))
        .select("key", "value")
    )
    query = stream.run(StoreSink("words", words.url, "idle"), closed)
    batches = [one["batchId"] for one in query.recentProgress]
    assert query.recentProgress[-1]["numInputRows"] == 0
    assert held(words, "idle/") == {"idle/a": 1}, "the last batch closed the window"
    assert positions(words)["@batch.idle"] == {"1": batches[-1]}
    assert positions(words)["idle.source-0"] == {"0": 1}


def test_the_offset_log_is_the_same_through_hadoop(
    spark: SparkSession, words: PodCluster, tmp_path: Path
) -> None:
    stream = JsonStream(spark, tmp_path, KEY_VALUE, "a b#c")
    stream.write([{"key": "log/a", "value": "1"}])
    stream.run(StoreSink("words", words.url, "log"))
    written = (stream.checkpoint / "offsets" / "0").read_bytes()
    assert written.startswith(b"v1\n")
    for root in (
        f"file:{stream.checkpoint}",
        f"file://{stream.checkpoint}",
        str(stream.checkpoint),
    ):
        assert OffsetLog(spark, root).raw(0) == written
    assert OffsetLog(spark, f"file:{stream.checkpoint}").read_through_hadoop(0) == written
