"""Runs jobs over the flights: their arguments, input and query."""

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from qss_spark.flights import SCHEMA, WEATHER_SCHEMA, write_both, write_days
from qss_spark.progress import ProgressLines
from qss_spark.session import SHORT_RUN, local_session
from qss_spark.sink.store_sink import StoreSink
from qss_spark.sink.store_sinks import StoreSinks

_WEEK = 7
_PATTERN_SIGNS = frozenset("[]{}*?\\")
# The inputs of a job that joins: one directory of days each.
_SCHEMAS = {
    "flights": f"{SCHEMA}, source string",
    "weather": f"{WEATHER_SCHEMA}, source string",
}


@dataclass(frozen=True, slots=True)
class FlightsJob:
    """A job: the name of the job and its store, its plan, and the columns of its rows."""

    name: str
    plan: Callable[[DataFrame], DataFrame]
    key: tuple[str, ...]
    value: tuple[str, ...] = ("value",)
    files_per_trigger: int = _WEEK


@dataclass(frozen=True, slots=True)
class StateJob:
    """A job that writes no store: its results are the state of its query."""

    name: str
    plan: Callable[[DataFrame], DataFrame]
    files_per_trigger: int = _WEEK
    output_mode: str = "update"


@dataclass(frozen=True, slots=True)
class JoinJob:
    """A job over flights and weather that writes several stores, chosen by the column `store`."""

    name: str  # Also the writer's name in each store.
    plan: Callable[[DataFrame, DataFrame], DataFrame]
    stores: tuple[str, ...]
    files_per_trigger: int = _WEEK


def run_flights_job(job: FlightsJob, description: str) -> None:
    """Runs a job as a program until all files are in the store."""
    parser = _store_parser(description, job.files_per_trigger)
    parser.add_argument("--url", required=True, help="any pod of the store")
    parser.add_argument("--store", default=job.name)
    given = _parsed(parser)
    sink = StoreSink(
        given.store,
        url=given.url,
        keyColumns=job.key,
        valueColumns=job.value,
        tokenFile=given.token_file,
        caFile=given.ca_file,
    )

    def plan(spark: SparkSession, directory: Path) -> DataFrame:
        return job.plan(_read_days(spark, directory, SCHEMA, given.files_per_trigger))

    _run(job.name, given, write_days, plan, partial(_into, sink))


def run_state_job(job: StateJob, description: str) -> None:
    """Runs a job as a program until all files are in the state of its query."""
    given = _parsed(_parser(description, job.files_per_trigger))

    def plan(spark: SparkSession, directory: Path) -> DataFrame:
        return job.plan(_read_days(spark, directory, SCHEMA, given.files_per_trigger))

    def without_sink(rows: DataFrame) -> DataStreamWriter:
        return rows.writeStream.outputMode(job.output_mode).format("noop")

    _run(job.name, given, write_days, plan, without_sink)


def run_join_job(job: JoinJob, description: str) -> None:
    """Runs a job as a program until all files are in the stores."""
    parser = _store_parser(description, job.files_per_trigger)
    parser.add_argument(
        "--url",
        action="append",
        required=True,
        metavar="STORE=URL",
        help=f"any pod of a store, once for each: {', '.join(job.stores)}",
    )
    given = _parsed(parser)
    urls = _urls(parser, given.url, job.stores)
    sinks = {
        name: StoreSink(
            name,
            url=urls[name],
            writer=job.name,
            tokenFile=given.token_file,
            caFile=given.ca_file,
        )
        for name in job.stores
    }

    def plan(spark: SparkSession, directory: Path) -> DataFrame:
        sides = (
            _read_days(spark, directory / name, schema, given.files_per_trigger)
            for name, schema in _SCHEMAS.items()
        )
        return job.plan(*sides)

    _run(job.name, given, write_both, plan, partial(_into, StoreSinks("store", sinks)))


def _into(sink: StoreSink | StoreSinks, rows: DataFrame) -> DataStreamWriter:
    return rows.writeStream.outputMode("update").foreachBatch(sink)


def _store_parser(description: str, files_per_trigger: int) -> argparse.ArgumentParser:
    """The arguments of all jobs that write stores."""
    parser = _parser(description, files_per_trigger)
    parser.add_argument("--token-file", help="a bearer token, read again when it changes")
    parser.add_argument("--ca-file", help="the authorities by which https is checked")
    return parser


def _parser(description: str, files_per_trigger: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument(
        "--input", type=Path, help="a directory of daily CSV files; made when left out"
    )
    parser.add_argument(
        "--files-per-trigger",
        type=int,
        default=files_per_trigger,
        help="days; default: %(default)s",
    )
    parser.add_argument("--progress", action="store_true", help="a JSON line after each batch")
    return parser


def _parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The arguments, and `directory` with the input.

    Spark would take the signs of a pattern for other directories and read nothing. Escaped signs
    make it read each file of a batch several times.
    """
    given = parser.parse_args()
    given.directory = given.input or given.checkpoint / "input"
    path = given.directory.absolute()
    if signs := sorted(set(str(path)) & _PATTERN_SIGNS):
        parser.error(
            f"Spark takes {' '.join(signs)} for a pattern and would not read {path}: "
            "choose another directory"
        )
    return given


def _urls(
    parser: argparse.ArgumentParser, given: Sequence[str], stores: Sequence[str]
) -> dict[str, str]:
    urls = dict(one.partition("=")[::2] for one in given)
    if set(urls) != set(stores):
        parser.error(f"--url is given once for each of {', '.join(stores)}, as STORE=URL")
    return urls


def _read_days(
    spark: SparkSession, directory: Path, schema: str, files_per_trigger: int
) -> DataFrame:
    """The daily files as a stream, oldest first."""
    return (
        spark.readStream.schema(schema)
        .option("header", "true")
        .option("maxFilesPerTrigger", files_per_trigger)
        .csv(str(directory))
    )


def _run(
    name: str,
    given: argparse.Namespace,
    write_input: Callable[[Path], object],
    plan: Callable[[SparkSession, Path], DataFrame],
    written: Callable[[DataFrame], DataStreamWriter],
) -> None:
    directory = given.directory
    with ThreadPoolExecutor(1) as beside:  # The files are written while Java starts.
        made = None if given.input else beside.submit(write_input, directory)
        spark = local_session(name, configuration=SHORT_RUN)
        if made is not None:
            made.result()
    if given.progress:
        spark.streams.addListener(ProgressLines())
    query = (
        written(plan(spark, directory))
        .option("checkpointLocation", str(given.checkpoint / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
