"""Hands over the actives of a pod that is being ended, as by the drain of its node. Pure.

Kubernetes ends a pod without asking the operator. The pod serves on for some seconds: its actives
go to in-sync replicas of other pods at once, and no partition counts the pod as in sync afterwards.
No writer then waits for a pod that is gone. All other steps wait until the pod has ended.
"""

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration
from qss_core.wire.replica_reports import ReplicaReport
from qss_operator.planning.membership.failover import SOUND, is_impaired
from qss_operator.planning.membership.standby_state import cannot_act_at_once, is_sound
from qss_operator.planning.model import Observation, replica_of


def handed_over(
    observation: Observation, entry: PartitionConfiguration, leaving: frozenset[Ordinal]
) -> PartitionConfiguration | None:
    """The next configuration of a partition with replicas on pods that leave; None: it stays."""
    going = leaving & set(entry.in_sync)
    active = replica_of(observation.reports, entry.active, entry)
    if not going or len(entry.in_sync) == 1 or active is None or active.state not in SOUND:
        return None
    epoch = Epoch(entry.epoch + 1)
    if entry.active in going:
        successor = _successor(observation, entry, active, going)
        return None if successor is None else replace(entry, epoch=epoch, active=successor)
    # The active would be the only one left. One that was not compared may be older than the
    # standby that would leave.
    is_whole = active.state == "serving" and not (active.has_damage or active.is_stopped)
    if not (is_whole and active.is_compared):
        return None
    left = tuple(pod for pod in entry.in_sync if pod not in going)
    return replace(entry, epoch=epoch, in_sync=left)


def _successor(
    observation: Observation,
    entry: PartitionConfiguration,
    active: ReplicaReport,
    going: frozenset[Ordinal],
) -> Ordinal | None:
    """The in-sync replica that takes over; partitions choose in turns, so that no pod gets all.

    Where a person keeps the rows of an active whose standbys have others, by asking for no
    standbys, nobody takes over. The next node of a drain of several is cordoned: others come first.
    """
    unlike = active.unlike.pods if active.unlike is not None else ()
    if unlike and observation.resource.spec.effective_standbys == 0:
        return None
    successors = [
        pod
        for pod in sorted(entry.in_sync)
        if pod not in going
        and is_sound(observation.reports, pod, entry)
        and not is_impaired(observation.reports[pod], entry.partition)
        and not cannot_act_at_once(observation.reports, pod, entry)
    ]
    cordoned = {pod.ordinal for pod in observation.cluster.pods if pod.is_cordoned}
    for worse in (unlike, cordoned):
        successors = [pod for pod in successors if pod not in worse] or successors
    return successors[entry.partition % len(successors)] if successors else None
