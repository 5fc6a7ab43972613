"""Flights, distance and mean arrival delay of every aircraft, kept up to date in a store.

    python aircraft_stats.py --url http://127.0.0.1:8080 --checkpoint /tmp/aircraft-stats
    spark-submit aircraft_stats.py --url ... --checkpoint ...

The store is `aircraft_stats.yaml` beside this file. Killed at any moment and started again with the
same checkpoint, the job goes on where the store is.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from qss_spark import StoreSink
from qss_spark.flights import SCHEMA, write_days
from qss_spark.progress import ProgressLines
from qss_spark.session import local_session


def aircraft_stats(flights: DataFrame) -> DataFrame:
    """The job: one row an aircraft; flights without a tail number are left out."""
    return (
        flights.where(F.col("tailnum").isNotNull())
        .groupBy("tailnum")
        .agg(
            F.count("*").alias("flights"),
            F.sum("distance").alias("distance"),
            F.avg("arr_delay").alias("mean_arrival_delay"),
        )
    )


def read_flights(spark: SparkSession, directory: Path, files_per_trigger: int) -> DataFrame:
    """The daily files as a stream, oldest first."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("header", "true")
        .option("maxFilesPerTrigger", files_per_trigger)
        .csv(str(directory))
    )


def main() -> None:
    """Runs until every file is in the store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="any pod of the store")
    parser.add_argument("--store", default="aircraft-stats")
    parser.add_argument("--checkpoint", required=True, type=Path)
    parser.add_argument(
        "--input", type=Path, help="a directory of daily CSV files; made when left out"
    )
    parser.add_argument("--files-per-trigger", type=int, default=7, help="days; default: a week")
    parser.add_argument("--progress", action="store_true", help="a JSON line after each batch")
    arguments = parser.parse_args()

    directory = arguments.input or arguments.checkpoint / "input"
    with ThreadPoolExecutor(1) as beside:  # The files are written while Java starts.
        written = None if arguments.input else beside.submit(write_days, directory)
        spark = local_session("aircraft-stats")
        if written is not None:
            written.result()
    if arguments.progress:
        spark.streams.addListener(ProgressLines())
    flights = read_flights(spark, directory, arguments.files_per_trigger)
    query = (
        aircraft_stats(flights)
        .writeStream.outputMode("update")
        .foreachBatch(
            StoreSink(
                arguments.store,
                url=arguments.url,
                keyColumns=["tailnum"],
                valueColumns=["flights", "distance", "mean_arrival_delay"],
            )
        )
        .option("checkpointLocation", str(arguments.checkpoint / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
