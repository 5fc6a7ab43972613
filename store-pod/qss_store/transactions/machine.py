"""The state machine of one partition: plans each entry of the log in order, and advances.

The replica calls `advance` after it has written the plan's changes: until then readers see the
state before the entry. Equal entries give equal states on every replica. Partition 0 also has the
coordinator.
"""

from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar, assert_never

from qss_core.errors import StoreError
from qss_core.model import Offset, WriterEpoch
from qss_store.transactions.commands import (
    Abort,
    AcceptLoss,
    Barrier,
    CloseWriter,
    Command,
    Commit,
    Complete,
    Decide,
    DeleteWriter,
    ForgetWriter,
    LoggedCommand,
    OpenWriter,
    Stage,
)
from qss_store.transactions.commit_plan import Changes, CommitPlan, RowsByKey
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.inputs import InputsRead
from qss_store.transactions.participant import Participant
from qss_store.transactions.staged import newest_epoch

State = TypeVar("State", Participant, Coordinator)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of planning an entry; an entry with a `failure` changes nothing."""

    changes: Changes = field(default_factory=dict)
    plan: CommitPlan | None = None
    failure: StoreError | None = None
    writer_epoch: WriterEpoch | None = None
    is_shown: bool = False  # Publish the state to readers, although no rows change.
    after: "Machine | None" = None  # The state after the entry; None where nothing changes.


@dataclass(slots=True)
class Machine:
    """The applied state of one partition."""

    participant: Participant
    coordinator: Coordinator | None

    @classmethod
    def load(cls, partition: int, rows: RowsByKey) -> "Machine":
        """The state that meta rows hold."""
        coordinator = Coordinator.load(rows) if partition == 0 else None
        return cls(Participant.load(rows), coordinator)

    @property
    def open_floor(self) -> Offset | None:
        """The oldest entry that a staged slice or an incomplete decision needs."""
        coordinated = self.coordinator.open_floor if self.coordinator else None
        floors = (self.participant.open_floor, coordinated)
        return min((one for one in floors if one is not None), default=None)

    @property
    def newest_epoch(self) -> WriterEpoch:
        """The highest writer epoch that this partition has seen or allotted."""
        allotted = self.coordinator.last_epoch if self.coordinator else WriterEpoch(0)
        participant = self.participant
        seen = newest_epoch(participant.staged.values(), participant.last.values())
        return max(allotted, seen)

    def plan(self, offset: Offset, entry: LoggedCommand) -> Outcome:
        """Plans the next entry. The replica makes `changes` durable, then calls `advance`."""
        after = self._draft(entry.command)
        try:
            outcome = after.apply(offset, entry, entry.command)
        except StoreError as failure:
            return Outcome(failure=failure)
        return replace(outcome, after=after)

    def advance(self, outcome: Outcome) -> None:
        """Takes the state after a planned entry."""
        if outcome.after is None:
            return
        participant, coordinator = outcome.after.participant, outcome.after.coordinator
        if participant is not self.participant:
            _become(self.participant, participant)
        if self.coordinator is not None and coordinator is not None:
            _become(self.coordinator, coordinator)

    def _draft(self, command: Command) -> "Machine":
        """This state with copies of the parts that the command may change."""
        participant, coordinator = self.participant, self.coordinator
        if isinstance(command, Stage | Commit | Abort | AcceptLoss):
            participant = copy(participant)
            participant.staged, participant.last = participant.staged.copy(), {**participant.last}
            participant.inputs = InputsRead({**participant.inputs.by_writer})
        if coordinator is not None and not isinstance(command, Stage | Commit | Abort | Barrier):
            coordinator = copy(coordinator)
            coordinator.writers = {**coordinator.writers}
        return Machine(participant, coordinator)

    def apply(self, offset: Offset, entry: LoggedCommand, command: Command) -> Outcome:
        """Applies an entry to this state itself; after a StoreError the state is half changed."""
        match command:
            case Stage():
                return Outcome(self.participant.apply_stage(offset, entry.wall_time_ms, command))
            case Commit():
                plan = self.participant.apply_commit(offset, command.commit)
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
        entry: LoggedCommand,
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


def _become(held: State, after: State) -> None:
    """Copies all members into `held`: other objects refer to it."""
    for one in fields(held):
        setattr(held, one.name, getattr(after, one.name))
