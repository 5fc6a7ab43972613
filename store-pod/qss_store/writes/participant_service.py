"""Stages slices, and serves the coordinator's requests, for the partitions of this pod.

One request carries many partitions of this pod; the answer has a result for each.
"""

import asyncio
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
import pyarrow as pa

from qss_client.chunks.chunk import Slice, decode_chunk, rows_of, split_batches
from qss_client.chunks.chunk_schema import layout_of
from qss_core.errors import (
    ChunkMissingError,
    DiskFullError,
    MalformedRequestError,
    NotReadyError,
    StoreError,
)
from qss_core.model import Epoch, Partitioner, PartitionId, Sequence, StoreId, WriterEpoch
from qss_core.quantities import shown_bytes
from qss_core.serdes.registry import serde_of
from qss_core.wire.messages import (
    AbortPartitionsRequest,
    CarriedRows,
    CommitPartitionsRequest,
    PartitionsAnswer,
    PrepareRequest,
    Problem,
    SliceResult,
    StageAnswer,
    partition_commit,
    problem_of,
)
from qss_store.replicas.append_wait import AppendWait, append, settle
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replicas.rollback_check import NO_SEQUENCE, rolled_back
from qss_store.replicas.volume.volume_watch import RESERVE_BYTES
from qss_store.runtime.blocking import run_blocking
from qss_store.transactions.commands import Abort, Commit, Stage
from qss_store.writes.row_validation import RowValidator

_NO_ROWS: Mapping[PartitionId, Slice] = {}
_ROWS_ON_DISK = 2  # A commit writes its rows to the log's memtable and to the data family.


class ParticipantService:
    """Stages, prepares, commits and aborts on this pod's partitions."""

    def __init__(self, pod: Pod, volume: Path) -> None:
        """`volume` is the path whose free space limits the staged rows."""
        self._pod = pod
        self._volume = volume

    # --- Stage

    async def stage(self, stage: Stage, slices: Iterable[Slice]) -> StageAnswer:
        """Logs each slice in its partition; `stage` has the members that all slices share."""
        slices = list(slices)
        chunk_bytes = sum(len(one.data) for one in slices)
        self._check_staged_bytes(chunk_bytes)
        remembers = self._pod.recent.admits(chunk_bytes)
        begun = [self._begin_stage(stage, one, remembers=remembers) for one in slices]
        await settle(one for one in begun if isinstance(one, AppendWait))
        return StageAnswer(
            partitions={
                str(one.partition): _staged(one, work)
                for one, work in zip(slices, begun, strict=True)
            }
        )

    def _begin_stage(
        self, stage: Stage, one: Slice, *, remembers: bool
    ) -> AppendWait | StoreError | None:
        """Appends a slice, or waits for its copy in the log; None where a copy was applied."""
        command = with_slice(stage, one)
        try:
            with self._pod.registry.until_failover():
                replica = self._pod.registry.local(one.partition)
            replica.acting.check()
            replica.pending.check_stage(command)
            # A copy that was applied is durable: nothing is left to log.
            if not replica.machine.participant.check_stage(command):
                return None
            if (logged := replica.pending.copy_of(command)) is not None:
                return AppendWait(replica, logged)
            return append(replica, command, one.data, one.batches if remembers else ())
        except StoreError as error:
            return error.with_traceback(None)

    def slices_of(self, body: bytes) -> list[Slice]:
        """Decodes a chunk by the store's partitioner and type; raises as `decode_chunk`."""
        definition = self._pod.registry.placed().definition
        murmur2 = definition.partitioner is Partitioner.MURMUR2
        partitions = definition.partitions if murmur2 else None
        return decode_chunk(body, partitions, layout_of(definition))

    async def check_rows(self, slices: Iterable[Slice]) -> None:
        """Raises MalformedRequestError for rows that the store's serdes or type cannot take.

        Such rows would make later commits or queries fail.
        """
        definition = self._pod.registry.placed().definition
        checks = RowValidator(serde_of(definition.key_serde), serde_of(definition.value_serde))
        batches = [batch for one in slices for batch in one.batches]
        await check_in_turns(checks, batches)
        indexing = self._pod.indexing
        if indexing is None:
            return
        for batch in split_batches(batches, self._pod.slices.rows):
            rows = rows_of(batch)
            for key, value in zip(rows.keys, rows.values, strict=True):
                if value is not None:
                    indexing.check(key, value)
            await asyncio.sleep(0)  # Readers take their turn.

    def staged_bytes(self) -> int:
        """Bytes of staged rows over all partitions of this pod."""
        return sum(
            replica.pending.bytes_beside(replica.machine.participant.staged.values())
            for replica in self._pod.registry.replicas.values()
        )

    def _check_staged_bytes(self, more: int) -> None:
        limit = self._pod.registry.placed().settings.staged_bytes_max
        held = self.staged_bytes()
        if limit is None:
            free = self._free_bytes()
            if more > free // 2:
                self._pod.room.refused(2 * more)
                raise DiskFullError(
                    f"the volume has {_above_reserve(free)}; half of that may be staged, and this "
                    f"request stages {shown_bytes(more)}: free space, make the volume larger, or "
                    "commit or abort open batches",
                    limit="stagedBytesMax",
                )
            return
        if held + more > limit:
            raise DiskFullError(
                f"{shown_bytes(held)} are staged, and {shown_bytes(more)} more would exceed "
                f"stagedBytesMax ({shown_bytes(limit)}): commit or abort open batches, or raise "
                "stagedBytesMax",
                limit="stagedBytesMax",
            )

    def volume_usage(self) -> "shutil._ntuple_diskusage":
        """The volume's bytes: total, used, free. Raises NotReadyError where it is gone."""
        try:
            return shutil.disk_usage(self._volume)
        except OSError as error:
            raise NotReadyError(f"the pod's volume cannot be read: {error}") from error

    def _free_bytes(self) -> int:
        return max(0, self.volume_usage().free - RESERVE_BYTES)

    # --- Requests of the coordinator

    async def prepare(self, request: PrepareRequest) -> PartitionsAnswer:
        """The result for each partition is the failure that would refuse the commit, or null."""
        ordinal = (request.generation, request.batch)
        needed = request.carried_bytes
        free = self._free_bytes()

        def check(replica: Replica, partition: str) -> None:
            nonlocal needed
            if refusal := replica.refusal:
                raise refusal
            if request.sequence is not None:
                self._check_sequence(replica, request.sequence)
            held = replica.machine.participant.check_prepare(
                request.writer, ordinal, request.writer_epoch, request.chunks.get(partition, ())
            )
            needed += sum(chunk.payload_bytes for chunk in held)
            if needed * _ROWS_ON_DISK > free:
                self._pod.room.refused(needed * _ROWS_ON_DISK)
                raise DiskFullError(
                    f"the volume has {_above_reserve(free)}, and "
                    f"{shown_bytes(needed * _ROWS_ON_DISK)} are needed to apply "
                    f"{shown_bytes(needed)}: free space or make the volume larger"
                )

        answer = await self._each(request.store_id, request.epochs, check)
        completion = self._pod.registry.completion
        if request.writer:  # A coordinator that lost entries asks the pods for the highest epoch.
            completion.learn(writer_epoch=request.writer_epoch)
            return answer
        newest = completion.newest_epoch(self._pod.registry.replicas.values())
        return msgspec.structs.replace(answer, writer_epoch=newest)

    def _check_sequence(self, replica: Replica, decided_next: Sequence) -> None:
        """Raises RolledBackError where the next decision does not follow the applied sequence.

        Then a volume went back to an older state. Raises NotReadyError while a commit, or the tail
        of the log, is being applied.
        """
        if replica.pending.commits or not replica.is_recovered:
            raise NotReadyError(f"partition {replica.partition} is applying a batch: ask again")
        held, before = replica.machine.participant.sequence, Sequence(decided_next - 1)
        if held > before:
            raise rolled_back(0, before, held)
        self._pod.registry.completion.learn(completed=before)
        if held < before:
            raise rolled_back(replica.partition, held, before, replica.log.configuration)

    async def commit(
        self, request: CommitPartitionsRequest, rows: Mapping[PartitionId, Slice] = _NO_ROWS
    ) -> PartitionsAnswer:
        """Commits a decision in each partition and waits until it is applied.

        `rows` are the carried rows, if the caller has decoded them already.
        """
        decision = request.decision
        if decision.carries_rows and not rows:
            rows = {
                one.partition: one for data in request.rows.values() for one in self.slices_of(data)
            }
        remembers = self._pod.recent.admits(sum(len(one.data) for one in rows.values()))

        def commit(replica: Replica, partition: str) -> AppendWait:
            number = PartitionId(int(partition))
            carried = rows.get(number) if decision.carries_rows else None
            if decision.carries_rows and carried is None and decision.chunks.get(partition):
                raise MalformedRequestError("the commit lacks the rows that its decision carries")
            part = partition_commit(decision, number, _described(carried))
            command = Commit(commit=part)
            try:
                is_new = replica.machine.participant.check_commit(part)
            except ChunkMissingError:
                # The chunk was here when the batch was prepared: only a person can accept its loss.
                if replica.is_recovered:
                    self._pod.registry.completion.lacking[number] = part.sequence
                raise
            if is_new and replica.pending.copy_of(command) is None:
                if carried is None:
                    return append(replica, command)
                decoded = carried.batches if remembers else ()
                return append(replica, command, carried.data, decoded)
            # The commit came before: the answer waits until it is applied.
            shown = replica.current_view.reaches(part.sequence)
            return AppendWait(replica, asyncio.create_task(shown))

        answer = await self._each(request.store_id, request.epochs, commit, decision.sequence)
        dropped = {
            partition: count
            for partition, problem in answer.partitions.items()
            if problem is None
            and (count := self._pod.registry.local(int(partition)).dropped.of(decision.sequence))
        }
        return msgspec.structs.replace(answer, dropped=dropped)

    async def abort(self, request: AbortPartitionsRequest) -> PartitionsAnswer:
        """Drops the chunks that the abort names."""

        def abort(replica: Replica, _: str) -> AppendWait:
            command = Abort(
                writer=request.writer,
                generation=request.generation,
                batch=request.batch,
                writer_epoch=WriterEpoch(request.writer_epoch),
            )
            return append(replica, command)

        return await self._each(request.store_id, request.epochs, abort)

    async def _each(
        self,
        store_id: StoreId,
        epochs: Mapping[str, Epoch],
        begin: Callable[[Replica, str], AppendWait | None],
        commits: Sequence = NO_SEQUENCE,
    ) -> PartitionsAnswer:
        self._pod.registry.check_message_store(store_id)
        answers: dict[str, Problem | None] = dict.fromkeys(epochs)
        begun: dict[str, AppendWait] = {}
        for partition, epoch in epochs.items():
            try:
                replica = self._pod.registry.local(_number_of(partition), commits)
                replica.acting.check(epoch)
                work = begin(replica, partition)
            except StoreError as error:
                answers[partition] = problem_of(error)
            else:
                if work is not None:
                    begun[partition] = work
        await settle(begun.values())
        for partition, work in begun.items():
            try:
                work.result()
            except StoreError as error:
                answers[partition] = problem_of(error)
        return PartitionsAnswer(partitions=answers)


def with_slice(stage: Stage, one: Slice) -> Stage:
    """`stage` with the members of one partition's slice."""
    return msgspec.structs.replace(
        stage,
        records=one.records,
        checksum=one.checksum,
        payload_bytes=len(one.data),
        deletes=one.deletes,
        latest=one.latest,
        undated=one.undated,
    )


def _described(rows: Slice | None) -> CarriedRows | None:
    if rows is None:
        return None
    return CarriedRows(
        records=rows.records,
        payload_bytes=len(rows.data),
        deletes=rows.deletes,
        latest=rows.latest,
        undated=rows.undated,
    )


def _staged(one: Slice, begun: AppendWait | StoreError | None) -> SliceResult:
    try:
        if isinstance(begun, StoreError):
            raise begun
        if begun is not None:
            begun.result()
    except StoreError as error:
        return SliceResult(failure=problem_of(error))
    return SliceResult(records=one.records, checksum=one.checksum)


def _number_of(partition: str) -> int:
    """The number of a partition; -1, which no partition has, for other text."""
    return int(partition) if partition.isascii() and partition.isdecimal() else -1


async def check_in_turns(checks: RowValidator, batches: Iterable[pa.RecordBatch]) -> None:
    """Checks rows on the event loop, piece by piece, and lets readers run between the pieces.

    A large row that Python code checks leaves the event loop. Raises MalformedRequestError.
    """
    spent = 0.0  # The share of the turn that is used up.
    for batch in batches:
        for rows, share in checks.pieces(batch):
            if checks.is_slow and share > 1:
                await run_blocking(checks.check, rows)
            else:
                checks.check(rows)
            spent += share
            if spent >= 1:
                spent = 0.0
                await asyncio.sleep(0)


def _above_reserve(free: int) -> str:
    """The room for writers in the words of the store's status."""
    return f"{shown_bytes(free)} free beyond the {shown_bytes(RESERVE_BYTES)} that are kept back"
