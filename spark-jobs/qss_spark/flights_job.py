"""What all jobs over the flights share: their arguments, their input, the query."""

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from qss_spark.flights import SCHEMA, write_days
from qss_spark.progress import ProgressLines
from qss_spark.session import local_session
from qss_spark.sink import StoreSink

_WEEK = 7


@dataclass(frozen=True, slots=True)
class FlightsJob:
    """A job: its name, which is also its store's, its plan, and what of its rows goes there."""

    name: str
    plan: Callable[[DataFrame], DataFrame]
    key: tuple[str, ...]
    value: tuple[str, ...] = ("value",)
    files_per_trigger: int = _WEEK


def read_flights(spark: SparkSession, directory: Path, files_per_trigger: int) -> DataFrame:
    """The daily files as a stream, oldest first."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("header", "true")
        .option("maxFilesPerTrigger", files_per_trigger)
        .csv(str(directory))
    )


def run_flights_job(job: FlightsJob, description: str) -> None:
    """Runs a job as a program until every file is in the store."""
    arguments = _parse(job, description)
    directory = arguments.input or arguments.checkpoint / "input"
    with ThreadPoolExecutor(1) as beside:  # The files are written while Java starts.
        written = None if arguments.input else beside.submit(write_days, directory)
        spark = local_session(job.name)
        if written is not None:
            written.result()
    if arguments.progress:
        spark.streams.addListener(ProgressLines())
    flights = read_flights(spark, directory, arguments.files_per_trigger)
    query = (
        job.plan(flights)
        .writeStream.outputMode("update")
        .foreachBatch(
            StoreSink(
                arguments.store,
                url=arguments.url,
                keyColumns=job.key,
                valueColumns=job.value,
                tokenFile=arguments.token_file,
                caFile=arguments.ca_file,
            )
        )
        .option("checkpointLocation", str(arguments.checkpoint / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def _parse(job: FlightsJob, description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", required=True, help="any pod of the store")
    parser.add_argument("--store", default=job.name)
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument(
        "--input", type=Path, help="a directory of daily CSV files; made when left out"
    )
    parser.add_argument(
        "--files-per-trigger",
        type=int,
        default=job.files_per_trigger,
        help="days; default: %(default)s",
    )
    parser.add_argument("--token-file", help="a bearer token, read again when it changes")
    parser.add_argument("--ca-file", help="the authorities by which https is checked")
    parser.add_argument("--progress", action="store_true", help="a JSON line after each batch")
    return parser.parse_args()
