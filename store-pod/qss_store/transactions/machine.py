"""One partition's state machine: takes the log's entries in order, answers what each one did.

Deterministic: equal entries give equal states on every replica. Partition 0 also coordinates.
"""

from dataclasses import dataclass, field
from typing import assert_never

from qss_core.errors import StoreError
from qss_core.model import Offset, WriterEpoch
from qss_store.replication.entries import (
    Abort,
    AcceptLoss,
    Barrier,
    CloseWriter,
    Command,
    Commit,
    Complete,
    Decide,
    DeleteWriter,
    Entry,
    ForgetWriter,
    OpenWriter,
    Stage,
)
from qss_store.transactions.commit_plan import Changes, CommitPlan, Rows
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.participant import Participant
from qss_store.transactions.staged import newest_epoch


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an entry did where it stands in the log; a `failure` changed nothing."""

    changes: Changes = field(default_factory=dict)
    plan: CommitPlan | None = None
    failure: StoreError | None = None
    writer_epoch: WriterEpoch | None = None
    is_shown: bool = False  # Readers see another state, without new rows.


@dataclass(slots=True)
class Machine:
    """The applied state of one partition."""

    participant: Participant
    coordinator: Coordinator | None

    @classmethod
    def load(cls, partition: int, rows: Rows) -> "Machine":
        """The state that meta rows hold."""
        coordinator = Coordinator.load(rows) if partition == 0 else None
        return cls(Participant.load(rows), coordinator)

    @property
    def open_floor(self) -> Offset | None:
        """The first entry that something undecided or incomplete still needs."""
        coordinated = self.coordinator.open_floor if self.coordinator else None
        floors = (self.participant.open_floor, coordinated)
        return min((one for one in floors if one is not None), default=None)

    @property
    def newest_epoch(self) -> WriterEpoch:
        """The highest writer epoch that was seen, or allotted."""
        allotted = self.coordinator.last_epoch if self.coordinator else WriterEpoch(0)
        participant = self.participant
        seen = newest_epoch(participant.staged.values(), participant.last.values())
        return max(allotted, seen)

    def apply(self, offset: Offset, entry: Entry) -> Outcome:
        """Takes the next entry. The state is changed at once; the shell makes `changes` durable."""
        try:
            return self._apply(offset, entry, entry.command)
        except StoreError as failure:
            return Outcome(failure=failure)

    def _apply(self, offset: Offset, entry: Entry, command: Command) -> Outcome:
        match command:
            case Stage():
                return Outcome(self.participant.apply_stage(offset, entry.wall_time_ms, command))
            case Commit():
                plan = self.participant.plan_commit(offset, command.commit)
                return Outcome(plan.changes if plan else {}, plan)
            case Abort():
                return Outcome(self.participant.apply_abort(command))
            case Barrier():
                return Outcome()
            case AcceptLoss():
                changes = self.participant.apply_loss(
                    entry.epoch, command.held, is_salvaged=command.is_salvaged
                )
                if self.coordinator is not None:
                    changes |= self.coordinator.apply_loss(entry.epoch, command.held)
                return Outcome(changes, is_shown=True)
            case (
                OpenWriter()
                | Decide()
                | Complete()
                | CloseWriter()
                | ForgetWriter()
                | DeleteWriter()
            ):
                assert self.coordinator is not None, "only partition 0 coordinates"
                return self._coordinate(self.coordinator, offset, entry, command)
            case _:
                assert_never(command)

    def _coordinate(
        self,
        coordinator: Coordinator,
        offset: Offset,
        entry: Entry,
        command: OpenWriter | Decide | Complete | CloseWriter | ForgetWriter | DeleteWriter,
    ) -> Outcome:
        match command:
            case OpenWriter():
                changes = coordinator.apply_open(entry.epoch, entry.wall_time_ms, command)
                return Outcome(
                    changes, writer_epoch=coordinator.writer(command.writer).writer_epoch
                )
            case Decide():
                return Outcome(coordinator.apply_decide(offset, command.decision))
            case Complete():
                return Outcome(coordinator.apply_complete(command))
            case CloseWriter():
                return Outcome(coordinator.apply_close(entry.wall_time_ms, command))
            case ForgetWriter():
                return Outcome(coordinator.apply_forget(command))
            case DeleteWriter():
                return Outcome(coordinator.apply_delete(command))
            case _:
                assert_never(command)
