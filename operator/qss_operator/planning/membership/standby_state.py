"""Finds pods that end, and standbys that may become the active and act at once. Pure."""

from collections.abc import Iterable, Mapping

from qss_core.model import Ordinal, PartitionConfiguration, PodName
from qss_core.text import listed
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.membership.failover import has_no_data, is_impaired
from qss_operator.planning.model import Observation, replica_of

_UNAPPLIED_MAX = 64  # Entries that a replica may have yet to apply when it becomes the active.


def leaving_pods(observation: Observation) -> frozenset[Ordinal]:
    """The pods that are being ended, by the cluster or by their own word, and still answer."""
    ended = {pod.ordinal for pod in observation.cluster.pods if pod.is_leaving}
    return frozenset(
        pod for pod, report in observation.reports.items() if report.is_leaving or pod in ended
    )


def staying_reports(observation: Observation) -> dict[Ordinal, ReplicasReport]:
    """The reports of the pods that are not being ended: their replicas are there in a moment."""
    leaving = leaving_pods(observation)
    return {pod: report for pod, report in observation.reports.items() if pod not in leaving}


def pods_without_standbys(observation: Observation) -> list[PodName]:
    """The pods of the version before standbys: they copy no partition, and follow no active."""
    return [
        report.pod for _, report in sorted(observation.reports.items()) if not report.replicates
    ]


def cannot_act_at_once(
    reports: Mapping[Ordinal, ReplicasReport], pod: Ordinal, entry: PartitionConfiguration
) -> bool:
    """Whether writers would wait for a replica that became the active now.

    Its process has started a moment ago, or it has yet to apply many entries, which it holds.
    """
    replica = replica_of(reports, pod, entry)
    if replica is None or replica.waits_for_lease:
        return True
    return replica.end_offset - replica.applied_offset > _UNAPPLIED_MAX


def is_sound(
    reports: Mapping[Ordinal, ReplicasReport], pod: Ordinal, entry: PartitionConfiguration
) -> bool:
    """Whether a pod's replica is in sync, and serves in this configuration.

    One that started since another in-sync replica last compared it may have an older volume.
    """
    replica = replica_of(reports, pod, entry)
    if pod not in entry.in_sync or replica is None or not reports[pod].ready:
        return False
    is_compared = replica.is_compared or len(entry.in_sync) == 1
    return replica.state == "serving" and not replica.is_damaged and is_compared


def unapplied_message(
    observation: Observation, entries: Iterable[PartitionConfiguration]
) -> str | None:
    """The partitions with a standby that is in sync and has not applied its log; None without."""
    waiting = [
        str(entry.partition)
        for entry in entries
        if any(
            (one := replica_of(observation.reports, pod, entry)) is not None
            and one.state == "opening"
            and one.error is None
            for pod in entry.in_sync
            if pod != entry.active
        )
    ]
    if not waiting:
        return None
    have = "partition {} has" if len(waiting) == 1 else "partitions {} have"
    return (
        f"{have.format(listed(waiting))} a standby that applies its changelog: it holds every "
        "batch, and answers no reads before it is level"
    )


def is_sound_elsewhere(
    reports: Mapping[Ordinal, ReplicasReport], pod: Ordinal, entry: PartitionConfiguration
) -> bool:
    """Whether another pod's in-sync replica is sound; it may hold an older configuration still."""
    number = entry.partition
    return any(
        other != pod
        and (report := reports.get(other)) is not None
        and not has_no_data(report, number)
        and not is_impaired(report, number)
        and any(
            one.configuration.partition == number and one.state == "serving"
            for one in report.replicas
        )
        for other in entry.in_sync
    )
