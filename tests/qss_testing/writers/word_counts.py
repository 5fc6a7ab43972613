"""Stateful jobs over files of words, as a program of its own: the driver that tests kill.

    python -m qss_testing.writers.word_counts URL DIRECTORY JOB [JOB ...]

A job is the JSON of a Job. Each file of `<writer>-input` is a batch; the store gets each word's
count under `<writer>/<word>`.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from threading import Event
from typing import Literal, Self

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from qss_spark import StoreSink
from qss_spark.session import JAVA_OPTIONS, SHORT_RUN, local_session
from qss_testing.waiting import wait_until

STORE = "words"
TESTS = Path(__file__).parents[2]
# Seven jobs on two busy cores have taken more than two minutes.
DRIVER_S = 400.0
SMALL = {
    **SHORT_RUN,
    # Each driver loads 15 000 classes of Spark; to verify them takes an eighth of its CPU.
    JAVA_OPTIONS: (
        f"{SHORT_RUN[JAVA_OPTIONS]} -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    "spark.driver.memory": "640m",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": "qss_testing.writers.spark_workers",
}


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A query of a driver; after the commit of `stops_after` it waits until it is killed."""

    writer: str
    collect: Literal["always", "never"] = "always"
    stops_after: int | None = None

    def stopped_at(self, directory: Path) -> Path:
        """The file that the job makes when it stops."""
        return directory / f"{self.writer}-stopped"


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
    sink: StoreSink,
    job: Job,
    *,
    weight: int = 1,
) -> StreamingQuery:
    """Starts the job over all present files."""

    def write(rows: DataFrame, batch: int) -> None:
        sink(rows, batch)
        if batch == job.stops_after:
            job.stopped_at(directory).touch()
            Event().wait()

    return (
        counts(spark, directory / f"{job.writer}-input", job.writer, weight)
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(directory / f"{job.writer}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


class Driver:
    """Jobs as a child process with its own process group."""

    def __init__(self, directory: Path, url: str, *jobs: Job) -> None:
        self._log = directory / f"{jobs[0].writer}.log"
        command = [sys.executable, "-m", "qss_testing.writers.word_counts", url, str(directory)]
        command += [msgspec.json.encode(job).decode() for job in jobs]
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
    """Runs the jobs to their end; ends with the first failure."""
    url, directory = sys.argv[1], Path(sys.argv[2])
    jobs = [msgspec.json.decode(text, type=Job) for text in sys.argv[3:]]
    # A job that waits in a task keeps its core.
    cores = 1 + len(jobs)
    spark = local_session("word-counts", cores, SMALL)
    queries = [
        start(
            spark,
            directory,
            StoreSink(STORE, url, job.writer, collect=job.collect, valueColumns=["n"]),
            job,
        )
        for job in jobs
    ]
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main()
