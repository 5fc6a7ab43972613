"""The batches of one partition: the state after the entries that it has applied.

The rules are checked twice: before an entry is appended, for a quick refusal, and again when the
entry is applied, with the same result on every replica. Only the second check decides.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from qss_core.errors import (
    BatchClosedError,
    OutOfOrderError,
    SequenceTakenError,
)
from qss_core.model import Epoch, Offset, Sequence, WriterEpoch
from qss_core.positions import Position
from qss_core.wire.losses import BatchesHeld, DataLoss, LastBatch
from qss_core.wire.messages import CarriedRows, ChunkReference, PartitionCommit, decode, encode
from qss_store.transactions.batch_positions import (
    batch_topic,
    merged,
    only_batches,
    without_writers,
)
from qss_store.transactions.commands import Abort, Stage
from qss_store.transactions.commit_plan import Changes, CommitPlan, RowsByKey
from qss_store.transactions.inputs import InputsRead
from qss_store.transactions.losses import applied_batches, is_batch, losses_after, with_loss
from qss_store.transactions.staged import (
    Clocks,
    StagedChunk,
    StagedSlices,
    Uncommitted,
    check_newest,
    is_aborted,
    is_closed_by,
    overdue,
)
from qss_store.transactions.state_rows import (
    LAST,
    PARTICIPANT,
    AppliedBatch,
    ParticipantState,
    applied_batches_in,
)

ONE_OFFS_MAX = 100  # One-off writers that a partition keeps; the coordinator keeps more.


@dataclass(slots=True)
class Participant:
    """One partition's state of batches."""

    sequence: Sequence = field(default=Sequence(0))
    position: Position = field(default_factory=Position.empty)
    stream_time: int = -1
    data_generation: int = 0
    # Counts puts with a value of timed rows, modulo 2^31: the count is the number of the last row.
    puts: int = 0
    last: dict[str, AppliedBatch] = field(default_factory=dict)
    staged: StagedSlices = field(default_factory=StagedSlices)
    inputs: InputsRead = field(default_factory=InputsRead)
    losses: tuple[DataLoss, ...] = ()  # Accepted since a batch last replaced all rows.
    forgives: LastBatch | None = None  # The batch whose missing chunks are left out.
    forgiven: Sequence = field(default=Sequence(0))  # As ParticipantState has it.
    accepted_in: Epoch = field(default=Epoch(0))  # The epoch of the last accepted loss.

    @classmethod
    def load(cls, rows: RowsByKey) -> "Participant":
        """The state that meta rows hold."""
        kept = rows.get(PARTICIPANT)
        state = ParticipantState() if kept is None else decode(kept, ParticipantState)
        return cls(
            sequence=state.sequence,
            position=Position.from_json(state.position),
            stream_time=state.stream_time,
            data_generation=state.data_generation,
            puts=state.puts,
            last=applied_batches_in(rows),
            staged=StagedSlices.load(rows),
            inputs=InputsRead.load(rows),
            losses=state.losses,
            forgives=state.forgives,
            forgiven=state.forgiven,
            accepted_in=state.accepted_in,
        )

    @property
    def clocks(self) -> Clocks:
        """The counters of the applied batches."""
        return Clocks(self.stream_time, self.puts)

    def uncommitted(self) -> Uncommitted:
        """The staged slices that readers of uncommitted rows see beside the applied batches."""
        return Uncommitted(self.staged.visible(self.last), self.clocks)

    @property
    def open_floor(self) -> Offset | None:
        """The offset of the oldest Stage entry whose slice is staged; None where none is."""
        return self.staged.open_floor

    # --- Stage

    def check_stage(self, stage: Stage) -> bool:
        """Whether the slice is new here; False for a repeat of a staged slice.

        Raises BatchClosedError at or below the writer's last applied batch, and ChunkMismatchError
        where a chunk of this id is staged with other rows.
        """
        last = self.last.get(stage.writer)
        if last and (stage.generation, stage.batch) <= (last.generation, last.batch):
            raise BatchClosedError(
                f"batch {stage.batch} of writer {stage.writer} was applied: ask the coordinator",
                batch=last.batch,
                generation=last.generation,
            )
        return self.staged.is_new(stage)

    def apply_stage(self, offset: Offset, wall_time_ms: int, stage: Stage) -> Changes:
        """Keeps the slice as uncommitted; raises as `check_stage`."""
        if not self.check_stage(stage):
            return {}
        return self.staged.add(offset, wall_time_ms, stage)

    # --- Prepare and commit

    def check_prepare(
        self,
        writer: str,
        ordinal: tuple[int, int],
        writer_epoch: WriterEpoch,
        chunks: Iterable[ChunkReference],
    ) -> list[StagedChunk]:
        """The slices that the commit would apply; raises the error that would refuse the commit."""
        last = self.last.get(writer)
        if last and ordinal <= (last.generation, last.batch):
            raise BatchClosedError(f"batch {ordinal[1]} of writer {writer} was applied here")
        check_newest(writer, writer_epoch, self.staged.values(), last)
        return self.staged.listed(writer, ordinal, writer_epoch, chunks)

    def check_commit(self, commit: PartitionCommit) -> bool:
        """Whether the commit is still to be applied; False where it was applied before.

        The sender and the writer epoch do not matter, because the decision is logged.
        """
        if commit.sequence < self.sequence:
            return False
        if commit.sequence == self.sequence:
            self._check_same(commit)
            return False
        if commit.sequence != self.sequence + 1:
            raise OutOfOrderError(
                f"sequence {commit.sequence} cannot follow {self.sequence}: send the commits "
                "between them first",
                sequence=self.sequence,
            )
        self._chunks_of(commit)
        return True

    def _check_same(self, commit: PartitionCommit) -> None:
        """Refuses another batch at the last applied sequence, which would be ignored silently."""
        last = self.last.get(commit.writer)
        applied = last and (last.sequence, last.generation, last.batch)
        if applied != (commit.sequence, commit.generation, commit.batch):
            raise SequenceTakenError(
                f"sequence {commit.sequence} is another batch here than batch {commit.batch} of "
                f"writer {commit.writer}: partition 0 went back to an older state",
                sequence=self.sequence,
            )

    def _chunks_of(self, commit: PartitionCommit) -> list[StagedChunk]:
        """The staged slices of a commit, without the slices that an accepted loss took."""
        ordinal, listed = (commit.generation, commit.batch), commit.chunks
        is_forgiven = self.forgives is not None and is_batch(self.forgives, commit)
        if is_forgiven or commit.sequence <= self.forgiven:
            listed = tuple(one for one in listed if (commit.writer, one.id) in self.staged.by_id)
        return self.staged.listed(commit.writer, ordinal, commit.writer_epoch, listed)

    def apply_commit(self, offset: Offset, commit: PartitionCommit) -> CommitPlan | None:
        """Advances the state by a commit and returns the plan that applies its rows.

        None where the commit was applied before. `offset` is that of the Commit entry, whose
        payload may be rows.
        """
        if not self.check_commit(commit):
            return None
        listed = self._chunks_of(commit)
        is_whole = len(listed) == len(commit.chunks)
        dropped = [
            chunk
            for chunk in self.staged.values()
            if is_closed_by(commit, chunk.writer, chunk.ordinal)
        ]
        puts_before = self.puts
        # A batch that replaces all rows deletes the old ones: no stream time precedes it.
        stream_time_before = -1 if commit.replace else self.stream_time
        carried = () if commit.rows is None else (commit.rows,)
        changes: Changes = {LAST + writer.encode(): None for writer in commit.forgotten}
        changes |= self._advance(commit, (*listed, *carried))
        changes |= self.staged.drop(dropped)
        changes |= self._forget_one_offs()
        self.losses = losses_after(self.losses, commit, self.accepted_in, is_whole=is_whole)
        changes[LAST + commit.writer.encode()] = encode(self.last[commit.writer])
        changes[PARTICIPANT] = encode(self._state())
        return CommitPlan(
            payloads=(*(chunk.offset for chunk in listed), *(offset for _ in carried)),
            default_timestamp_ms=commit.wall_time_ms,
            data_generation=self.data_generation,
            replaces=commit.replace,
            stream_time=self.stream_time,
            stream_time_before=stream_time_before,
            puts_before=puts_before,
            changes=changes,
            records=sum(rows.records for rows in (*listed, *carried)),
        )

    def position_after(
        self,
        writer: str,
        ordinal: tuple[int, int],
        read: Position,
        *,
        replace: bool,
        forgotten: Collection[str] = (),
    ) -> Position:
        """The partition's position after a batch that had read its inputs up to `read`.

        The batch removes the `forgotten` writers.
        """
        last = None if writer in forgotten else self.last.get(writer)
        # A one-off writer writes one batch, which all partitions have applied before the next
        # decision: its component can leave the position.
        done = (name for name, one in self.last.items() if one.one_off and name != writer)
        kept = without_writers(self.position, {*forgotten, *done})
        if replace:
            kept = only_batches(kept)  # The batch deletes the rows that came from the inputs.
        elif last is not None and ordinal[0] > last.generation:
            others = self.last.keys() - {writer, *forgotten}
            kept = kept.without(self.inputs.only_by(writer, others, kept))
        return merged(kept, read, batch_topic(writer), ordinal)

    def _advance(
        self, commit: PartitionCommit, listed: Iterable[StagedChunk | CarriedRows]
    ) -> Changes:
        changes = self._forget(commit.forgotten)
        read = Position.from_json(commit.position)
        ordinal, last = (commit.generation, commit.batch), self.last.get(commit.writer)
        self.position = self.position_after(commit.writer, ordinal, read, replace=commit.replace)
        changes |= self.inputs.take(
            commit.writer,
            read,
            begins=last is None or last.generation < commit.generation,
            replaces=commit.replace,
        )
        self.sequence = commit.sequence
        self.data_generation += 1 if commit.replace else 0
        if commit.replace:
            self.stream_time = -1  # The batch deletes the rows that had made it.
        clocks = self.clocks
        for rows in listed:
            clocks = clocks.after(rows, commit.wall_time_ms)
        self.stream_time, self.puts = clocks
        self.last[commit.writer] = AppliedBatch(
            generation=commit.generation,
            batch=commit.batch,
            sequence=commit.sequence,
            one_off=commit.one_off,
            writer_epoch=commit.writer_epoch,
            wall_time_ms=commit.wall_time_ms,
        )
        return changes

    def _state(self) -> ParticipantState:
        return ParticipantState(
            sequence=self.sequence,
            position=self.position.to_json(),
            stream_time=self.stream_time,
            data_generation=self.data_generation,
            puts=self.puts,
            losses=self.losses,
            forgives=self.forgives,
            forgiven=self.forgiven,
            accepted_in=self.accepted_in,
        )

    def _forget_one_offs(self) -> Changes:
        """Keeps the newest ONE_OFFS_MAX one-off writers: their late stages are refused."""
        one_offs = [(last.sequence, name) for name, last in self.last.items() if last.one_off]
        old = [name for _, name in sorted(one_offs)[:-ONE_OFFS_MAX]]
        return self._forget(old) | {LAST + writer.encode(): None for writer in old}

    def _forget(self, writers: Collection[str]) -> Changes:
        if not writers:
            return {}
        for writer in writers:
            self.last.pop(writer, None)
        self.position = without_writers(self.position, writers)
        return self.inputs.forget(writers)

    def apply_loss(self, epoch: Epoch, held: BatchesHeld, *, is_salvaged: bool = False) -> Changes:
        """Takes the sequence, the position and the last batches that another partition reported.

        A person accepted the loss of batches up to the last completed one; the next may follow.
        """
        is_told = self.accepted_in == epoch and bool(self.losses)
        self.forgives, self.accepted_in = held.unfinished, epoch
        # A pod of before standbys tells only the sequence of an unfinished batch.
        self.forgiven = held.decided if held.unfinished is None else Sequence(0)
        first = Sequence(self.sequence + 1)
        if held.completed <= self.sequence:
            # The partition has every completed batch: it lacks chunks of a decided one, or its
            # loss is unknown.
            if is_salvaged and not is_told:
                loss = DataLoss(first=first, last=self.sequence, epoch=epoch)
                self.losses = with_loss(self.losses, loss)
            return {PARTICIPANT: encode(self._state())}
        changes: Changes = {LAST + writer.encode(): None for writer in self.last}
        changes |= self.inputs.take_over(held.inputs)
        loss = DataLoss(first=first, last=held.completed, epoch=epoch)
        self.losses = with_loss(self.losses, loss)
        self.sequence = held.completed
        self.position, self.last = Position.from_json(held.position), applied_batches(held.last)
        over = [
            chunk
            for chunk in self.staged.values()
            if (last := self.last.get(chunk.writer))
            and last.sequence <= self.sequence
            and chunk.ordinal <= (last.generation, last.batch)
        ]
        changes |= self.staged.drop(over)
        changes |= {LAST + writer.encode(): encode(last) for writer, last in self.last.items()}
        return changes | {PARTICIPANT: encode(self._state())}

    # --- Abort and sweep

    def apply_abort(self, abort: Abort) -> Changes:
        """Drops the chunks that the abort names."""
        aborted = [chunk for chunk in self.staged.values() if is_aborted(abort, chunk)]
        return self.staged.drop(aborted)

    def overdue(self, now_ms: int, timeout_ms: int) -> list[StagedChunk]:
        """One chunk of each run and batch with chunks that are older than `timeout_ms`."""
        return overdue(self.staged.values(), now_ms, timeout_ms)
