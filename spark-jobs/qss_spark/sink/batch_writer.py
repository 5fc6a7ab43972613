"""The batch writer of the data source: tasks stage, the driver commits.

Spark pickles the writer to every task and back to the driver's commit worker, which is not the
user's process: all that they share travels in the writer itself.
"""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from qss_client.addresses import Urls
from qss_client.writes.batch import WRITE_LIMITS, discover, open_writer
from qss_core.errors import StoreError
from qss_core.model import StoreDefinition
from qss_spark.early_stop import end_quietly_when_stopped
from qss_spark.options import Access, SinkBatch
from qss_spark.rows import Columns, RecordBatchEncoder
from qss_spark.sink.batch_steps import (
    StagedByTask,
    commit_batch,
    give_up,
    run_of,
    stage_task,
)
from qss_spark.sink.batch_warnings import warn_of_unaligned


@dataclass
class StagedMessage(StagedByTask, WriterCommitMessage):
    """The message of a task attempt to the commit."""


class StoreWriter(DataSourceArrowWriter):
    """Writes one batch into a store."""

    def __init__(
        self, batch: SinkBatch, columns: Columns, schema: StructType, access: Access
    ) -> None:
        """Raises StoreError for columns that make no rows of the store."""
        self._batch = batch
        self._access = access
        self._columns = columns
        self._encoder().check_schema(schema)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Runs when a worker gets the writer: Spark may want no answer of a task that failed."""
        self.__dict__.update(state)
        end_quietly_when_stopped()

    def _definition(self) -> StoreDefinition:
        return self._batch.definition

    def _encoder(self) -> RecordBatchEncoder:
        return RecordBatchEncoder(self._definition(), self._columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stages the rows of one task attempt."""
        made = stage_task(self._batch, self._columns, self._access, iterator)
        return StagedMessage(made.staged, made.unaligned)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the chunks of the winning task attempts, after all tasks have ended.

        Warnings go to the driver's standard error.
        """
        won = [message for message in messages if isinstance(message, StagedMessage)]
        staged = [one for message in won for one in message.staged]
        with closing(self._access.http()) as http, run_of(self._batch) as run:
            commit_batch(http, run, self._batch, staged)
        if self._batch.warns:
            unaligned = sum(message.unaligned for message in won)
            warn_of_unaligned(self._definition(), self._batch.batch, unaligned)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Aborts the batch of a failed job; a decided batch stays."""
        with closing(self._access.http()) as http, run_of(self._batch) as run:
            give_up(http, run, self._batch.batch)


def one_off_batch(urls: Urls, store: str, access: Access, *, replace: bool) -> SinkBatch:
    """Opens a one-off writer for one `df.write`."""
    http = access.http()
    try:
        metadata = discover(http, urls, store, WRITE_LIMITS)
        identity = uuid.uuid4().hex
        run = open_writer(
            http,
            metadata,
            f"batch-{identity}",
            query_id=identity,
            run_id=identity,
            one_off=True,
        )
    finally:
        http.close()
    return SinkBatch(
        store=store,
        writer=run.writer,
        opened=run.opened,
        batch=0,
        position={},
        fingerprint=identity,
        replace=replace,
        one_off=True,
    )


def one_off_writer(
    batch: SinkBatch, columns: Columns, schema: StructType, access: Access
) -> StoreWriter:
    """Spark's writer for a one-off batch; closes the run where the columns do not fit."""
    try:
        return StoreWriter(batch, columns, schema, access)
    except StoreError:
        with closing(access.http()) as http:
            give_up(http, batch.run, batch.batch)
        raise
