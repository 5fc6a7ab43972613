"""Asks all pods of a store for their reports at the same time."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from qss_client.clock import Clock
from qss_core.model import Ordinal, Sequence, StoreName
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.model import ClusterState, PodState
from qss_operator.ports import Pods

_OLD_S = 0.5


class PodReports:
    """The reports of one store's pods."""

    def __init__(self, store: StoreName, pods: Pods, clock: Clock) -> None:
        self._store = store
        self._pods = pods
        self._clock = clock

    async def of(self, cluster: ClusterState) -> dict[Ordinal, ReplicasReport]:
        """The reports of the pods that run and answer, from nearly the same moment.

        The first requests wait two seconds for a pod that has just fallen silent, or answers late.
        Meanwhile another pod may end and lose a replica, which must not be made an active.
        """
        running = [pod for pod in cluster.pods if pod.is_running]
        answers = await self._asked(running)
        ended_s = self._clock.monotonic_s()
        old = {pod for pod, answer in answers.items() if ended_s - answer.at_s > _OLD_S}
        for pod in old:
            del answers[pod]  # The newer report takes its memory.
        answers |= await self._asked(pod for pod in running if pod.ordinal in old)
        return {pod: answers[pod].report for pod in sorted(answers)}

    def with_refusals(
        self, cluster: ClusterState, reports: Mapping[Ordinal, ReplicasReport]
    ) -> ClusterState:
        """The cluster, with the reason of a pod without a report, where the pod said it itself."""
        return replace(
            cluster,
            pods=tuple(
                pod
                if pod.ordinal in reports or not pod.is_running or pod.trouble is not None
                else replace(pod, trouble=self._pods.refusal(pod.reached_at))
                for pod in cluster.pods
            ),
        )

    async def _asked(self, pods: Iterable[PodState]) -> "dict[Ordinal, _Answer]":
        # A pod that fails has no report: the reports of the other pods are still heard.
        answers = await asyncio.gather(*map(self._answer, pods))
        return {answer.report.ordinal: answer for answer in answers if answer is not None}

    async def _answer(self, pod: PodState) -> "_Answer | None":
        report = await self._pods.report(pod.reached_at)
        # Another pod, of this store or of none, may listen at an address that was reused.
        if report is None or (report.store, report.ordinal) != (self._store, pod.ordinal):
            return None
        return _Answer(report, self._clock.monotonic_s())


@dataclass(frozen=True, slots=True)
class _Answer:
    """A report, and the time in seconds at which it came."""

    report: ReplicasReport
    at_s: float


def completed_of(reports: Iterable[ReplicasReport]) -> Sequence | None:
    """The last sequence that the store's coordinator says is complete everywhere."""
    told = (replica.coordinated for report in reports for replica in report.replicas)
    return max((one for one in told if one is not None), default=None)
