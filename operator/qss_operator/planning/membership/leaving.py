"""Hands over what a pod has that is being ended, as by the drain of its node. Pure.

Kubernetes ends a pod without asking the operator. The pod serves on for some seconds: its actives
go to in-sync replicas of other pods at once, and no partition counts the pod as in sync afterwards.
No writer then waits for a pod that is gone. All else waits until the pod has ended.
"""

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration
from qss_operator.planning.membership.failover import SOUND
from qss_operator.planning.membership.standby_state import cannot_act_at_once, is_sound
from qss_operator.planning.model import Observation, replica_of


def leaving_pods(observation: Observation) -> frozenset[Ordinal]:
    """The pods that are being ended, and answer as long as they run."""
    return frozenset(
        pod.ordinal
        for pod in observation.cluster.pods
        if pod.is_leaving and pod.ordinal in observation.reports
    )


def handed_over(
    observation: Observation, entry: PartitionConfiguration, leaving: frozenset[Ordinal]
) -> PartitionConfiguration | None:
    """The next configuration of a partition with replicas on pods that leave; None: it stays.

    Partitions choose their new actives in turns, so that one pod gets not all of them.
    """
    going = leaving & set(entry.in_sync)
    active = replica_of(observation.reports, entry.active, entry)
    if not going or len(entry.in_sync) == 1 or active is None or active.state not in SOUND:
        return None
    epoch = Epoch(entry.epoch + 1)
    if entry.active not in going:
        # An active that was not compared may be older than the standby that would leave.
        left = tuple(pod for pod in entry.in_sync if pod not in going)
        can_spare = active.is_compared and not active.has_damage
        return replace(entry, epoch=epoch, in_sync=left) if can_spare else None
    heirs = [
        pod
        for pod in sorted(entry.in_sync)
        if pod not in going
        and is_sound(observation.reports, pod, entry)
        and not cannot_act_at_once(observation.reports, pod, entry)
    ]
    if not heirs:
        return None
    # The next node of a drain of several is cordoned, too.
    cordoned = {pod.ordinal for pod in observation.cluster.pods if pod.is_cordoned}
    heirs = [pod for pod in heirs if pod not in cordoned] or heirs
    return replace(entry, epoch=epoch, active=heirs[entry.partition % len(heirs)])
