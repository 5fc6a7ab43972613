"""Computes how many pods run: the pods of the spec, and pods that may still have data. Pure."""

from collections import Counter
from collections.abc import Mapping

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.quantities import shown_bytes
from qss_core.spec.resource import POD_ORDINALS_MAX
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.disk_claims import claims_of, overrules
from qss_operator.planning.model import Observation, PodState, replica_of
from qss_operator.planning.placement.sites import Placement

ENOUGH_ROOM = "EnoughRoom"
_SILENT_S = 30.0  # So long a pod is silent before it can be removed without its answer.


def wanted_replicas(observation: Observation) -> int:
    """The number of pods that should run."""
    wanted = observation.resource.spec.replicas
    if wanted == 0:
        return 0
    beyond = [pod + 1 for pod in pods_to_empty(observation)]
    return max(wanted, _pods_placed(observation), _pods_claimed(observation), *beyond)


def pods_without_room(
    observation: Observation,
    entries: Mapping[PartitionId, PartitionConfiguration],
    placements: Mapping[PartitionId, Placement],
) -> list[str]:
    """Rule EnoughRoom: the pods that stay, and have no room for the replicas of pods that go.

    Each with its numbers, as text. The replicas of a pod count as equally large. Volumes that no
    report tells the use of are not judged.
    """
    spec, reports = observation.resource.spec, observation.reports
    ignored = (observation.resource.ignored_rules or "").split(",")
    if ENOUGH_ROOM in [rule.strip() for rule in ignored]:
        return []
    needed: Counter[Ordinal] = Counter()
    for number, entry in entries.items():
        sizes = [
            volume.data_bytes // max(1, len(reports[pod].replicas))
            for pod in entry.replicas
            if pod >= spec.replicas
            and pod in reports
            and (volume := reports[pod].volume) is not None
        ]
        for pod in set(placements[number].replicas) - set(entry.replicas) if sizes else ():
            needed[pod] += max(sizes)
    return [
        f"{reports[pod].pod} has room for {shown_bytes(volume.room_bytes)} and would get "
        f"{shown_bytes(more)}"
        for pod, more in sorted(needed.items())
        if pod in reports
        and (volume := reports[pod].volume) is not None
        and more > volume.room_bytes
    ]


def needed_pods(observation: Observation) -> int:
    """The number of pods without which the store's assignment is not known."""
    placed = _pods_placed(observation)
    return max(placed, _pods_claimed(observation)) if placed else wanted_replicas(observation)


def pods_to_empty(observation: Observation) -> list[Ordinal]:
    """The pods beyond the spec's number that may still have data that only they have.

    The status alone does not tell, as it may be an older one. So a pod says itself that it has no
    replica, or it is silent for long while all others hold exactly the status's configurations. A
    pod beyond the number that was requested last is ending, as it was removed.
    """
    kept = range(observation.resource.spec.replicas, observation.cluster.replicas)
    beyond = [pod for pod in observation.cluster.pods if pod.ordinal in kept]
    return [pod.ordinal for pod in beyond if _may_have_data(observation, pod)]


def _may_have_data(observation: Observation, pod: PodState) -> bool:
    report = observation.reports.get(pod.ordinal)
    if report is not None:
        left = {
            one.partition for one in _published(observation) if _has_left(observation, pod, one)
        }
        lost = {one.partition for one in report.lost} - left
        return bool(report.replicas or lost) or may_hold_more(pod, report)
    is_gone = observation.silent_s.get(pod.ordinal, 0.0) >= _SILENT_S
    published = _published(observation)
    return not (is_gone and published and all(_is_held(observation, one) for one in published))


def may_hold_more(pod: PodState, report: ReplicasReport | None) -> bool:
    """Whether a pod's volume may have replicas that its report lacks."""
    if report is None:
        return pod.has_data is not False
    if report.store_id is None:
        return pod.has_data is True
    # A pod opens its replicas one by one. A failed replica is in the report, and may stay failed.
    is_failed = any(replica.state == "failed" for replica in report.replicas)
    return not (report.ready or is_failed)


def _has_left(observation: Observation, pod: PodState, entry: PartitionConfiguration) -> bool:
    """Whether a partition has no replica on a pod any more, by all pods that have the partition."""
    return entry.role_of(pod.ordinal) is None and _is_held(observation, entry)


def _is_held(observation: Observation, entry: PartitionConfiguration) -> bool:
    return all(replica_of(observation.reports, pod, entry) is not None for pod in entry.in_sync)


def _pods_placed(observation: Observation) -> int:
    used = (pod for entry in _published(observation) for pod in entry.replicas)
    return max(used, default=-1) + 1


def _pods_claimed(observation: Observation) -> int:
    """The number of pods that volumes name, and which the status lacks.

    Such a pod may hold data, and no configuration with it can be sent before it has an address.
    """
    published = {entry.partition: entry for entry in _published(observation)}
    claims = claims_of(observation.reports.values(), observation.resource.store_id)
    used = (
        pod
        for number, claimed in claims.items()
        for claim in claimed
        if number not in published or overrules(claim.configuration, published[number])
        for pod in claim.configuration.replicas
    )
    return max(max(used, default=-1) + 1, _pods_kept(observation))


def _pods_kept(observation: Observation) -> int:
    """The number of pods that the store had, as its volumes say, while the status lacks partitions.

    A partition without standbys is on one volume alone, and that pod may not run yet.
    """
    if len(_published(observation)) >= observation.resource.spec.partitions:
        return 0
    told = [
        report.pods_kept
        for report in observation.reports.values()
        if report.store_id == observation.resource.store_id
    ]
    return max((pods for pods in told if pods <= POD_ORDINALS_MAX), default=0)


def _published(observation: Observation) -> tuple[PartitionConfiguration, ...]:
    status = observation.resource.status
    return (status and status.assignment) or ()
