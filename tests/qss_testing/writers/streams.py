"""Streams of rows for tests of the sink; each file of JSON lines is a batch."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from qss_client import Store
from qss_testing.pods.pod_process import PodCluster

ForeachBatch = Callable[[DataFrame, int], None]


class JsonStream:
    """A directory of batches, and the checkpoint of the query that reads it."""

    def __init__(self, spark: SparkSession, directory: Path, schema: str, name: str = "s") -> None:
        self._spark = spark
        self._schema = schema
        self.input = directory / f"{name}-input"
        self.checkpoint = directory / f"{name}-checkpoint"
        self.input.mkdir(parents=True)
        self._batches = 0

    def write(self, *batches: list[dict[str, Any]]) -> None:
        """Writes a file for each batch; Spark reads files in order of their times."""
        for rows in batches:
            draft = self.input / f".{self._batches}"
            draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(draft, (1_000_000 + self._batches, 1_000_000 + self._batches))
            draft.replace(self.input / f"{self._batches:04d}.json")
            self._batches += 1

    def rows(self) -> DataFrame:
        """The stream, with one file per batch."""
        reader = self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.input))

    def run(
        self, sink: ForeachBatch, rows: DataFrame | None = None, mode: str = "append"
    ) -> StreamingQuery:
        """Runs a query over `rows`, by default the stream itself, through the present files."""
        return run_query(self.rows() if rows is None else rows, sink, self.checkpoint, mode)


def run_query(
    rows: DataFrame, sink: ForeachBatch, checkpoint: Path, mode: str = "append"
) -> StreamingQuery:
    """Runs a query to the end of what its sources have now."""
    query = (
        rows.writeStream.outputMode(mode)
        .foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def held(cluster: PodCluster, prefix: str) -> dict[str, Any]:
    """The values whose keys begin with a prefix."""
    with Store(cluster.url, cluster.store) as store:
        return {row.key: row.value for row in store.prefix(prefix)}


def positions(cluster: PodCluster) -> dict[str, dict[str, int]]:
    """The merged position of all partitions."""
    with Store(cluster.url, cluster.store) as store:
        return store.query("RangeQuery", lower="\x00", upper="\x00").position.to_json()
