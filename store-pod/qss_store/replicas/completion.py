"""What is known to be complete, and which replica holds less: its volume went back.

Sequences are facts that stay true. A batch is decided only when the one before is complete, so a
partition at sequence n says that n - 1 is applied in every partition, and that n was decided.
Whatever a pod hears, it may hold against the replicas that it has later.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from qss_core.errors import RolledBackError
from qss_core.model import Role, Sequence, WriterEpoch
from qss_store.storage.views.read_view import ReadView
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.machine import Machine

_NONE = Sequence(0)
_NO_EPOCH = WriterEpoch(0)


class Held(Protocol):
    """A replica, as far as its sequence is concerned."""

    machine: Machine

    @property
    def is_recovered(self) -> bool:
        """Whether its log's tail is applied."""

    @property
    def partition(self) -> int: ...

    @property
    def role(self) -> Role | None:
        """What it is to its partition."""

    @property
    def view(self) -> ReadView | None:
        """What readers see, durable; None before it serves."""


@dataclass(slots=True)
class Completion:
    """The largest sequences that one pod has heard of."""

    completed: Sequence = _NONE  # Applied in every partition.
    decided: Sequence = _NONE
    # By partition: a batch that was decided, and of which the partition has lost chunks.
    lacking: dict[int, Sequence] = field(default_factory=dict)
    unreadable: Sequence = _NONE  # A decision of partition 0 whose rows are damaged.
    forgotten: Sequence = _NONE  # That was decided, and that partition 0 does not know any more.
    writer_epoch: WriterEpoch = _NO_EPOCH  # The highest that any partition has seen.

    def learn(
        self,
        *,
        completed: Sequence = _NONE,
        held: Sequence = _NONE,
        forgotten: Sequence = _NONE,
        writer_epoch: WriterEpoch = _NO_EPOCH,
    ) -> None:
        """Takes a sequence that is complete, that a partition holds, or that was `forgotten`.

        And a writer epoch that somebody has seen.
        """
        self.writer_epoch = max(self.writer_epoch, writer_epoch)
        self.completed = max(self.completed, completed, Sequence(held - 1))
        self.decided = max(self.decided, completed, held)
        self.forgotten = max(self.forgotten, forgotten)

    def newest_epoch(self, replicas: Iterable[Held]) -> WriterEpoch:
        """The highest writer epoch that was heard of, or seen by replicas here."""
        for replica in replicas:
            self.learn(writer_epoch=replica.machine.newest_epoch)
        return self.writer_epoch

    def learn_of(self, coordinator: Coordinator) -> None:
        """Takes what partition 0's coordinator, which is recovered, knows and does not know."""
        self.learn(completed=coordinator.completed)
        if coordinator.decided < self.decided:
            self.forgotten = max(self.forgotten, self.decided)

    def missing(self, replica: Held) -> Sequence | None:
        """A sequence that was completed and that an active replica does not hold; else None.

        Of partition 0 also one that was decided and that its coordinator does not know.
        """
        view = replica.view
        if view is None or replica.role is not Role.ACTIVE:
            return None
        if view.sequence < self.completed:
            return self.completed
        # Nobody drives it: whether it was answered before partition 0 went back nobody knows.
        if view.sequence < self.forgotten:
            return self.forgotten
        coordinator = replica.machine.coordinator
        if coordinator is None or not replica.is_recovered:
            return None
        if coordinator.decided < self.decided:
            return self.decided
        return None

    def lacks(self, replica: Held) -> Sequence | None:
        """A sequence that the replica cannot reach by itself, `missing` or decided; else None.

        What it shows may be whole and true: a decided batch whose chunks it lost is not applied.
        """
        lacking = self.lacking.get(replica.partition, _NONE)
        coordinator = replica.machine.coordinator
        if coordinator is not None and self.unreadable > coordinator.completed:
            return max(self.unreadable, self.missing(replica) or _NONE)
        if lacking > replica.machine.participant.sequence:
            return max(lacking, self.missing(replica) or _NONE)
        return self.missing(replica)

    def check(self, replica: Held) -> None:
        """Raises RolledBackError where the replica is behind what was completed."""
        missing = self.missing(replica)
        if missing is not None:
            raise rolled_back(replica.partition, replica.machine.participant.sequence, missing)


def rolled_back(partition: int, sequence: Sequence, completed: Sequence) -> RolledBackError:
    """The refusal of a partition that is behind."""
    return RolledBackError(
        f"partition {partition} holds sequence {sequence}, and {completed} was completed: its "
        "volume went back to an older state. Bring the newer volume back, or accept the loss by "
        f"the annotation queryablestate.dev/accept-data-loss: {partition}@EPOCH",
        partition=partition,
        sequence=sequence,
        completed=completed,
    )
