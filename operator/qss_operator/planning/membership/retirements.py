"""Finds replicas that can be deleted: no configuration names them any more. Pure."""

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.membership.unlike_replicas import is_evidence
from qss_operator.planning.model import Observation, RetireReplica, replica_of

LEFT_REPLICA_HAS_MORE = "LeftReplicaHasMore"

Partitions = tuple[PartitionConfiguration, ...]


def retirements(
    observation: Observation, partitions: Partitions, store_id: str
) -> list[RetireReplica]:
    """The replicas to delete, of partitions whose published configuration is certain.

    Every in-sync replica has to hold the configuration, and its active has to serve in it, on a pod
    that has compared its data: until then the left replica may have entries that another replica
    lacks. A learner has nothing that counts, and may never open: the left replica would hold up its
    successor. A replica that has more than its active is kept: the active's volume went back. So is
    a replica whose rows differ from the active's.
    """
    kept = kept_replicas(observation, partitions)
    return [
        RetireReplica(
            ordinal=report.ordinal,
            store_id=report.store_id,
            partition=entry.partition,
            epoch=entry.epoch,
        )
        for report, entry, _ in left_replicas(observation, partitions)
        if report.store_id == store_id
        and _held_everywhere(observation, entry)
        and (report.ordinal, entry.partition) not in kept
    ]


def kept_replicas(
    observation: Observation, partitions: Partitions
) -> set[tuple[Ordinal, PartitionId]]:
    """The pods and partitions of left replicas that may have entries that their active lacks."""
    return {
        (report.ordinal, entry.partition)
        for report, entry, left in left_replicas(observation, partitions)
        if (active := replica_of(observation.reports, entry.active, entry)) is not None
        and (has_more(left, active) or is_evidence(observation, active, report.ordinal))
    }


def _held_everywhere(observation: Observation, entry: PartitionConfiguration) -> bool:
    """Whether the active serves, and every in-sync replica holds the configuration."""
    held = [replica_of(observation.reports, pod, entry) for pod in entry.in_sync]
    active = replica_of(observation.reports, entry.active, entry)
    if None in held or active is None or active.state != "serving":
        return False
    return observation.reports[entry.active].ready


def left_replicas(
    observation: Observation, partitions: Partitions
) -> list[tuple[ReplicasReport, PartitionConfiguration, ReplicaReport]]:
    """The replicas that a pod has and knows that it should not have, by partition.

    Files that a pod cannot open may be another pod's, on a volume that was mixed up: they stay.
    """
    entries = {entry.partition: entry for entry in partitions}
    found = [
        (report, entry, replica)
        for report in observation.reports.values()
        for replica in report.replicas
        if (entry := entries.get(replica.configuration.partition)) == replica.configuration
        and entry.role_of(report.ordinal) is None
    ]
    return sorted(found, key=lambda one: one[1].partition)


def left_with_more(observation: Observation, partitions: Partitions) -> list[str]:
    """The replicas that are kept because they have more than their active, in words."""
    name = observation.resource.name
    return [
        f"partition {entry.partition} left {name}-{report.ordinal}, whose replica has sequence "
        f"{left.sequence} at offset {left.applied_offset}; the active on {name}-{entry.active} has "
        f"sequence {active.sequence} at offset {active.end_offset}"
        for report, entry, left in left_replicas(observation, partitions)
        if (active := replica_of(observation.reports, entry.active, entry)) is not None
        and has_more(left, active)
    ]


def left_message(kept: list[str]) -> str:
    """The message on replicas that are kept because their active has less data."""
    return (
        f"{'; '.join(kept)}: the active's volume went back to an older state, so the replica is "
        "kept. Stop the writers, and bring the newer state of that volume back"
    )


def has_more(left: ReplicaReport, active: ReplicaReport) -> bool:
    """Whether a replica has entries that its active lacks, and nobody has accepted their loss.

    A replica that has followed its active through a loss lacks the same batches.
    """
    if newer := [loss for loss in active.losses if loss not in left.losses]:
        return all(loss.first <= loss.last < left.sequence for loss in newer)
    return left.sequence > active.sequence or left.applied_offset > active.end_offset
