"""Finds replicas that can be deleted: no configuration names them any more. Pure."""

from qss_core.model import PartitionConfiguration
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.membership.failover import replica_of
from qss_operator.planning.model import Observation, RetireReplica

Partitions = tuple[PartitionConfiguration, ...]


def retirements(
    observation: Observation, partitions: Partitions, store_id: str
) -> list[RetireReplica]:
    """The replicas to delete, of partitions whose published configuration is certain.

    Every replica that a configuration names has to hold it, and its active has to serve in it, on a
    pod that has compared its data: until then the left replica may have what another one lacks.
    """
    return [
        RetireReplica(
            ordinal=report.ordinal,
            store_id=report.store_id,
            partition=entry.partition,
            epoch=entry.epoch,
        )
        for entry in partitions
        if _is_everywhere(observation, entry)
        for report in observation.reports.values()
        if report.store_id == store_id
        and entry.role_of(report.ordinal) is None
        and _has_it(report, entry)
    ]


def _is_everywhere(observation: Observation, entry: PartitionConfiguration) -> bool:
    held = [replica_of(observation.reports, pod, entry) for pod in entry.replicas]
    active = replica_of(observation.reports, entry.active, entry)
    if None in held or active is None or active.state != "serving":
        return False
    return observation.reports[entry.active].ready


def _has_it(report: ReplicasReport, entry: PartitionConfiguration) -> bool:
    """Whether a pod has a replica of the partition, and knows that it should not.

    Files that a pod cannot open may be another pod's, on a volume that was mixed up: they stay.
    """
    return any(one.configuration == entry for one in report.replicas)
