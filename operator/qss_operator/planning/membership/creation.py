"""Finds volumes that are empty although the store's creation may be over. Pure."""

from qss_operator.planning.model import Observation, PodState, replica_of


def empty_while_others_are_silent(observation: Observation) -> list[PodState]:
    """Empty pods of an assignment of which a pod is silent: that one may have ended the creation.

    Then an empty volume is a loss, and would be filled as if it were new. A pod that is the learner
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
