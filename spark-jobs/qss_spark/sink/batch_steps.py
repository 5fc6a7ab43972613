"""The steps of one batch: tasks or the driver stage its rows, the driver commits or gives it up."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from qss_client.chunks.carried_batch import CARRIED_ROWS_BYTES_MAX
from qss_client.chunks.chunk import Slice
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.reads.routing.replica_choice import newer_of
from qss_client.writes.batch import Run, Staged, abort, commit, stage, write_batch
from qss_core.errors import BatchClosedError, StoreError
from qss_core.model import StoreId
from qss_core.wire.chunk_ids import name_attempt, name_group
from qss_core.wire.messages import StoreMetadata
from qss_spark.options import Access, SinkBatch
from qss_spark.rows import Columns, RecordBatchEncoder
from qss_spark.sink.batch_warnings import warn_of_dropped
from qss_spark.sink.failure_lines import telling_first
from qss_spark.sink.kept_open import kept_open

_ABORT_LIMITS = RetryLimits(deadline_s=5.0)
_CLOSE_LIMITS = RetryLimits(deadline_s=1.0)
_STORES_MAX = 100
# The routes that tasks of this process learned: Spark uses its Python workers again, and sends each
# task the routes that the driver knows, which stages no rows itself.
_learned: dict[StoreId, StoreMetadata] = {}


@dataclass
class StagedByTask:
    """The ids and counts of the chunks of one task attempt: Spark limits the size of an answer."""

    staged: list[Staged] = field(default_factory=list)
    unaligned: int = 0  # Windows that do not start at a multiple of the store's size.


def stage_task(
    batch: SinkBatch, columns: Columns, access: Access, iterator: Iterator[pa.RecordBatch]
) -> StagedByTask:
    """Stages the rows of the task attempt that runs here. Raises StoreError, and logs it first.

    A batch that was applied before, perhaps this one, gets no rows more: the commit finds out.
    """
    context = TaskContext.get()
    # The attempt's id and not its number, which begins anew where Spark runs a stage again.
    task = name_attempt(
        context.partitionId() if context else 0, context.taskAttemptId() if context else 0
    )
    with run_of(batch) as run, telling_first(f"batch {batch.batch} of store {batch.store}"):
        http = access.http()
        try:
            with kept_open(http, batch):
                encoder = RecordBatchEncoder(batch.definition, columns)
                staged = stage_groups(http, run, batch.batch, encoder.slices(iterator), task)
            return StagedByTask(staged, encoder.unaligned)
        except BatchClosedError:
            for _ in iterator:  # A stateful plan has to run to its end.
                pass
            return StagedByTask()
        finally:
            http.close()


@contextmanager
def run_of(batch: SinkBatch) -> Iterator[Run]:
    """A batch's run in a worker of Spark, with the newest routes that this process has learned."""
    run, store = batch.run, batch.opened.store_id
    if (known := _learned.pop(store, None)) is not None:
        run.learn(newer_of(known, batch.opened.metadata))
    try:
        yield run
    finally:
        _learned[store] = run.opened.metadata
        if len(_learned) > _STORES_MAX:
            del _learned[next(iter(_learned))]


def stage_groups(
    http: SyncHttp, run: Run, batch: int, groups: Iterable[list[Slice]], task: str
) -> list[Staged]:
    """Stages encoded rows, group after group."""
    staged: list[Staged] = []
    for number, slices in enumerate(groups):
        staged += stage(http, run, batch, name_group(task, number), slices)
    return staged


def is_small(groups: list[list[Slice]]) -> bool:
    """Whether a batch's commit may carry its rows."""
    slices = [one for group in groups for one in group]
    size = sum(len(one.data) for one in slices)
    return len(groups) == 1 and size <= CARRIED_ROWS_BYTES_MAX


def write_rows(http: SyncHttp, run: Run, batch: SinkBatch, groups: list[list[Slice]]) -> None:
    """Commits a small batch with its rows; a repeat of one that was committed changes nothing."""
    slices = [one for group in groups for one in group]
    answer = write_batch(
        http,
        run,
        batch.batch,
        slices,
        position=batch.position,
        fingerprint=batch.fingerprint,
        replace=batch.replace,
    )
    warn_of_dropped(batch.definition, batch.batch, answer, sum(one.records for one in slices))


def give_up(http: SyncHttp, run: Run, batch: int) -> None:
    """Aborts a batch. Errors are ignored: the store sweeps the staged rows later."""
    with suppress(StoreError):
        abort(http, run, batch, _ABORT_LIMITS)


def close(http: SyncHttp, run: Run, newest_batch: int) -> None:
    """Closes the run of a query that has ended and began no batch after `newest_batch`."""
    # If this fails, the store closes the run after `openBatchTimeout` (an hour) of silence.
    with suppress(StoreError):
        abort(http, run, newest_batch + 1, _CLOSE_LIMITS)


def commit_batch(http: SyncHttp, run: Run, batch: SinkBatch, staged: list[Staged]) -> None:
    """Commits a batch; a repeat of one that was committed changes nothing."""
    answer = commit(
        http,
        run,
        batch.batch,
        staged,
        position=batch.position,
        fingerprint=batch.fingerprint,
        replace=batch.replace,
    )
    records = sum(one.chunk.records for one in staged)
    warn_of_dropped(batch.definition, batch.batch, answer, records or None)
