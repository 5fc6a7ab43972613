"""Finds pods whose volumes lack data that the assignment says they have. Pure.

Such a pod gets no assignment: it would make the partitions that it lacks, and serve them empty.
"""

from collections import defaultdict

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.assignment_state import KnownAssignment, is_creating
from qss_operator.planning.model import Observation, PodState, replica_of


def emptied_pods(observation: Observation, known: KnownAssignment) -> list[PodState]:
    """Pods in the in-sync set of a partition that have lost their volume.

    A pod reads the assignment on its volume before it answers: a pod without an assignment has lost
    its volume. If it got the assignment, it would serve empty partitions as if they were the data.
    """
    if is_creating(observation):
        return []
    return [
        pod
        for pod in observation.cluster.pods
        if (report := observation.reports.get(pod.ordinal)) is not None
        and report.store_id is None
        and held_by(known, pod)
    ]


def empty_while_others_are_silent(observation: Observation) -> list[PodState]:
    """The empty pods of the assignment while another pod of it is silent.

    The silent pod may have appended the first entry of the store. Then an empty volume is a loss,
    and would be filled as if it were new. A pod that is the learner
    of all its partitions is filled from their actives: nobody knows a newer configuration of them,
    where every replica in sync holds the published one.
    """
    status, pods = observation.resource.status, observation.cluster.pods
    if status is None or status.assignment is None:
        return []
    if all(pod.ordinal in observation.reports or pod.has_data is False for pod in pods):
        return []
    placed = {pod for entry in status.assignment for pod in entry.replicas}
    heard = [pod for pod in pods if pod.ordinal in observation.reports and pod.ordinal in placed]
    empty = [pod for pod in heard if observation.reports[pod.ordinal].store_id is None]
    return [
        pod
        for pod in empty
        if not all(
            replica_of(observation.reports, other, entry) is not None
            for entry in status.assignment
            if pod.ordinal in entry.replicas
            for other in entry.in_sync
        )
    ]


def held_by(known: KnownAssignment, pod: PodState) -> list[PartitionConfiguration]:
    """The partitions with this pod in their in-sync set."""
    return [entry for entry in known.certain if pod.ordinal in entry.in_sync]


def missing_replicas(
    observation: Observation, known: KnownAssignment
) -> dict[PodState, list[PartitionId]]:
    """Pods of the store that lack partitions although they are in the in-sync set.

    If such a pod got the assignment, it would create the partitions, empty. A pod that is opening
    its replicas lacks some for a while. A partition that the pod reports as lost is not missing:
    the pod has its files, and hears of its next epochs.
    """
    if is_creating(observation):
        return {}
    in_sync: dict[Ordinal, list[PartitionId]] = defaultdict(list)
    for entry in known.certain:
        for ordinal in entry.in_sync:
            in_sync[ordinal].append(entry.partition)
    found: dict[PodState, list[PartitionId]] = {}
    for pod in observation.cluster.pods:
        report = observation.reports.get(pod.ordinal)
        if report is None or report.store_id != known.store_id:
            continue
        held = {replica.configuration.partition for replica in report.replicas}
        held |= {one.partition for one in report.lost}
        lacking = [one for one in in_sync[pod.ordinal] if one not in held]
        if lacking:
            found[pod] = lacking
    return found
