"""Counts the partitions of a store that are served, and the partitions that answer reads. Pure."""

from qss_core.model import PartitionConfiguration, Role
from qss_operator.planning.assignment_state import KnownAssignment, UnknownAssignment
from qss_operator.planning.model import ConditionStatus, ConditionType, Observation, StoreStatus

_SERVING = "serving"


def served(
    observation: Observation, known: KnownAssignment | UnknownAssignment
) -> list[PartitionConfiguration]:
    """The partitions whose active serves them, in the configuration that certainly holds.

    Of a configuration that is to be published now no pod has heard: the one before holds.
    """
    if isinstance(known, UnknownAssignment):
        return []
    held = {
        (report.ordinal, replica.configuration.partition): replica
        for report in observation.reports.values()
        if report.store_id == known.store_id
        for replica in report.replicas
    }

    status = observation.resource.status
    published = {entry.partition: entry for entry in (status and status.assignment) or ()}

    def is_served(entry: PartitionConfiguration) -> bool:
        replica = held.get((entry.active, entry.partition))
        return (
            replica is not None
            and replica.state == _SERVING
            and replica.configuration.epoch == entry.epoch
        )

    def is_new(entry: PartitionConfiguration) -> bool:
        before = published.get(entry.partition)
        return before is not None and before.epoch == entry.epoch - 1 and is_served(before)

    return [entry for entry in known.certain if is_served(entry) or is_new(entry)]


def is_serving(status: StoreStatus) -> bool:
    """Whether every partition of the store is served, also before the spec is carried out."""
    ready = status.condition(ConditionType.READY)
    count, _, whole = (status.assigned or "").partition("/")
    is_known = ready is not None and ready.status is not ConditionStatus.UNKNOWN
    return is_known and count == whole != ""


def counted(
    observation: Observation, known: KnownAssignment | UnknownAssignment, served: int
) -> str:
    """The number of `served` partitions as text; where more of them answer reads, both numbers.

    A standby answers reads, and so does a new active before it takes batches.
    """
    partitions = observation.resource.spec.partitions
    answering = {
        replica.configuration.partition
        for report in observation.reports.values()
        if isinstance(known, KnownAssignment) and report.store_id == known.store_id
        for replica in report.replicas
        if replica.answers and replica.role is not Role.LEARNER
    }
    if len(answering) <= served:
        return f"{served} of {partitions} partitions are served"
    return f"{served} of {partitions} partitions take batches, and {len(answering)} answer reads"
