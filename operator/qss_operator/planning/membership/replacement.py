"""Finds the pods that were silent for so long that other pods get copies of what they had. Pure."""

from qss_core.model import Ordinal
from qss_core.quantities import parse_duration_ms
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
    limit_s = parse_duration_ms(spec.rebalance.replace_after) / 1000
    silent = frozenset(
        pod.ordinal
        for pod in observation.cluster.pods
        if pod.ordinal < spec.replicas
        and pod.ordinal not in observation.reports
        and observation.silent_s.get(pod.ordinal, 0.0) >= limit_s
    )
    left = spec.replicas - len(silent)
    is_enough = left > len(silent) and left > spec.effective_standbys
    return silent if is_enough else frozenset()
