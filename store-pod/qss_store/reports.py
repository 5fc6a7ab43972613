"""What the operator is told of a replica."""

from qss_core.model import Role
from qss_core.wire import ReplicaReport
from qss_store.replica import Replica


def report_of(replica: Replica) -> ReplicaReport:
    """What a pod holds of one partition; its sequence is that of the state that readers see."""
    view = replica.view
    return ReplicaReport(
        configuration=replica.log.configuration,
        role=replica.role or Role.LEARNER,
        state=state_of(replica),
        applied_offset=replica.log.applied,
        end_offset=replica.log.end,
        sequence=view.sequence if view else replica.machine.participant.sequence,
        error=replica.failure.message if replica.failure else None,
        format=replica.definition.format,
        migration=replica.migration.report(replica.shown_families()),
        index=replica.index_build.report(replica.shown_families()),
    )


def state_of(replica: Replica) -> str:
    """Whether it is opening, serving or failed."""
    return "failed" if replica.failure else "serving" if replica.view else "opening"
