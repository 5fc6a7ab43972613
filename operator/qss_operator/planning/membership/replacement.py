"""Finds replicas that other pods get instead: of silent pods, and copies without room. Pure."""

from collections.abc import Collection

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.quantities import parse_duration_ms
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.membership.failover import SOUND
from qss_operator.planning.model import Observation


def replaced_pods(observation: Observation) -> frozenset[Ordinal]:
    """The pods without an answer for `rebalance.replaceAfter`; their replicas move to other pods.

    Only fewer than half of the pods are replaced: an operator that reaches most pods no more is cut
    off itself. The others must be enough for all replicas of a partition. Without standbys there is
    nothing to copy from. A pod that answers again gets its share again.
    """
    spec = observation.resource.spec
    if spec.effective_standbys == 0:
        return frozenset()
    silent = frozenset(pod for pod in long_silent(observation) if pod < spec.replicas)
    left = spec.replicas - len(silent)
    is_enough = left > len(silent) and left > spec.effective_standbys
    return silent if is_enough else frozenset()


def long_silent(observation: Observation) -> frozenset[Ordinal]:
    """The pods without an answer for `rebalance.replaceAfter`, also pods that are to go."""
    limit_s = parse_duration_ms(observation.resource.spec.rebalance.replace_after) / 1000
    return frozenset(
        pod.ordinal
        for pod in observation.cluster.pods
        if pod.ordinal not in observation.reports
        and observation.silent_s.get(pod.ordinal, 0.0) >= limit_s
    )


def stalled_learners(
    observation: Observation, entry: PartitionConfiguration, full: Collection[Ordinal]
) -> frozenset[Ordinal]:
    """The learners whose copies wait for room on `full` volumes, where another pod has room."""
    spec, reports = observation.resource.spec, observation.reports
    has_room = any(
        pod not in full and pod not in entry.replicas for pod in reports if pod < spec.replicas
    )
    learners = set(entry.replicas) - set(entry.in_sync) if has_room else set()
    return frozenset(
        pod for pod in learners & set(full) if _waits_for_room(reports[pod], entry.partition)
    )


def _waits_for_room(report: ReplicasReport, partition: PartitionId) -> bool:
    """Whether the copy for a learner on a full volume was refused, or would be.

    A copy that has begun has room, unless the volume takes not even a batch. A learner that was in
    sync before has its rows, and only waits for the entries since, unless its copy was refused.
    """
    volume = report.full_volume
    if volume is None or partition in volume.refused_copies:
        return volume is not None
    # A pod of the version before names no refused copy.
    has_begun = partition in {one.partition for one in report.copies}
    if not volume.is_full and (volume.refused_copies or has_begun):
        return False
    return not any(
        one.configuration.partition == partition and one.state in SOUND and one.end_offset > 0
        for one in report.replicas
    )
