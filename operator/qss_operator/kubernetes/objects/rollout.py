"""Chooses the next pod to restart after a change of the template. Pure.

The StatefulSet restarts no pods (`OnDelete`): the operator restarts one pod at a time, when all
other pods serve.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qss_operator.kubernetes.names import TEMPLATE_ANNOTATION
from qss_operator.planning.model import ConditionStatus, Finding

Object = dict[str, Any]

ROLLING_UPDATE = "RollingUpdate"
PAUSED = "Paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A pod in a rollout; `serves` means that it serves all its partitions."""

    name: str
    uid: str
    is_current: bool
    is_leaving: bool
    serves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The next restart, and the finding for the status."""

    restart: Candidate | None = None
    finding: Finding | None = None


def candidate_of(pod: Object, digest: str, *, serves: bool) -> Candidate:
    """A pod, compared with the template's hash."""
    metadata = pod["metadata"]
    has = (metadata.get("annotations") or {}).get(TEMPLATE_ANNOTATION)
    return Candidate(
        name=metadata["name"],
        uid=metadata["uid"],
        is_current=has == digest,
        is_leaving="deletionTimestamp" in metadata,
        serves=serves,
    )


def plan_rollout(pods: Sequence[Candidate], replicas: int, *, is_paused: bool) -> Rollout:
    """The next restart. Rules: NotPaused, BrokenFirst, EveryOtherPodServes (one at a time)."""
    old = [pod for pod in pods if not pod.is_current]
    if not old:
        return Rollout()
    done = f"{len(pods) - len(old)} of {replicas} pods have the new template"
    if is_paused:
        message = f"{done}; rebalance.paused keeps the others from being restarted"
        return Rollout(finding=(ConditionStatus.FALSE, PAUSED, message))
    leaving = [pod.name for pod in pods if pod.is_leaving]
    if leaving:
        return _wait(f"{done}; {leaving[0]} is stopping")
    # A restart costs a pod that does not serve nothing, and the change may mend it.
    broken = [pod for pod in old if not pod.serves]
    if broken:
        return _restart(broken[-1], done)
    waiting = [pod.name for pod in pods if not pod.serves]
    if waiting or len(pods) < replicas:
        who = waiting[0] if waiting else "a pod that is being made"
        return _wait(f"{done}; rule EveryOtherPodServes: waiting for {who}")
    return _restart(old[-1], done)


def _wait(message: str) -> Rollout:
    return Rollout(finding=(ConditionStatus.TRUE, ROLLING_UPDATE, message))


def _restart(pod: Candidate, done: str) -> Rollout:
    message = f"{done}; restarting {pod.name}"
    return Rollout(restart=pod, finding=(ConditionStatus.TRUE, ROLLING_UPDATE, message))
