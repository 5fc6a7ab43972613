"""Decides whether one pod of a store may be evicted, as a drain of its node does. Pure."""

from qss_core.model import PartitionConfiguration, PartitionId
from qss_operator.planning.assignment_state import KnownAssignment, assess, is_creating
from qss_operator.planning.findings.served_partitions import is_serving, served
from qss_operator.planning.membership.failover import has_no_data, is_behind
from qss_operator.planning.model import Observation


def may_evict(observation: Observation) -> bool:
    """Whether all partitions are served, and none would lose its last in-sync replica.

    With standbys, a partition of several replicas needs two in sync. Without, a partition is away
    while its pod starts elsewhere, whenever that pod is evicted; a move of it changes nothing.

    A partition that waits for a person counts for nothing: an eviction takes nothing from it.
    """
    status = observation.resource.status
    if status is None:
        return False
    has_standbys = observation.resource.spec.effective_standbys > 0
    short = {
        entry.partition
        for entry in status.assignment or ()
        if has_standbys and len(entry.in_sync) == 1 < len(entry.replicas)
    }
    if is_serving(status) and not short:
        return True
    lost = _lost_where_all_others_serve(observation)
    return bool(lost) and short <= lost


def _lost_where_all_others_serve(observation: Observation) -> set[PartitionId]:
    """The partitions that wait for a person, where all others are served; else none."""
    known = assess(observation)
    if not isinstance(known, KnownAssignment) or is_creating(observation):
        return set()
    serving = {entry.partition for entry in served(observation, known)}
    lost = {entry.partition for entry in known.certain if _is_lost(observation, entry)}
    return lost if len(serving | lost) == observation.resource.spec.partitions else set()


def _is_lost(observation: Observation, entry: PartitionConfiguration) -> bool:
    """Whether each in-sync replica is lost or lacks batches, as its own pod says.

    A pod that does not answer may come back with the data.
    """
    reports = [observation.reports.get(pod) for pod in entry.in_sync]
    return all(
        report is not None
        and (
            has_no_data(report, entry.partition)
            or is_behind(report, entry.partition)
            # The pod has opened all that it has.
            or (
                report.ready
                and entry.partition not in {one.configuration.partition for one in report.replicas}
                and entry.partition not in {one.partition for one in report.lost}
            )
        )
        for report in reports
    )
