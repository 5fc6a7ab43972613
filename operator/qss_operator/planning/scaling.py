"""How many pods run: those of the spec, and those that may still have data of their own. Pure."""

from qss_core.model import Ordinal, PartitionConfiguration
from qss_operator.planning.membership.failover import replica_of
from qss_operator.planning.model import Observation

_SILENT_S = 30.0  # So long a pod is silent before it can be removed without its answer.


def wanted_replicas(observation: Observation) -> int:
    """The number of pods that should run."""
    wanted = observation.resource.spec.replicas
    if wanted == 0:
        return 0
    beyond = [pod + 1 for pod in pods_to_empty(observation)]
    return max(wanted, _pods_placed(observation), *beyond)


def needed_pods(observation: Observation) -> int:
    """The number of pods without which the store's assignment is not known."""
    return _pods_placed(observation) or wanted_replicas(observation)


def pods_to_empty(observation: Observation) -> list[Ordinal]:
    """The pods beyond the spec's number that may still have data that only they have.

    The status alone does not tell, as it may be an older one. So a pod says itself that it has no
    replica, or it is silent for long while all others hold exactly what the status says. A pod
    beyond the number that was requested last is ending, as it was removed.
    """
    kept = range(observation.resource.spec.replicas, observation.cluster.replicas)
    beyond = [pod.ordinal for pod in observation.cluster.pods if pod.ordinal in kept]
    return [pod for pod in beyond if _may_have_data(observation, pod)]


def _may_have_data(observation: Observation, pod: Ordinal) -> bool:
    report = observation.reports.get(pod)
    if report is not None:
        return bool(report.replicas or report.lost)
    is_gone = observation.silent_s.get(pod, 0.0) >= _SILENT_S
    published = _published(observation)
    return not (is_gone and published and all(_is_held(observation, one) for one in published))


def _is_held(observation: Observation, entry: PartitionConfiguration) -> bool:
    return all(replica_of(observation.reports, pod, entry) is not None for pod in entry.in_sync)


def _pods_placed(observation: Observation) -> int:
    used = (pod for entry in _published(observation) for pod in entry.replicas)
    return max(used, default=-1) + 1


def _published(observation: Observation) -> tuple[PartitionConfiguration, ...]:
    status = observation.resource.status
    return (status and status.assignment) or ()
