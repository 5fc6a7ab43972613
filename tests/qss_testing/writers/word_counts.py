"""A stateful job over files of words, as a program of its own: the driver that tests kill.

    python -m qss_testing.writers.word_counts --url ... --writer ... --checkpoint ... --input ...

Each file is a batch; the store gets each word's count under `<writer>/<word>`.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from qss_spark import StoreSink
from qss_spark.session import SHORT_RUN, local_session
from qss_testing.waiting import wait_until

STORE = "words"
TESTS = Path(__file__).parents[2]
# Six jobs that start together on two busy cores have taken more than two minutes.
DRIVER_S = 400.0
SMALL = {
    **SHORT_RUN,
    "spark.driver.memory": "640m",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "qss_testing.writers.spark_workers",
}


def write_words(directory: Path, *batches: str) -> None:
    """Writes a file for each batch; Spark reads files in order of their times."""
    directory.mkdir(parents=True, exist_ok=True)
    first = len(list(directory.glob("*.txt")))
    for number, words in enumerate(batches, start=first):
        draft = directory / f".{number}"
        draft.write_text(words.replace(" ", "\n") + "\n")
        os.utime(draft, (1_000_000 + number, 1_000_000 + number))
        draft.replace(directory / f"{number:04d}.txt")


def expected_counts(writer: str, *batches: str) -> dict[str, int]:
    """The store's final counts after these batches."""
    counted = Counter(word for words in batches for word in words.split())
    return {f"{writer}/{word}": count for word, count in counted.items()}


def counts(spark: SparkSession, directory: Path, writer: str, weight: int = 1) -> DataFrame:
    """The job's rows, `key` and `n`; each word counts as `weight`."""
    words = spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory))
    key = F.concat(F.lit(f"{writer}/"), F.col("value")).alias("key")
    return words.select(key).groupBy("key").agg(F.sum(F.lit(weight)).alias("n"))


def start(
    spark: SparkSession,
    directory: Path,
    checkpoint: Path,
    sink: StoreSink,
    writer: str,
    *,
    dies_before: int | None = None,
    dies_after: int | None = None,
    weight: int = 1,
) -> StreamingQuery:
    """Starts the job over all present files."""

    def write(rows: DataFrame, batch: int) -> None:
        if batch == dies_before:
            die()
        sink(rows, batch)
        if batch == dies_after:
            die()

    return (
        counts(spark, directory, writer, weight)
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def die() -> None:
    """Kills this driver and its JVM, which share a process group."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


class Driver:
    """The job as a child process with its own process group."""

    def __init__(self, directory: Path, url: str, writer: str, *options: str) -> None:
        self._log = directory / f"{writer}.log"
        command = [sys.executable, "-m", "qss_testing.writers.word_counts", "--url", url]
        command += ["--writer", writer, "--checkpoint", str(directory / f"{writer}-checkpoint")]
        command += ["--input", str(directory / f"{writer}-input"), *options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kills the driver and its JVM."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ended(self) -> int:
        """Waits for the end; returns the exit code."""
        wait_until(lambda: self._process.poll() is not None, DRIVER_S)
        assert self._process.returncode is not None
        return self._process.returncode

    def said(self) -> str:
        """The text that the process printed so far."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()


def main() -> None:
    """Runs the job to its end, or until it kills itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--writer", required=True)
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument("--input", required=True, type=Path)
    parser.add_argument("--collect", default="always")
    parser.add_argument("--dies-before", type=int)
    parser.add_argument("--dies-after", type=int)
    given = parser.parse_args()
    sink = StoreSink(STORE, given.url, given.writer, collect=given.collect, valueColumns=["n"])
    start(
        local_session("word-counts", configuration=SMALL),
        given.input,
        given.checkpoint,
        sink,
        given.writer,
        dies_before=given.dies_before,
        dies_after=given.dies_after,
    ).awaitTermination()


if __name__ == "__main__":
    main()
