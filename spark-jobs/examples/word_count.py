"""Counts the words of text files into the store `words`, a batch for each file, and ends.

    qss up spark-jobs/examples/words.yaml --detach
    mkdir lines; echo to be or not to be > lines/hamlet
    python spark-jobs/examples/word_count.py lines checkpoint
    qss get words be

Started again, it counts only files that are new. `--url` names a pod of a store elsewhere.
"""

import argparse

from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_spark import StoreSink
from qss_spark.session import SHORT_RUN, local_session


def main() -> None:
    """Runs the query through the files that are there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", help="a directory of text files")
    parser.add_argument("checkpoint", help="the directory in which the query keeps its state")
    parser.add_argument("--url", help="by default the store is found by its name on this machine")
    given = parser.parse_args()

    spark = local_session("word-count", configuration=SHORT_RUN)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(given.lines)
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word <> ''")
    counts = words.groupBy("word").agg(F.count("*").alias("n"))
    sink = StoreSink("words", given.url, keyColumns=["word"], valueColumns=["n"])
    (
        counts.writeStream.outputMode("update")
        .foreachBatch(sink)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


if __name__ == "__main__":
    main()
