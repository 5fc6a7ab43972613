"""A query that counts and sums by key, as a program: `python -m qss_bench.mirrored.query IN CK`."""

import sys

from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_spark.session import SHORT_RUN, local_session


def main() -> None:
    """Runs until it is killed; each file of the input directory is a batch."""
    source, checkpoint = sys.argv[1:3]
    session = local_session("mirrored", configuration=SHORT_RUN)
    rows = session.readStream.schema("k string, n long").option("maxFilesPerTrigger", 1)
    counted = rows.json(source).groupBy("k").agg(F.count("*").alias("c"), F.sum("n").alias("s"))
    writer = counted.writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
