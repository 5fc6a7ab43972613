"""Counts departures of every hour at every airport in append mode, and writes no store.

    python open_departures.py --checkpoint /tmp/open-departures
    qss mirror /tmp/open-departures/checkpoint --file open-departures-mirror.yaml
    spark-submit open_departures.py --checkpoint ...

In append mode a sink gets an hour once the watermark has passed it. Until then only the state has
the hour: `qss mirror` copies it into the store of `open_departures.yaml` beside this file, and
deletes it with the batch that closes it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from qss_spark.flights_job import StateJob, run_state_job

# Longer than one file, which has a day of New York: the rows of an hour may come that late.
WATERMARK = "2 days"


def open_departures(flights: DataFrame) -> DataFrame:
    """One row for each airport and each hour that is closed."""
    return (
        flights.withWatermark("time_hour", WATERMARK)
        .groupBy("origin", F.window("time_hour", "1 hour"))
        .agg(F.count("*"), F.count("dep_time"), F.avg("dep_delay"))
    )


JOB = StateJob("open-departures", open_departures, files_per_trigger=31, output_mode="append")

if __name__ == "__main__":
    run_state_job(JOB, __doc__.splitlines()[0])
