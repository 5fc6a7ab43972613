"""Counts the partitions that have fewer sound replicas in sync than they should. Pure."""

from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.membership.failover import SOUND
from qss_operator.planning.model import Observation
from qss_operator.planning.scaling import wanted_replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Numbers of partitions: short of replicas, and without any replica that may serve them."""

    under_replicated: int = 0
    without_in_sync: int = 0


def shortage_of(observation: Observation) -> Shortage:
    """The shortage by the published assignment and the reports; none while the store hibernates.

    A replica in sync counts while its pod reports that it opens or serves it.
    """
    resource = observation.resource
    status = resource.status
    if status is None or wanted_replicas(observation) == 0:
        return Shortage()
    wanted = 1 + resource.spec.effective_standbys
    sound = [
        sum(_is_sound(observation, pod, entry.partition) for pod in entry.in_sync)
        for entry in status.assignment or ()
    ]
    return Shortage(
        under_replicated=sum(count < wanted for count in sound),
        without_in_sync=sound.count(0),
    )


def _is_sound(observation: Observation, pod: Ordinal, partition: PartitionId) -> bool:
    report = observation.reports.get(pod)
    if report is None or report.store_id != observation.resource.store_id:
        return False
    return any(
        one.state in SOUND and not (one.is_damaged or one.is_stopped)
        for one in report.replicas
        if one.configuration.partition == partition
    )
