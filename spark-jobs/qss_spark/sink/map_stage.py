"""Stages a batch by a map over its rows, for PySpark 3.5, which has no data sources in Python.

A map runs a Python stage of its own, which the writer of a data source does not need: so other
versions stage by `batch_writer`. Rows of the map are the chunks of the tasks that won: Spark gives
the driver one result of each partition, whatever number of attempts there were.
"""

import pickle
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from qss_spark.options import Access, SinkBatch
from qss_spark.rows import Columns
from qss_spark.sink.batch_steps import StagedByTask, stage_task


def stage_by_map(
    rows: DataFrame, batch: SinkBatch, columns: Columns, access: Access
) -> StagedByTask:
    """Stages all rows in tasks, and returns the chunks of the attempts that won.

    Raises Spark's error where a task has failed for good.
    """

    def stage(iterator: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = pickle.dumps(stage_task(batch, columns, access, iterator))
        yield pa.RecordBatch.from_pydict({"made": pa.array([made], pa.binary())})

    messages = rows.mapInArrow(stage, "made binary").collect()
    made = [pickle.loads(message["made"]) for message in messages]
    staged = [one for message in made for one in message.staged]
    return StagedByTask(staged, sum(message.unaligned for message in made))
