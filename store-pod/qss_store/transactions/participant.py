"""What one partition knows of batches, from the entries it has applied.

The rules are checked twice: before an entry is appended, for a quick refusal, and again where the
entry stands in the log, alike on every replica; only the second answer counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from qss_core.errors import (
    BatchClosedError,
    ChunkMismatchError,
    ChunkMissingError,
    OutOfOrderError,
)
from qss_core.model import Offset, Sequence, Wire, WriterEpoch
from qss_core.positions import Position
from qss_core.wire import (
    CarriedRows,
    ChunkReference,
    PartitionCommit,
    PositionJson,
    decode,
    encode,
)
from qss_store.replication.entries import Abort, Stage
from qss_store.transactions.batch_positions import (
    batch_topic,
    merged,
    only_batches,
    without_writers,
)
from qss_store.transactions.inputs import InputsRead
from qss_store.transactions.staged import (
    NOTHING_STAGED,
    Clocks,
    StagedChunk,
    Uncommitted,
    visible_chunks,
)

ONE_OFFS_MAX = 100  # One-off writers that a partition remembers; the coordinator knows more.
_STATE = b"participant"
_LAST = b"last/"
_STAGED = b"staged/"

Rows = Mapping[bytes, bytes]
Changes = dict[bytes, bytes | None]  # Rows of the meta family; None deletes.


class _LastBatch(Wire, frozen=True, kw_only=True):
    generation: int
    batch: int
    sequence: Sequence
    one_off: bool
    writer_epoch: WriterEpoch = WriterEpoch(0)


class _State(Wire, frozen=True, kw_only=True):
    sequence: Sequence
    position: PositionJson
    stream_time: int
    data_generation: int
    puts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """How a commit is applied: these entries in this order, then `changes` with the last rows.

    Windows and sessions are judged by `stream_time`, which is that after the batch, versions by the
    one before it; numbers go on from `puts_before`: a commit that is applied again after a crash
    writes the same rows.
    """

    payloads: tuple[Offset, ...]
    default_timestamp_ms: int
    data_generation: int
    replaces: bool
    stream_time: int
    stream_time_before: int
    puts_before: int
    changes: Changes
    records: int


@dataclass(slots=True)
class Participant:
    """One partition's share of the transactions' state."""

    sequence: Sequence = field(default=Sequence(0))
    position: Position = field(default_factory=Position.empty)
    stream_time: int = -1
    data_generation: int = 0
    puts: int = 0  # Rows with a value, ever, modulo 2^31: the last one's number.
    last: dict[str, _LastBatch] = field(default_factory=dict)
    staged: dict[tuple[str, str], StagedChunk] = field(default_factory=dict)
    inputs: InputsRead = field(default_factory=InputsRead)
    # Before the last commit was taken in: readers see it until that one's rows are written.
    before: Uncommitted = field(default=NOTHING_STAGED, compare=False)
    _visible: tuple[StagedChunk, ...] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def load(cls, rows: Rows) -> "Participant":
        """The state that meta rows hold."""
        participant = cls(inputs=InputsRead.load(rows))
        if _STATE in rows:
            state = decode(rows[_STATE], _State)
            participant.sequence = state.sequence
            participant.position = Position.from_json(state.position)
            participant.stream_time = state.stream_time
            participant.data_generation = state.data_generation
            participant.puts = state.puts
        for key, value in rows.items():
            if key.startswith(_LAST):
                participant.last[key[len(_LAST) :].decode()] = decode(value, _LastBatch)
            elif key.startswith(_STAGED):
                chunk = decode(value, StagedChunk)
                participant.staged[chunk.writer, chunk.chunk] = chunk
        return participant

    @property
    def staged_bytes(self) -> int:
        """Bytes of all payloads that no commit has taken."""
        return sum(chunk.payload_bytes for chunk in self.staged.values())

    @property
    def clocks(self) -> Clocks:
        """Those of the applied batches."""
        return Clocks(self.stream_time, self.puts)

    def uncommitted(self) -> Uncommitted:
        """What readers of uncommitted rows see beside the applied batches."""
        if self._visible is None:
            writers = {writer for writer, _ in self.staged}
            last = {writer: self.last[writer] for writer in writers if writer in self.last}
            epochs = {writer: one.writer_epoch for writer, one in last.items()}
            self._visible = visible_chunks(self.staged.values(), epochs)
        return Uncommitted(self._visible, self.clocks)

    @property
    def open_floor(self) -> Offset | None:
        """The first Stage that is still needed."""
        return min((chunk.offset for chunk in self.staged.values()), default=None)

    # --- Stage

    def check_stage(self, stage: Stage) -> bool:
        """Whether the slice is new here; False is a repeat of one that is under the watermark.

        Raises BatchClosedError at or below the last applied batch, and ChunkMismatchError where
        the id stands for other rows.
        """
        last = self.last.get(stage.writer)
        if last and (stage.generation, stage.batch) <= (last.generation, last.batch):
            raise BatchClosedError(
                f"batch {stage.batch} of writer {stage.writer} was applied: ask the coordinator",
                batch=last.batch,
                generation=last.generation,
            )
        held = self.staged.get((stage.writer, stage.chunk))
        if held is None:
            return True
        same = (held.checksum, held.ordinal) == (stage.checksum, (stage.generation, stage.batch))
        if not same:
            raise ChunkMismatchError(
                f"chunk {stage.chunk} is staged with other rows: give every attempt its own id"
            )
        return False

    def apply_stage(self, offset: Offset, wall_time_ms: int, stage: Stage) -> Changes:
        """Holds the slice as uncommitted; raises as `check_stage`."""
        if not self.check_stage(stage):
            return {}
        chunk = StagedChunk(
            offset=offset, wall_time_ms=wall_time_ms, **msgspec.structs.asdict(stage)
        )
        self.staged[stage.writer, stage.chunk] = chunk
        self._visible = None
        return {_staged_key(chunk): encode(chunk)}

    # --- Prepare and commit

    def check_chunks(
        self,
        writer: str,
        ordinal: tuple[int, int],
        writer_epoch: WriterEpoch,
        chunks: Iterable[ChunkReference],
    ) -> list[StagedChunk]:
        """The staged slices that a batch lists, in order; ChunkMissingError names the first gap."""
        found = []
        for reference in chunks:
            held = self.staged.get((writer, reference.id))
            wanted = (ordinal, writer_epoch, reference.records, reference.checksum)
            if held is None or wanted != (
                held.ordinal,
                held.writer_epoch,
                held.records,
                held.checksum,
            ):
                raise ChunkMissingError(
                    f"chunk {reference.id} of writer {writer} is not staged here as the commit "
                    "names it: stage it again, nothing was decided",
                    chunk=reference.id,
                )
            found.append(held)
        return found

    def check_prepare(
        self,
        writer: str,
        ordinal: tuple[int, int],
        writer_epoch: WriterEpoch,
        chunks: Iterable[ChunkReference],
    ) -> list[StagedChunk]:
        """Everything that could refuse the commit; the slices it would apply."""
        last = self.last.get(writer)
        if last and ordinal <= (last.generation, last.batch):
            raise BatchClosedError(f"batch {ordinal[1]} of writer {writer} was applied here")
        return self.check_chunks(writer, ordinal, writer_epoch, chunks)

    def check_commit(self, commit: PartitionCommit) -> bool:
        """Whether the commit is still to be applied; False for one that was.

        It looks neither at the writer epoch nor at who sent it: a decision is a fact.
        """
        if commit.sequence <= self.sequence:
            return False
        if commit.sequence != self.sequence + 1:
            raise OutOfOrderError(
                f"sequence {commit.sequence} cannot follow {self.sequence}: send the ones between",
                sequence=self.sequence,
            )
        ordinal = (commit.generation, commit.batch)
        self.check_chunks(commit.writer, ordinal, commit.writer_epoch, commit.chunks)
        return True

    def plan_commit(self, offset: Offset, commit: PartitionCommit) -> CommitPlan | None:
        """Takes the commit into the state, says how to apply it; None for one that was applied.

        `offset` is its entry's, which may carry its rows.
        """
        if not self.check_commit(commit):
            return None
        ordinal = (commit.generation, commit.batch)
        listed = self.check_chunks(commit.writer, ordinal, commit.writer_epoch, commit.chunks)
        dropped = [
            chunk
            for chunk in self.staged.values()
            if chunk.writer == commit.writer and chunk.ordinal <= ordinal
        ]
        self.before = self.uncommitted()
        puts_before = self.puts
        # Rows that are replaced are gone, and the time that was true of them.
        stream_time_before = -1 if commit.replace else self.stream_time
        carried = () if commit.rows is None else (commit.rows,)
        changes: Changes = {_LAST + writer.encode(): None for writer in commit.forgotten}
        changes |= self._advance(commit, (*listed, *carried))
        changes |= self._drop(dropped)
        changes |= self._forget_one_offs()
        changes[_LAST + commit.writer.encode()] = encode(self.last[commit.writer])
        changes[_STATE] = encode(self._state())
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
        """The position that a batch which read its inputs so far would leave.

        `forgotten` are writers that it takes away.
        """
        last = None if writer in forgotten else self.last.get(writer)
        kept = without_writers(self.position, forgotten)
        if replace:
            kept = only_batches(kept)  # The rows that the inputs had made are gone.
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
            self.stream_time = -1  # The rows that it was true of are gone.
        clocks = self.clocks
        for rows in listed:
            clocks = clocks.after(rows, commit.wall_time_ms)
        self.stream_time, self.puts = clocks
        self.last[commit.writer] = _LastBatch(
            generation=commit.generation,
            batch=commit.batch,
            sequence=commit.sequence,
            one_off=commit.one_off,
            writer_epoch=commit.writer_epoch,
        )
        return changes

    def _state(self) -> _State:
        return _State(
            sequence=self.sequence,
            position=self.position.to_json(),
            stream_time=self.stream_time,
            data_generation=self.data_generation,
            puts=self.puts,
        )

    def _forget_one_offs(self) -> Changes:
        """Keeps the youngest: each has a component of the position, which has a limit."""
        one_offs = [(last.sequence, name) for name, last in self.last.items() if last.one_off]
        old = [name for _, name in sorted(one_offs)[:-ONE_OFFS_MAX]]
        return self._forget(old) | {_LAST + writer.encode(): None for writer in old}

    def _forget(self, writers: Collection[str]) -> Changes:
        if not writers:
            return {}
        for writer in writers:
            self.last.pop(writer, None)
        self.position = without_writers(self.position, writers)
        return self.inputs.forget(writers)

    # --- Abort and sweep

    def apply_abort(self, abort: Abort) -> Changes:
        """Drops what the abort names and nothing of another run."""
        return self._drop([chunk for chunk in self.staged.values() if _aborted(abort, chunk)])

    def overdue(self, now_ms: int, timeout_ms: int) -> list[StagedChunk]:
        """One chunk of each (writer, batch, run) that has been staged for longer than that."""
        groups = {
            (chunk.writer, chunk.ordinal, chunk.writer_epoch): chunk
            for chunk in self.staged.values()
            if now_ms - chunk.wall_time_ms > timeout_ms
        }
        return list(groups.values())

    def _drop(self, chunks: Iterable[StagedChunk]) -> Changes:
        changes: Changes = {}
        self._visible = None
        for chunk in chunks:
            del self.staged[chunk.writer, chunk.chunk]
            changes[_staged_key(chunk)] = None
        return changes


def _aborted(abort: Abort, chunk: StagedChunk) -> bool:
    if chunk.writer != abort.writer:
        return False
    ordinal = (abort.generation, abort.batch)
    if abort.only_this_batch:
        return (chunk.ordinal, chunk.writer_epoch) == (ordinal, abort.writer_epoch)
    return chunk.writer_epoch <= abort.writer_epoch and chunk.ordinal >= ordinal


def _staged_key(chunk: StagedChunk) -> bytes:
    return _STAGED + msgspec.json.encode([chunk.writer, chunk.chunk])
