"""Writes departures, cancellations and mean delay of every hour at every airport into a store.

    python departures.py --url http://127.0.0.1:8080 --checkpoint /tmp/departures
    spark-submit departures.py --url ... --checkpoint ...

The store is `departures.yaml` beside this file. It drops hours that are older than its retention.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_spark.flights_job import FlightsJob, run_flights_job

# Longer than one file, which has a day of New York: the rows of an hour may come that late.
WATERMARK = "2 days"


def departures(flights: DataFrame) -> DataFrame:
    """One row for each airport and each hour of scheduled departures."""
    return (
        flights.withWatermark("time_hour", WATERMARK)
        .groupBy("origin", F.window("time_hour", "1 hour"))
        .agg(
            F.count("dep_time").alias("departures"),
            (F.count("*") - F.count("dep_time")).alias("cancellations"),
            F.avg("dep_delay").alias("mean_delay"),
        )
        .select(
            "origin",
            F.col("window.start").alias("window_start"),
            F.col("window.end").alias("window_end"),
            "departures",
            "cancellations",
            "mean_delay",
        )
    )


JOB = FlightsJob(
    "departures",
    departures,
    key=("origin",),
    value=("departures", "cancellations", "mean_delay"),
    files_per_trigger=14,
)

if __name__ == "__main__":
    run_flights_job(JOB, __doc__.splitlines()[0])
