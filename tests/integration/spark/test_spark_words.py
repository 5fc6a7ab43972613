"""Spark jobs warn of dropped rows and misaligned windows, and refuse unsupported streams.

The batch job is a child process: its tests read its standard error, which Spark's workers inherit.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from qss_core.model import StoreType
from qss_spark import StoreSink
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.streams import JsonStream

pytestmark = pytest.mark.spark

HOUR = 3_600_000
DAY = 24 * HOUR
COLUMNS = "key string, window_start long, value long"
PROGRAM = """
import sys
from pyspark.sql import functions as F
from qss_spark.session import local_session
from qss_testing.writers.word_counts import SMALL

words, windows = ({"url": url, "store": "words"} for url in sys.argv[1:])
spark = local_session("words", configuration=SMALL)
key = F.concat(F.lit("early/"), F.col("id").cast("string")).alias("key")
rows = spark.range(100_000).select(key, F.lit('"' + "x" * 100 + '"').alias("value"))
rows.write.format("queryablestate").options(**words).mode("append").save()
read = spark.read.format("queryablestate").options(**words, prefix="early/").load()
found = [len(read.limit(3).collect()) for _ in range(3)]

def write(*starts):
    rows = [(f"k{number}", start, number) for start in starts for number in range(6)]
    frame = spark.createDataFrame(rows, "key string, window_start long, value long")
    frame.write.format("queryablestate").options(**windows).mode("append").save()

write(DAY, DAY + 1)
write(0, DAY)
print(found, read.count())
""".replace("DAY", str(DAY))


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    members: dict[str, Any] = {
        "type": StoreType.WINDOW,
        "format": "Plain",
        "value_serde": "int64",
        "window_size_ms": HOUR,
        "retention_ms": 2 * HOUR,
    }
    directory = tmp_path_factory.mktemp("windows")
    with PodCluster(directory, pods=2, partitions=2, **members) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ended(
    words: PodCluster, windows: PodCluster, tmp_path_factory: pytest.TempPathFactory
) -> "subprocess.CompletedProcess[str]":
    """The ended program; the name of its machine has no address."""
    hosts = tmp_path_factory.mktemp("hosts") / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")  # Java resolves only this name.
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"},
        "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={hosts}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, words.url, windows.url],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=environment,
    )


def test_a_machine_whose_name_has_no_address_has_a_session(
    ended: "subprocess.CompletedProcess[str]",
) -> None:
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == "[3, 3, 3] 100000\n"


def test_a_batch_job_warns_of_dropped_rows_and_of_misaligned_windows(
    ended: "subprocess.CompletedProcess[str]",
) -> None:
    dropped = "batch 0: 6 of 12 rows were dropped: they are older than store words keeps"
    assert ended.stderr.count(dropped) == 1
    assert ended.stderr.count("6 windows do not start at a multiple of the windowSize") == 1


def rows_at(*starts: int) -> list[dict[str, Any]]:
    """Six rows at each start, with keys in both partitions."""
    return [
        {"key": f"s{number}", "window_start": start, "value": number}
        for start in starts
        for number in range(6)
    ]


def test_a_stream_warns_of_dropped_rows_and_once_of_misaligned_windows(
    spark: SparkSession, windows: PodCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = JsonStream(spark, tmp_path, COLUMNS)
    stream.write(rows_at(DAY, DAY + 1), rows_at(0, DAY, DAY + 1))
    stream.run(StoreSink(windows.store, windows.url, collect="always"))
    assert "batch 1: 6 of 18 rows were dropped: they are older than store words" in caplog.text
    assert "batch 0: 6 windows do not start at a multiple of the windowSize" in caplog.text
    assert "batch 1: 6 windows" not in caplog.text
    assert "batch 0: 6 of" not in caplog.text


def test_a_stream_into_the_format_is_refused_and_names_the_sink(
    words: PodCluster, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("string(value) key", "'1' value")
    stream = rows.writeStream.format("queryablestate").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match=r'foreachBatch\(StoreSink\("words"'):
        stream.option("url", words.url).option("store", words.store).start().awaitTermination()


def test_the_docs_explain_the_message_of_spark_on_update_mode(
    words: PodCluster, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate").load().selectExpr("string(value) key", "'1' value")
    stream = rows.writeStream.format("queryablestate").option("checkpointLocation", str(tmp_path))
    stream = stream.option("url", words.url).option("store", words.store).outputMode("update")
    said = "requirement failed: queryablestate does not support Update mode"
    with pytest.raises(StreamingQueryException, match=said):
        stream.start().awaitTermination()
    assert (
        f"`{said}`: use " in (Path(__file__).parents[3] / "spark-jobs/docs/writing.md").read_text()
    )


def test_a_stream_out_of_the_format_is_refused_and_names_the_batch_source(
    words: PodCluster, spark: SparkSession, tmp_path: Path
) -> None:
    reader = spark.readStream.format("queryablestate").option("url", words.url)
    rows = reader.option("store", words.store).load()
    stream = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamingQueryException, match=r'spark\.read\.format\("queryablestate"\)'):
        stream.start().awaitTermination()
