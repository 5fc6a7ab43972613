"""Keeps a partition's replicas where they are while their rows differ. Pure.

Nobody can tell which rows are right, so each of the replicas may be the one that has them: a move
would delete a replica, and would copy its successor from the active.
"""

from collections.abc import Mapping

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import ReplicaReport
from qss_operator.planning.model import Observation, replica_of
from qss_operator.planning.placement.sites import Placement

Entries = Mapping[PartitionId, PartitionConfiguration]


def unlike_entries(observation: Observation, entries: Entries) -> Entries:
    """The partitions whose active reports replicas with other rows."""
    return {
        number: entry
        for number, entry in entries.items()
        if (active := replica_of(observation.reports, entry.active, entry)) is not None
        and active.unlike is not None
    }


def staying(observation: Observation, entries: Entries) -> Entries:
    """The unlike partitions whose replicas stay; without standbys a person gives them up."""
    has_standbys = observation.resource.spec.effective_standbys > 0
    return unlike_entries(observation, entries) if has_standbys else {}


def unmoved(observation: Observation, entry: PartitionConfiguration, moved: Placement) -> Placement:
    """The placement of a partition that stays, instead of the one that the balance makes.

    Replicas leave only a pod that is removed. Another pod gets one only while there are too few.
    """
    spec = observation.resource.spec
    kept = [pod for pod in entry.replicas if pod < spec.replicas]
    lacking = max(0, 1 + spec.effective_standbys - len(kept))
    new = [pod for pod in moved.replicas if pod not in kept][:lacking]
    actives = (entry.active, moved.active, *entry.in_sync)
    active = next((pod for pod in actives if pod in kept), moved.active)
    others = [pod for pod in (*kept, *new) if pod != active]
    return Placement(partition=entry.partition, active=active, replicas=(active, *others))


def is_evidence(observation: Observation, active: ReplicaReport, pod: Ordinal) -> bool:
    """Whether a pod's left replica was compared with its active, and has other rows.

    A person gives it up by removing its pod, or all standbys.
    """
    spec = observation.resource.spec
    is_given_up = spec.effective_standbys == 0 or pod >= spec.replicas
    return active.unlike is not None and pod in active.unlike.pods and not is_given_up
