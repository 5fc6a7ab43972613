"""The batch writer of the data source: tasks stage, the driver commits.

Spark pickles the writer to every task and back to the driver's commit worker, which is not the
user's process: all that they share travels in the writer itself.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from qss_client.addresses import Urls
from qss_client.chunks.carried_batch import CARRIED_ROWS_BYTES_MAX
from qss_client.chunks.chunk import Slice
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import (
    WRITE_LIMITS,
    Run,
    Staged,
    abort,
    commit,
    discover,
    open_writer,
    stage,
    write_batch,
)
from qss_core.errors import BatchClosedError, StoreError
from qss_core.model import StoreDefinition
from qss_core.wire.chunk_ids import name_attempt, name_group
from qss_spark.early_stop import end_quietly_when_stopped
from qss_spark.options import Access, SinkBatch
from qss_spark.rows import Columns, RowEncoder
from qss_spark.sink.batch_warnings import warn_of_dropped, warn_of_unaligned
from qss_spark.sink.told_errors import telling_first

_ABORT_LIMITS = RetryLimits(deadline_s=5.0)
_CLOSE_LIMITS = RetryLimits(deadline_s=1.0)


@dataclass
class StagedMessage(WriterCommitMessage):
    """The ids and counts of the chunks of one task attempt: Spark limits the message's size."""

    staged: list[Staged]
    unaligned: int = 0  # Windows that do not start at a multiple of the store's size.
    closed: bool = False  # The batch was applied before, perhaps this one.


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

    def _encoder(self) -> RowEncoder:
        return RowEncoder(self._definition(), self._columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        """Stages the rows of one task attempt."""
        with telling_first(f"batch {self._batch.batch} of store {self._batch.store}"):
            return self._stage(iterator)

    def _stage(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        context = TaskContext.get()
        # The attempt's id and not its number, which begins anew where Spark runs a stage again.
        task = name_attempt(
            context.partitionId() if context else 0, context.taskAttemptId() if context else 0
        )
        http = self._access.http()
        try:
            encoder = self._encoder()
            staged = stage_rows(http, self._batch, encoder, task, iterator)
            return StagedMessage(staged, encoder.unaligned)
        except BatchClosedError:
            for _ in iterator:  # A stateful plan has to run to its end.
                pass
            return StagedMessage([], closed=True)
        finally:
            http.close()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the chunks of the winning task attempts, after all tasks have ended.

        Warnings go to the driver's standard error.
        """
        won = [message for message in messages if isinstance(message, StagedMessage)]
        staged = [one for message in won for one in message.staged]
        http = self._access.http()
        try:
            commit_batch(http, self._batch, staged)
        finally:
            http.close()
        if self._batch.warns:
            unaligned = sum(message.unaligned for message in won)
            warn_of_unaligned(self._definition(), self._batch.batch, unaligned)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Aborts the batch of a failed job; a decided batch stays."""
        http = self._access.http()
        try:
            give_up(http, self._batch)
        finally:
            http.close()


def stage_rows(
    http: SyncHttp,
    batch: SinkBatch,
    encoder: RowEncoder,
    task: str,
    batches: Iterator[pa.RecordBatch],
) -> list[Staged]:
    """Stages the rows of one task attempt, group after group."""
    return stage_groups(http, batch, encoder.slices(batches), task)


def stage_groups(
    http: SyncHttp, batch: SinkBatch, groups: Iterable[list[Slice]], task: str
) -> list[Staged]:
    """Stages encoded rows, group after group."""
    staged: list[Staged] = []
    for number, slices in enumerate(groups):
        staged += stage(http, batch.run, batch.batch, name_group(task, number), slices)
    return staged


def is_small(groups: list[list[Slice]]) -> bool:
    """Whether a batch's commit may carry its rows."""
    slices = [one for group in groups for one in group]
    size = sum(len(one.data) for one in slices)
    return len(groups) == 1 and size <= CARRIED_ROWS_BYTES_MAX


def write_rows(http: SyncHttp, batch: SinkBatch, groups: list[list[Slice]]) -> None:
    """Commits a small batch with its rows; a repeat of one that was committed changes nothing."""
    slices = [one for group in groups for one in group]
    answer = write_batch(
        http,
        batch.run,
        batch.batch,
        slices,
        position=batch.position,
        fingerprint=batch.fingerprint,
        replace=batch.replace,
    )
    warn_of_dropped(batch.definition, batch.batch, answer, sum(one.records for one in slices))


def give_up(http: SyncHttp, batch: SinkBatch) -> None:
    """Aborts a batch. Errors are ignored: the store sweeps the staged rows later."""
    with suppress(StoreError):
        abort(http, batch.run, batch.batch, _ABORT_LIMITS)


def close(http: SyncHttp, run: Run, newest_batch: int) -> None:
    """Closes the run of a query that has ended and began no batch after `newest_batch`."""
    # If this fails, the store closes the run after `openBatchTimeout` (an hour) of silence.
    with suppress(StoreError):
        abort(http, run, newest_batch + 1, _CLOSE_LIMITS)


def commit_batch(http: SyncHttp, batch: SinkBatch, staged: list[Staged]) -> None:
    """Commits a batch; a repeat of one that was committed changes nothing."""
    answer = commit(
        http,
        batch.run,
        batch.batch,
        staged,
        position=batch.position,
        fingerprint=batch.fingerprint,
        replace=batch.replace,
    )
    records = sum(one.chunk.records for one in staged)
    warn_of_dropped(batch.definition, batch.batch, answer, records or None)


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
    )


def one_off_writer(
    batch: SinkBatch, columns: Columns, schema: StructType, access: Access
) -> StoreWriter:
    """Spark's writer for a one-off batch; closes the run where the columns do not fit."""
    try:
        return StoreWriter(batch, columns, schema, access)
    except StoreError:
        http = access.http()
        try:
            give_up(http, batch)
        finally:
            http.close()
        raise
