"""The program that runs with another PySpark: `python -m qss_compat.job URL STORE DIRECTORY`.

Prints a line of JSON: what it read by the data source, if PySpark has these.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 the field's own habit.

from qss_compat.versions import has_data_sources
from qss_spark import StoreSink
from qss_spark.session import SHORT_RUN, local_session

BATCHES = 3
ROWS = 40


def main() -> None:
    """Writes a store by streams and by DataFrames, and reads it."""
    url, store, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = local_session("compat", configuration={**SHORT_RUN, "spark.driver.memory": "640m"})
    for collect in ("always", "never"):
        stream(spark, url, store, directory, collect)
    seen = tables(spark, url, store) if has_data_sources(version("pyspark")) else {}
    sys.stdout.write(json.dumps(seen) + "\n")


def stream(spark: SparkSession, url: str, store: str, directory: Path, collect: Any) -> None:
    """Counts the keys of some files, a batch each; each batch is a query's run of its own."""
    source = directory / f"{collect}-input"
    source.mkdir(parents=True)
    for batch in range(BATCHES + 1):
        rows = range(ROWS if batch else 0)  # The first batch has no rows.
        (source / f"{batch}.txt").write_text("".join(f"{number}\n" for number in rows))
        words = spark.readStream.text(str(source))
        key = F.concat(F.lit(f"{collect}/"), F.col("value")).alias("key")
        counts = words.groupBy(key).agg(F.count("*").alias("n"), F.max("value").alias("last"))
        sink = StoreSink(store, url, writer=collect, collect=collect, valueColumns=["n", "last"])
        query = counts.writeStream.outputMode("update").foreachBatch(sink)
        query = query.option("checkpointLocation", str(directory / f"{collect}-checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()


def tables(spark: SparkSession, url: str, store: str) -> dict[str, Any]:
    """Writes a DataFrame and reads it, whole and filtered."""
    from qss_spark import read_store, write_store
    from qss_spark.source.store_frame import StoreFrame

    schema = "key string, value string, timestamp timestamp"
    rows = spark.range(ROWS).selectExpr(
        "concat('table/', id) as key",
        "to_json(struct(id as n)) as value",
        "timestamp'2026-01-01 00:00:00Z' + make_interval(0, 0, 0, id) as timestamp",
    )
    assert rows.schema.simpleString() == f"struct<{schema}>".replace(" ", ":").replace(",:", ",")
    write_store(rows, store, url=url)
    whole = read_store(spark, store, url=url, prefix="table/")
    given = "key string, value struct<n: long>, timestamp timestamp"
    one = read_store(spark, store, url=url, schema=given).filter("key = 'table/7'")
    assert isinstance(one, StoreFrame)
    return {
        "equal": whole.exceptAll(rows).count() + rows.exceptAll(whole).count() == 0,
        "narrowed": one.narrowed,
        "rows": [row["n"] for row in one.select("value.n").collect()],
        "partitions": one.rdd.getNumPartitions(),
    }


if __name__ == "__main__":
    main()
