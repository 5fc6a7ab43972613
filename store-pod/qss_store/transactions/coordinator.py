"""The writers and decisions of the store: partition 0's state after the entries it has applied.

Only the coordinator decides a batch: its log holds the store's one order of batches. Every rule is
checked before an entry is appended and again when the entry is applied.
"""

from dataclasses import dataclass, field

from qss_core.errors import (
    BatchGapError,
    BatchInProgressError,
    StaleWriterError,
    TooManyWritersError,
    UnknownWriterError,
)
from qss_core.model import Epoch, Offset, Sequence, WriterEpoch
from qss_core.wire.losses import BatchesHeld
from qss_core.wire.messages import Decision, OpenWriterRequest, decode, encode
from qss_store.transactions.commands import (
    CloseWriter,
    Complete,
    DeleteWriter,
    ForgetWriter,
    OpenWriter,
)
from qss_store.transactions.commit_plan import Changes, RowsByKey
from qss_store.transactions.state_rows import COORDINATOR, DECISION, WRITER, CoordinatorState
from qss_store.transactions.writers import (
    DecidedBatch,
    Writer,
    check_youngest,
    digest_of,
    expired_one_offs,
    fenced,
    is_repeat,
    oldest_done_one_off,
    opened_writer,
    replaced,
    with_last_batch,
)

WRITERS_MAX = 1000
FINGERPRINTS_MAX = 100  # Batches of a generation whose replay is recognised.
DELETED_MAX = 1000  # Deleted writers that the partitions have not forgotten yet.
_FORGOTTEN_AT_ONCE_MAX = 100  # Deleted writers in one decision.
_EPOCH_STRIDE = 1_000_000  # Writer epochs in one epoch of partition 0.


@dataclass(slots=True)
class Coordinator:
    """The store's writers and its one order of batches."""

    writers: dict[str, Writer] = field(default_factory=dict)
    last_epoch: WriterEpoch = field(default=WriterEpoch(0))
    completed: Sequence = field(default=Sequence(0))
    decision: Decision | None = None  # The last decision.
    decision_offset: Offset | None = None  # The Decide entry's, which has the carried rows.
    deleted: tuple[str, ...] = ()  # Deleted writers that the partitions have not forgotten yet.
    deleted_generation: int = 0  # The largest generation of a deleted writer.
    lost_time_ms: int = 0  # The latest wall time of a lost decision.

    @classmethod
    def load(cls, rows: RowsByKey) -> "Coordinator":
        """The state that meta rows hold."""
        coordinator = cls()
        if COORDINATOR in rows:
            state = decode(rows[COORDINATOR], CoordinatorState)
            coordinator.last_epoch = state.last_epoch
            coordinator.completed = state.completed
            coordinator.decision_offset = state.decision_offset
            coordinator.deleted = state.deleted
            coordinator.deleted_generation = state.deleted_generation
            coordinator.lost_time_ms = state.lost_time_ms
        if DECISION in rows:
            coordinator.decision = decode(rows[DECISION], Decision)
        for key, value in rows.items():
            if key.startswith(WRITER):
                writer = decode(value, Writer)
                coordinator.writers[writer.name] = writer
        return coordinator

    @property
    def decided(self) -> Sequence:
        """The sequence of the last decision; its entry may be lost."""
        return max(self.completed, self.decision.sequence if self.decision else Sequence(0))

    @property
    def unfinished(self) -> Decision | None:
        """The one decision that is not complete, or None."""
        return self.decision if self.decided > self.completed else None

    def time_of_next(self, now_ms: int) -> int:
        """The wall time of the next decision, never below that of the last decision.

        Rows without a time get the time of their batch, and the rows of later batches must win.
        """
        last_ms = 0 if self.decision is None else self.decision.wall_time_ms
        return max(now_ms, last_ms, self.lost_time_ms)

    def writer(self, name: str) -> Writer:
        if name not in self.writers:
            raise UnknownWriterError(f"the store knows no writer {name}: open it first")
        return self.writers[name]

    # --- Open

    def check_open(self, name: str, request: OpenWriterRequest) -> Writer | None:
        """The writer, if this request has opened it already; None where the request may open it.

        Raises OtherCheckpointError for another query without take-over, StaleWriterError for a run
        or a query that a younger one has fenced, and TooManyWritersError.
        """
        held = self.writers.get(name)
        if held is not None:
            return held if is_repeat(held, request) else None
        if len(self.writers) >= WRITERS_MAX:
            raise TooManyWritersError(
                f"the store has {WRITERS_MAX} writers, which is the limit: write with the name "
                "of one of them, or delete one (qss writers STORE --delete WRITER)"
            )
        return None

    def apply_open(self, epoch: Epoch, wall_time_ms: int, entry: OpenWriter) -> Changes:
        """Allots a writer epoch, which fences all older runs; raises as `check_open`."""
        request = OpenWriterRequest(
            query_id=entry.query_id,
            run_id=entry.run_id,
            open_id=entry.open_id,
            take_over=entry.take_over,
            one_off=entry.one_off,
        )
        if self.check_open(entry.writer, request) is not None:
            return {}
        self.last_epoch = WriterEpoch(max(self.last_epoch, epoch * _EPOCH_STRIDE, entry.above) + 1)
        # Above the generations of a deleted writer of that name, which partitions may remember.
        first_generation = self.deleted_generation + 1
        held = self.writers.get(entry.writer)
        opened = opened_writer(held, entry, self.last_epoch, first_generation, wall_time_ms)
        return self._keep(opened) | {COORDINATOR: self._state()}

    # --- Decide

    def check_run(self, name: str, writer_epoch: WriterEpoch, generation: int) -> Writer:
        """The writer, if this run is its youngest and is open. Raises StaleWriterError."""
        held = self.writer(name)
        check_youngest(held, writer_epoch, generation)
        return held

    def check_order(self, held: Writer, batch: int) -> None:
        """Raises BatchGapError; BatchInProgressError while a decided batch is not complete."""
        if held.last_batch is not None and batch > held.last_batch + 1:
            raise BatchGapError(
                f"batch {batch} does not follow {held.last_batch}: the store may have been "
                'restored to an older state; start the query anew with onNewCheckpoint="takeOver"',
                last_batch=held.last_batch,
            )
        if self.unfinished is not None:
            raise BatchInProgressError(
                f"the batch with sequence {self.decided} is not applied everywhere yet: try again"
            )

    @property
    def open_floor(self) -> Offset | None:
        """The offset of the incomplete decision, if its entry carries rows; else None."""
        decision = self.unfinished
        return self.decision_offset if decision and decision.carries_rows else None

    def apply_decide(self, offset: Offset, decision: Decision) -> Changes:
        """Takes the decision, if the run is still the youngest and the batch still the next."""
        held = self.check_run(decision.writer, decision.writer_epoch, decision.generation)
        self.check_order(held, decision.batch)
        stale = held.last_batch is not None and decision.batch <= held.last_batch
        if stale or decision.sequence != self.decided + 1:
            raise BatchInProgressError(f"batch {decision.batch} was decided meanwhile: ask again")
        kept = DecidedBatch(
            fingerprint=decision.fingerprint,
            sequence=decision.sequence,
            writer_epoch=decision.writer_epoch,
            chunks_digest=digest_of(decision.chunks),
        )
        batches = {**held.batches, str(decision.batch): kept}
        recent = dict(list(batches.items())[-FINGERPRINTS_MAX:])
        self.decision, self.decision_offset = decision, offset
        self.deleted = tuple(name for name in self.deleted if name not in decision.forgotten)
        changes = self._keep(replaced(held, last_batch=decision.batch, batches=recent))
        return changes | {DECISION: encode(decision), COORDINATOR: self._state()}

    def apply_complete(self, entry: Complete) -> Changes:
        """Notes that all partitions have applied the batch; a repeat changes nothing."""
        if entry.sequence <= self.completed:
            return {}
        assert entry.sequence == self.decided, "only the last decision can be incomplete"
        self.completed = entry.sequence
        return {COORDINATOR: self._state()}

    # --- Close, forget, resolve

    def apply_close(self, wall_time_ms: int, entry: CloseWriter) -> Changes:
        """Closes the run of that epoch; a younger run stays open."""
        held = self.writers.get(entry.writer)
        if held is None or held.writer_epoch != entry.writer_epoch or held.closed:
            return {}
        return self._keep(replaced(held, closed=True, closed_at_ms=wall_time_ms))

    def apply_forget(self, entry: ForgetWriter) -> Changes:
        """Forgets a one-off writer; any other writer stays."""
        held = self.writers.get(entry.writer)
        if held is None or not held.one_off:
            return {}
        del self.writers[entry.writer]
        return {WRITER + entry.writer.encode(): None}

    def check_delete(self, name: str) -> Writer:
        """The writer. Raises BatchInProgressError while a batch of the writer is not complete."""
        held = self.writer(name)
        if self.unfinished is not None and self.unfinished.writer == name:
            raise BatchInProgressError(
                f"a batch of writer {name} is not applied everywhere yet: try again"
            )
        if len(self.deleted) >= DELETED_MAX and name not in self.deleted:
            raise TooManyWritersError(
                f"{DELETED_MAX} writers were deleted since the last batch: write a batch first"
            )
        return held

    def apply_delete(self, entry: DeleteWriter) -> Changes:
        """Forgets a writer of any kind; the next decisions make the partitions forget it too.

        Raises as `check_delete`, and StaleWriterError where the writer was opened again meanwhile.
        """
        held = self.check_delete(entry.writer)
        if held.writer_epoch != entry.writer_epoch:
            raise StaleWriterError(f"writer {held.name} was opened again meanwhile")
        del self.writers[held.name]
        self.deleted = (*(name for name in self.deleted if name != held.name), held.name)
        self.deleted_generation = max(self.deleted_generation, held.generation)
        return {WRITER + held.name.encode(): None, COORDINATOR: self._state()}

    def forgotten_by(self, name: str) -> tuple[str, ...]:
        """The deleted writers that a decision of the writer `name` makes the partitions forget.

        A deleted writer that was opened again is forgotten by its own first decision: a later
        decision would make the partitions forget batches that they applied since.
        """
        ranked = sorted(self.deleted, key=lambda other: other != name)
        return tuple(ranked[:_FORGOTTEN_AT_ONCE_MAX])

    def check_abort(self, name: str, writer_epoch: WriterEpoch, generation: int) -> None:
        """Refuses an epoch not allotted, and a run after a take-over, which forgets its batches."""
        held = self.writer(name)
        if writer_epoch < held.writer_epoch and generation < held.generation:
            raise StaleWriterError(f"writer {name} was taken over: read the store for the rows")
        if writer_epoch > held.writer_epoch:
            raise fenced(
                held, f"epoch {writer_epoch} of writer {name} was never allotted: open it anew"
            )

    def may_drop(self, name: str, ordinal: tuple[int, int]) -> bool:
        """Whether no decision needs the chunks from this (generation, batch) on."""
        decision = self.unfinished
        if decision is None or decision.writer != name:
            return True
        return (decision.generation, decision.batch) < ordinal

    def was_decided(
        self, name: str, writer_epoch: WriterEpoch, generation: int, batch: int
    ) -> bool:
        """Whether this run has had the batch decided."""
        held = self.writer(name)
        decided = held.batches.get(str(batch)) if held.generation == generation else None
        return decided is not None and decided.writer_epoch == writer_epoch

    def verdict(self, name: str, writer_epoch: WriterEpoch, ordinal: tuple[int, int]) -> str:
        """The state of staged chunks: `decided` (a Commit will follow), `open` or `dropped`."""
        decision = self.unfinished
        if decision and (decision.writer, (decision.generation, decision.batch)) == (name, ordinal):
            return "decided"
        held = self.writers.get(name)
        known = self.last_epoch if held is None else held.writer_epoch
        if writer_epoch > known:
            return "open"  # This coordinator is deposed or restored, and does not know the run.
        if held is None or held.closed or held.writer_epoch != writer_epoch:
            return "dropped"
        last = -1 if held.last_batch is None else held.last_batch
        return "open" if ordinal > (held.generation, last) else "dropped"

    def expired_one_offs(self, now_ms: int) -> list[str]:
        return expired_one_offs(self.writers.values(), now_ms)

    def oldest_done_one_off(self) -> str | None:
        return oldest_done_one_off(self.writers.values(), self.completed)

    def apply_loss(self, epoch: Epoch, held: BatchesHeld) -> Changes:
        """Continues after the last completed batch, and completes an unfinished one.

        Of a writer whose entries are lost only the last batch is known. All runs are closed and
        have to open anew, with epochs above any that a lost entry may have allotted.
        """
        self.completed = max(self.completed, held.completed)
        middle = epoch * _EPOCH_STRIDE + _EPOCH_STRIDE // 2
        known = (one.writer_epoch for one in held.last)
        self.last_epoch = WriterEpoch(max(self.last_epoch, middle, *known))
        self.lost_time_ms = max(self.lost_time_ms, *(one.wall_time_ms for one in held.last), 0)
        changes: Changes = {COORDINATOR: self._state()}
        for one in (one for one in held.last if one.writer not in self.deleted):
            changes |= self._keep(with_last_batch(self.writers.get(one.writer), one))
        for writer in list(self.writers.values()):
            changes |= self._keep(replaced(writer, closed=True, ended_by_loss_in=epoch))
        return changes

    def _keep(self, writer: Writer) -> Changes:
        self.writers[writer.name] = writer
        return {WRITER + writer.name.encode(): encode(writer)}

    def _state(self) -> bytes:
        return encode(
            CoordinatorState(
                last_epoch=self.last_epoch,
                decided=self.decided,
                completed=self.completed,
                decision_offset=self.decision_offset,
                deleted=self.deleted,
                deleted_generation=self.deleted_generation,
                lost_time_ms=self.lost_time_ms,
            )
        )
