"""What the operator is told of a replica."""

from qss_core.model import Role
from qss_core.wire import ReplicaReport
from qss_store.completion import Completion, rolled_back
from qss_store.replica import Replica


def report_of(replica: Replica, completion: Completion) -> ReplicaReport:
    """What a pod holds of one partition; its sequence is that of the state that readers see."""
    view, missing = replica.view, completion.lacks(replica)
    sequence = view.sequence if view else replica.machine.participant.sequence
    coordinator = replica.machine.coordinator if replica.is_recovered else None
    error = replica.failure
    if missing is not None:
        error = rolled_back(replica.partition, sequence, missing)
    return ReplicaReport(
        configuration=replica.log.configuration,
        role=replica.role or Role.LEARNER,
        state=state_of(replica) if missing is None else "behind",
        applied_offset=replica.log.applied,
        end_offset=replica.log.end,
        sequence=sequence,
        error=error.message if error else None,
        format=replica.definition.format,
        migration=replica.migration.report(replica.shown_families()),
        index=replica.index_build.report(replica.shown_families()),
        completed=missing,
        coordinated=coordinator.completed if coordinator else None,
        losses=replica.machine.participant.losses,
    )


def state_of(replica: Replica) -> str:
    """Whether it is opening, serving or failed."""
    return "failed" if replica.failure else "serving" if replica.view else "opening"
