"""Finds replicas that other pods get instead: of silent pods, and copies without room. Pure."""

from collections.abc import Collection

from qss_core.model import Ordinal, PartitionConfiguration
from qss_core.quantities import parse_duration_ms
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
    """The learners without data on `full` volumes, where another pod of the spec has room.

    Their copies wait for room. A learner that was in sync before has its rows, and only waits for
    the entries since: it stays.
    """
    spec, reports = observation.resource.spec, observation.reports
    has_room = any(
        pod not in full and pod not in entry.replicas for pod in reports if pod < spec.replicas
    )
    learners = set(entry.replicas) - set(entry.in_sync) if has_room else set()
    return frozenset(
        pod
        for pod in learners & set(full)
        if not any(
            one.configuration.partition == entry.partition
            and one.state in SOUND
            and one.end_offset > 0
            for one in reports[pod].replicas
        )
    )
