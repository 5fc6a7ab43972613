"""Flights, distance and mean arrival delay of every aircraft, kept up to date in a store.

    python aircraft_stats.py --url http://127.0.0.1:8080 --checkpoint /tmp/aircraft-stats
    spark-submit aircraft_stats.py --url ... --checkpoint ...

The store is `aircraft_stats.yaml` beside this file. Killed at any moment and started again with the
same checkpoint, the job goes on where the store is.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_spark.flights_job import FlightsJob, run_flights_job


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


JOB = FlightsJob(
    "aircraft-stats",
    aircraft_stats,
    key=("tailnum",),
    value=("flights", "distance", "mean_arrival_delay"),
)

if __name__ == "__main__":
    run_flights_job(JOB, __doc__.splitlines()[0])
