"""Finds replicas that lack completed batches: their volume went back to an older state.

A batch is decided only after the batch before is complete: a partition at sequence n proves that
every partition has applied n - 1, and that n was decided. This stays true, so a pod checks the
replicas that it opens later against sequences that it learned before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from qss_core.errors import RolledBackError, StoreError
from qss_core.model import Offset, PartitionConfiguration, Role, Sequence, WriterEpoch
from qss_store.replicas.replica import Replica
from qss_store.transactions.commands import AcceptLoss, Commit
from qss_store.transactions.coordinator import Coordinator

NO_SEQUENCE = Sequence(0)
_NO_EPOCH = WriterEpoch(0)


@dataclass(slots=True)
class RollbackCheck:
    """The largest sequences that one pod has learned of."""

    completed: Sequence = NO_SEQUENCE  # The last batch that every partition has applied.
    decided: Sequence = NO_SEQUENCE
    # By partition: a decided batch of which the partition has lost chunks.
    lacking: dict[int, Sequence] = field(default_factory=dict)
    unreadable: Sequence = NO_SEQUENCE  # A decision of partition 0 whose rows are damaged.
    forgotten: Sequence = NO_SEQUENCE  # The last decided batch that partition 0's log lacks.
    writer_epoch: WriterEpoch = _NO_EPOCH  # The highest that any partition has seen.

    def learn(
        self,
        *,
        completed: Sequence = NO_SEQUENCE,
        held: Sequence = NO_SEQUENCE,
        forgotten: Sequence = NO_SEQUENCE,
        writer_epoch: WriterEpoch = _NO_EPOCH,
    ) -> None:
        """Takes sequences that are complete, held by a partition, or `forgotten` by partition 0.

        Takes a writer epoch that a partition has seen, too.
        """
        self.writer_epoch = max(self.writer_epoch, writer_epoch)
        self.completed = max(self.completed, completed, Sequence(held - 1))
        self.decided = max(self.decided, completed, held)
        self.forgotten = max(self.forgotten, forgotten)

    def newest_epoch(self, replicas: Iterable[Replica]) -> WriterEpoch:
        """The highest writer epoch that this pod's replicas have seen or other pods reported."""
        for replica in replicas:
            self.learn(writer_epoch=replica.machine.newest_epoch)
        return self.writer_epoch

    def learn_of(self, coordinator: Coordinator) -> None:
        """Takes the sequences of partition 0's coordinator, whose replica is recovered."""
        self.learn(completed=coordinator.completed)
        if coordinator.decided < self.decided:
            self.forgotten = max(self.forgotten, self.decided)

    def missing(self, replica: Replica, commits: Sequence = NO_SEQUENCE) -> Sequence | None:
        """A completed sequence that an active replica lacks, or None.

        For partition 0 also a decided sequence that its coordinator lacks. `commits` is that of a
        decision that the replica is to apply now: its coordinator has not forgotten it.
        """
        view = replica.view
        if view is None or replica.role is not Role.ACTIVE or replica.acting.begins_epoch:
            return None
        if view.sequence < self.completed:
            return self.completed
        # No pod drives the forgotten batch; its writer may have been told that it is committed.
        coordinator = replica.machine.coordinator
        if coordinator is not None and not replica.is_recovered:
            coordinator = None
        known = NO_SEQUENCE if coordinator is None else coordinator.decided
        if max(view.sequence, commits, known) < self.forgotten:
            return self.forgotten
        if coordinator is None:
            return None
        if coordinator.decided < self.decided:
            return self.decided
        return None

    def lacks(self, replica: Replica) -> Sequence | None:
        """A sequence that the replica cannot reach by itself, or None.

        The sequence is `missing`, or that of a decided batch whose chunks or rows the replica lost.
        In the second case the state that readers see may be complete.
        """
        if replica.role is not Role.ACTIVE:
            return None  # The replica's active has the missing entries.
        lacking = self.lacking.get(replica.partition, NO_SEQUENCE)
        coordinator = replica.machine.coordinator
        if coordinator is not None and self.unreadable > coordinator.completed:
            return max(self.unreadable, self.missing(replica) or NO_SEQUENCE)
        if lacking > replica.machine.participant.sequence:
            return max(lacking, self.missing(replica) or NO_SEQUENCE)
        # An active that begins its epoch waits for its standbys before it applies its log. Such an
        # active is behind only if its log lacks the batch, and not if it has yet to apply it. It
        # cannot ask its standbys: the one with all batches may be away.
        held = replica.machine.participant.sequence
        if replica.acting.begins_epoch and held < self.completed:
            logged = _logged_sequence(replica)
            return self.completed if logged is not None and logged < self.completed else None
        return self.missing(replica)

    def check(self, replica: Replica, commits: Sequence = NO_SEQUENCE) -> None:
        """Raises RolledBackError where the replica lacks a completed batch, as `missing` tells."""
        missing = self.missing(replica, commits)
        if missing is not None:
            raise rolled_back(
                replica.partition,
                replica.machine.participant.sequence,
                missing,
                replica.log.configuration,
            )


def rolled_back(
    partition: int,
    sequence: Sequence,
    completed: Sequence,
    configuration: PartitionConfiguration | None = None,
) -> RolledBackError:
    """The error of a partition that is behind; `configuration` is its own, where it is known."""
    way = "Bring the newer volume back, or accept the loss as the store's condition Degraded says"
    if configuration is not None and len(configuration.in_sync) > 1:
        way = f"Another replica takes over. Where none does: {way[0].lower()}{way[1:]}"
    elif configuration is not None:
        way = (
            "Bring the newer volume back, or accept the loss by the annotation "
            f"queryablestate.dev/accept-data-loss: {partition}@{configuration.epoch}"
        )
    return RolledBackError(
        f"partition {partition} holds sequence {sequence}, and at least {completed} was completed: "
        f"its volume went back to an older state. {way}",
        partition=partition,
        sequence=sequence,
        completed=completed,
    )


def _logged_sequence(replica: Replica) -> Sequence | None:
    """The sequence of the last batch in its log, applied or not; None where it has failed.

    A log that cannot be read fails the replica alone: the others are compared all the same.
    """
    tail = range(replica.log.applied, replica.log.end)
    last = replica.machine.participant.sequence
    try:
        for number in tail:
            command = replica.changelog.read(Offset(number)).command
            if isinstance(command, Commit):
                last = max(last, command.commit.sequence)
            elif isinstance(command, AcceptLoss):
                last = max(last, command.held.sequence)
    except StoreError as error:
        if replica.failure is None:
            replica.fail(error)
        return None
    return last
