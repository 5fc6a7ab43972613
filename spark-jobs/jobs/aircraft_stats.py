"""Writes flights, distance and mean arrival delay of every aircraft into a store.

    python aircraft_stats.py --url http://127.0.0.1:8080 --checkpoint /tmp/aircraft-stats
    spark-submit aircraft_stats.py --url ... --checkpoint ...

The store is `aircraft_stats.yaml` beside this file. If the job is killed, start it again with the
same checkpoint: the store then has each batch once.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_spark.flights_job import FlightsJob, run_flights_job


def aircraft_stats(flights: DataFrame) -> DataFrame:
    """One row for each aircraft; flights without a tail number are left out."""
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
