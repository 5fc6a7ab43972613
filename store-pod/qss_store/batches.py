"""A pod's side of batches: staging slices, and what the coordinator asks of participants.

One request carries many partitions of this pod; each is answered on its own.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from qss_client.chunks import Slice, decode_chunk
from qss_client.layouts import layout_of
from qss_core.errors import BatchInProgressError, DiskFullError, StoreError, WrongStoreError
from qss_core.model import Epoch, Partitioner, PartitionId, StoreId, WriterEpoch
from qss_core.wire import (
    AbortPartitionsRequest,
    CommitPartitionsRequest,
    PartitionsAnswer,
    PrepareRequest,
    Problem,
    SliceResult,
    StageAnswer,
    partition_commit,
    problem_of,
)
from qss_store.pod import Pod
from qss_store.replica import Replica
from qss_store.replication import log as logs
from qss_store.replication.entries import Abort, Command, Commit, Stage
from qss_store.transactions.machine import Outcome

Result = TypeVar("Result")
APPLY_TIMEOUT_S = 20.0
_DISK_RESERVE_BYTES = 64 * 1024 * 1024
_ROWS_ON_DISK = 2  # A commit writes its rows to the log's memtable and to the data family.


async def outcome_of(
    replica: Replica, command: Command, payload: bytes | memoryview = b""
) -> Outcome:
    """Appends an entry and waits until it was applied; raises the failure that it met there."""
    outcome = await in_time(replica, asyncio.shield(replica.append(command, payload)))
    if outcome.failure:
        raise outcome.failure
    return outcome


async def in_time(replica: Replica, work: Awaitable[Result]) -> Result:
    """Waits for what a replica does; BatchInProgressError, or what stops it, when it takes long."""
    try:
        async with asyncio.timeout(APPLY_TIMEOUT_S):
            return await work
    except TimeoutError as error:
        if replica.failure:
            raise replica.failure from error
        raise BatchInProgressError(
            f"partition {replica.partition} is still applying: ask again"
        ) from error


class Batches:
    """Stages, prepares, commits and aborts on this pod's partitions."""

    def __init__(self, pod: Pod, volume: Path) -> None:
        """Works on the pod's replicas; `volume` is where space is looked at."""
        self._pod = pod
        self._volume = volume

    # --- Stage

    async def stage(self, stage: Stage, slices: Iterable[Slice]) -> StageAnswer:
        """Logs each slice in its partition; `stage` has what all slices share."""
        slices = list(slices)
        self._check_staged_bytes(sum(len(one.data) for one in slices))
        results = await asyncio.gather(*(self._stage_slice(stage, one) for one in slices))
        return StageAnswer(
            partitions={
                str(one.partition): result for one, result in zip(slices, results, strict=True)
            }
        )

    async def _stage_slice(self, stage: Stage, one: Slice) -> SliceResult:
        command = Stage(
            writer=stage.writer,
            generation=stage.generation,
            batch=stage.batch,
            writer_epoch=stage.writer_epoch,
            chunk=stage.chunk,
            records=one.records,
            checksum=one.checksum,
            payload_bytes=len(one.data),
            deletes=one.deletes,
            latest=one.latest,
            undated=one.undated,
        )
        try:
            replica = self._pod.local(one.partition)
            logs.check_active(replica.log)
            # A copy that is applied already is under the watermark: nothing more to log.
            if replica.machine.participant.check_stage(command):
                await outcome_of(replica, command, one.data)
        except StoreError as error:
            return SliceResult(failure=problem_of(error))
        return SliceResult(records=one.records, checksum=one.checksum)

    def slices_of(self, body: bytes) -> list[Slice]:
        """The slices of a chunk, checked as the store asks for it; raises as `decode_chunk`."""
        definition = self._pod.placed().definition
        murmur2 = definition.partitioner is Partitioner.MURMUR2
        partitions = definition.partitions if murmur2 else None
        return decode_chunk(body, partitions, layout_of(definition))

    def staged_bytes(self) -> int:
        """Bytes of rows that no commit has taken, over all partitions of this pod."""
        return sum(replica.staged_bytes for replica in self._pod.replicas.values())

    def _check_staged_bytes(self, more: int) -> None:
        limit = self._pod.placed().settings.staged_bytes_max
        held = self.staged_bytes()
        if limit is None:
            limit = held + self._free_bytes() // 2
        if held + more > limit:
            raise DiskFullError(
                f"{held} bytes are staged and {more} more would pass stagedBytesMax ({limit}): "
                "commit or abort open batches, or raise stagedBytesMax",
                limit="stagedBytesMax",
            )

    def _free_bytes(self) -> int:
        return max(0, shutil.disk_usage(self._volume).free - _DISK_RESERVE_BYTES)

    # --- What the coordinator asks

    async def prepare(self, request: PrepareRequest) -> PartitionsAnswer:
        """Says for each partition whether a commit could be refused, by anything."""
        ordinal = (request.generation, request.batch)
        needed = 0

        async def check(replica: Replica, partition: str) -> None:
            nonlocal needed
            if replica.failure:
                raise replica.failure
            held = replica.machine.participant.check_prepare(
                request.writer, ordinal, request.writer_epoch, request.chunks.get(partition, ())
            )
            needed += sum(chunk.payload_bytes for chunk in held)
            if needed * _ROWS_ON_DISK > self._free_bytes():
                raise DiskFullError(
                    f"the volume has no room to apply {needed} bytes: free space or make it larger"
                )

        return await self._each(request.store_id, request.epochs, check)

    async def commit(self, request: CommitPartitionsRequest) -> PartitionsAnswer:
        """Commits a decision in each partition and waits until it is applied."""

        async def commit(replica: Replica, partition: str) -> None:
            part = partition_commit(request.decision, PartitionId(int(partition)))
            if replica.machine.participant.check_commit(part):
                await outcome_of(replica, Commit(commit=part))
            else:
                # A copy came before: "applied" is answered when it is, and not sooner.
                await in_time(replica, replica.wait_until_shown(part.sequence))

        return await self._each(request.store_id, request.epochs, commit)

    async def abort(self, request: AbortPartitionsRequest) -> PartitionsAnswer:
        """Drops what the abort names."""

        async def abort(replica: Replica, _: str) -> None:
            await outcome_of(
                replica,
                Abort(
                    writer=request.writer,
                    generation=request.generation,
                    batch=request.batch,
                    writer_epoch=WriterEpoch(request.writer_epoch),
                ),
            )

        return await self._each(request.store_id, request.epochs, abort)

    async def _each(
        self,
        store_id: StoreId,
        epochs: Mapping[str, Epoch],
        act: Callable[[Replica, str], Awaitable[None]],
    ) -> PartitionsAnswer:
        held = self._pod.placed().definition.store_id
        if store_id != held:
            raise WrongStoreError(f"this pod serves store id {held}, not {store_id}")

        async def one(partition: str, epoch: Epoch) -> Problem | None:
            try:
                replica = self._pod.local(_number_of(partition))
                logs.check_active(replica.log, epoch)
                await act(replica, partition)
            except StoreError as error:
                return problem_of(error)
            return None

        answers = await asyncio.gather(*(one(number, epoch) for number, epoch in epochs.items()))
        return PartitionsAnswer(partitions=dict(zip(epochs, answers, strict=True)))


def _number_of(partition: str) -> int:
    """A partition's number; for what is no number the one that no partition has."""
    return int(partition) if partition.isascii() and partition.isdecimal() else -1
