"""Places the replicas that partitions lack, after spec.standbys was raised. Pure.

A new replica begins as a learner: its active sends it the log, or a copy of its database, and asks
for it once it has caught up.
"""

from collections.abc import Mapping

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.model import Observation
from qss_operator.planning.placement import Placement, Site, place


def missing_replicas_of(
    observation: Observation, entries: Mapping[PartitionId, PartitionConfiguration]
) -> dict[PartitionId, tuple[Ordinal, ...]]:
    """The pods that get a replica, by partition; replicas that exist stay where they are."""
    spec, pods = observation.resource.spec, observation.cluster.pods
    copies = 1 + min(spec.effective_standbys, len(pods) - 1)
    if all(len(entry.replicas) >= copies for entry in entries.values()):
        return {}
    sites = [Site(ordinal=pod.ordinal, zone=pod.zone) for pod in pods]
    before = [
        Placement(partition=number, active=entry.active, replicas=entry.replicas)
        for number, entry in sorted(entries.items())
    ]
    placed = {one.partition: one for one in place(len(entries), sites, copies - 1, before)}
    found = {}
    for number, entry in entries.items():
        wanted = [pod for pod in placed[number].replicas if pod not in entry.replicas]
        if lacking := wanted[: max(0, copies - len(entry.replicas))]:
            found[number] = tuple(lacking)
    return found
