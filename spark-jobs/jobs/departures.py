"""Departures, cancellations and mean delay of every hour at every airport, while they happen.

    python departures.py --url http://127.0.0.1:8080 --checkpoint /tmp/departures
    spark-submit departures.py --url ... --checkpoint ...

The store is `departures.yaml` beside this file: it forgets hours that are older than its retention.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_spark.flights_job import FlightsJob, run_flights_job

# Longer than one file, which is a day of New York: an hour's flights may come as late as that.
WATERMARK = "2 days"


def departures(flights: DataFrame) -> DataFrame:
    """The job: one row for each hour and airport, by scheduled departure."""
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
