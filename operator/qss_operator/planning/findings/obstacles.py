"""The reasons why a store is not ready, pod by pod. Pure."""

from dataclasses import replace

from qss_core.text import by_reason, listed
from qss_core.wire.replica_reports import ReplicasReport, UnlikeRows
from qss_operator.planning.assignment_state import troubles_of
from qss_operator.planning.model import Observation, Trouble

ASSIGNMENT_REFUSED = "AssignmentRefused"
STORE_TYPE_REFUSED = "StoreTypeRefused"  # Only the pods have the package of a user's own type.
_FAILED = "failed"
_UNLIKE_SHOWN, _PODS_SHOWN = 3, 4  # A message names at most so many partitions and pods.


def obstacles(observation: Observation) -> list[str]:
    """All reasons; without any, the event that the operator waits for."""
    broken = broken_pods(observation)
    failed = [f"partition {numbers} failed: {why}" for numbers, why in failures(observation)]
    silent = [
        pod.address.name
        for pod in observation.cluster.pods
        if (pod.trouble or pod.if_silent) is None and pod.ordinal not in observation.reports
    ]
    waiting = [f"waiting for {listed(silent)} to answer"] if silent else []
    refused = [trouble.message for trouble in refusals(observation)]
    return [*broken, *failed, *refused, *_building(observation), *waiting] or [
        "waiting for the pods to open their partitions"
    ]


def _building(observation: Observation) -> list[str]:
    """The progress of index rows that have to be made before partitions serve."""
    told = [
        (replica.configuration.partition, replica.index)
        for report in observation.reports.values()
        for replica in report.replicas
        if replica.index is not None
    ]
    if not told:
        return []
    names = listed([str(partition) for partition, _ in sorted(told, key=lambda one: one[0])])
    done = sum(index.rows_done for _, index in told)
    left = sum(index.rows_left for _, index in told)
    share = done * 100 // (done + left) if done + left else 0
    return [f"the indexes of partition {names} are made anew: {share}% of their rows"]


def refusals(observation: Observation) -> list[Trouble]:
    """The refusals of pods to take their assignment."""
    reasons = (ASSIGNMENT_REFUSED, STORE_TYPE_REFUSED)
    return [trouble for trouble in observation.troubles if trouble.reason in reasons]


def broken_pods(observation: Observation) -> list[str]:
    """The troubles of pods that do not answer."""
    # The trouble of a pod that answers is over.
    return troubles_of(
        replace(pod, trouble=pod.trouble or pod.if_silent)
        for pod in observation.cluster.pods
        if pod.ordinal not in observation.reports
    )


def damaged_message(observation: Observation) -> str | None:
    """The damaged replicas that serve, with the operator's next step; None without any."""
    told = [
        f"partition {replica.configuration.partition} on {report.pod}"
        for report in observation.reports.values()
        for replica in report.replicas
        if replica.has_damage and replica.state != _FAILED
    ]
    if not told:
        return None
    return (
        f"{listed(told)} is damaged: a block cannot be read there. Where a replica in sync is "
        "without damage, it leads, and the damaged one is copied from it. Where none is, all other "
        "rows are served: write the store's rows again"
    )


def unlike_message(observation: Observation) -> str | None:
    """The partitions whose replicas have unlike rows, with the remedy; None without any."""
    found = [
        (replica.configuration.partition, report, unlike)
        for report in observation.reports.values()
        for replica in report.replicas
        if (unlike := replica.unlike) is not None
    ]
    if not found:
        return None
    told = [
        f"partition {partition}: active {report.pod}, compared with {_others(report, unlike)} "
        f"(epoch {unlike.epoch}, batch {unlike.sequence}, entries below {unlike.offset})"
        for partition, report, unlike in sorted(found, key=lambda one: one[0])
    ]
    return (
        f"replicas have other rows, and nobody can tell which are right: "
        f"{listed(told, _UNLIKE_SHOWN)}. Any of them answers a read; with requireActive=true the "
        "active alone does, so look at its rows so. To keep the rows of the actives, set "
        "spec.standbys to 0, wait until Rebalancing says NothingToMove, and set the old number "
        "again: all standbys are copied anew. To keep a standby's rows, make it the active before "
        "(qss move). Or write the store's rows again. Leave the volumes alone: each "
        "has the rows of other partitions, too"
    )


def _others(report: ReplicasReport, unlike: UnlikeRows) -> str:
    """The pods that were compared with the active, as far as they are other ones."""
    pods = [f"pod {pod}" for pod in unlike.pods if pod != report.ordinal]
    return listed(pods, _PODS_SHOWN)


def failures(observation: Observation) -> list[tuple[str, str]]:
    """The partitions with replicas that report the state failed, by their errors."""
    return by_reason(
        (replica.configuration.partition, str(replica.error))
        for report in observation.reports.values()
        for replica in report.replicas
        if replica.state == _FAILED
    )
