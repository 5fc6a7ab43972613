"""Sends pods their assignments, several to a busy pod at the same time."""

import asyncio
from collections.abc import Iterable
from functools import partial

from qss_core.errors import StaleEpochError
from qss_core.model import Ordinal
from qss_operator.planning.model import Observation, SendAssignment, SentAssignment
from qss_operator.ports import Pods
from qss_operator.reconcile.attempts import Attempts, Work

_SEND_WAIT_S = 2.0
_SENDS_MAX = 4  # To one pod at the same time.


class AssignmentSender:
    """The assignments that the pods of one store were sent, and those under way."""

    def __init__(self, pods: Pods, attempts: Attempts) -> None:
        self._pods = pods
        self._attempts = attempts
        self.sent: dict[Ordinal, SentAssignment] = {}  # The last one that each pod took.
        self._sending: dict[Ordinal, dict[asyncio.Task[bool], SendAssignment]] = {}  # To each pod.

    async def send_all(
        self, sends: Iterable[SendAssignment], observation: Observation
    ) -> list[bool]:
        """Sends pods their assignments; a slow pod delays neither the others nor a newer one.

        While it makes databases for one, its open replicas take the new epochs of the next. The
        round waits for no pod that is busy already.
        """
        begun = []
        for step in sends:
            under_way = self._sending.setdefault(step.ordinal, {})
            if self._is_newest(step):
                continue
            if len(under_way) == _SENDS_MAX:
                overtaken = [*under_way][1]  # The pod works on the first one.
                del under_way[overtaken]
                overtaken.cancel()
            work = asyncio.create_task(self.send(step, observation))
            begun += [] if under_way else [work]
            under_way[work] = step
            work.add_done_callback(partial(self._is_told, step.ordinal))
        if not begun:
            return []
        await asyncio.wait(begun, timeout=_SEND_WAIT_S)
        return [work.result() for work in begun if work.done()]

    async def send(self, step: SendAssignment, observation: Observation) -> bool:
        """Sends one pod its assignment, if that is due; returns whether the pod took it."""

        async def send() -> None:
            try:
                report = await self._pods.assign(pod.reached_at, step.assignment)
            except StaleEpochError:
                if self._is_newest(step):
                    raise
                return  # The pod has taken epochs of a newer one, which was sent meanwhile.
            self.sent[step.ordinal] = SentAssignment(
                incarnation=report.incarnation, assignment=step.assignment
            )
            self._attempts.forget(Work.RETIREMENT)  # A pod without it refuses to delete one.

        pod = next(pod for pod in observation.cluster.pods if pod.ordinal == step.ordinal)
        tried = (observation.reports[step.ordinal].incarnation, step.assignment)
        # One pod's refusal must not keep the others from being told.
        return await self._attempts.make(step.ordinal, tried, send)

    def _is_newest(self, step: SendAssignment) -> bool:
        """Whether a pod is being sent no newer assignment than this one, and is sent this one."""
        return step in [*self._sending[step.ordinal].values()][-1:]

    def _is_told(self, pod: Ordinal, work: "asyncio.Task[bool]") -> None:
        self._sending[pod].pop(work, None)
