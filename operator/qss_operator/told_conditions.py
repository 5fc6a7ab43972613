"""Tells the pods of a store the conditions in its status, which the pods show to their readers.

Nothing depends on these messages. A pod gets one for each change of the published conditions, and
one after it has started again. A pod that does not take it is told again after half a minute at
the earliest, and a pod of a version without this message never.
"""

import logging
from math import inf

from qss_client.clock import Clock
from qss_core.errors import PathNotFoundError, StoreError
from qss_core.model import Ordinal
from qss_core.wire.conditions import StoreCondition, TellConditionsRequest
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.model import Observation, PodState
from qss_operator.ports import Pods

logger = logging.getLogger(__name__)
_AGAIN_S = 30.0


class ConditionTeller:
    """Knows what each pod of one store was told; a new one tells every pod once."""

    def __init__(self, pods: Pods, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        # By pod: its incarnation, and what that was told, or when it may be told again.
        self._told: dict[Ordinal, tuple[str, TellConditionsRequest]] = {}
        self._not_before_s: dict[Ordinal, tuple[str, float]] = {}

    async def tell(self, observation: Observation) -> None:
        """Tells the published conditions to the pods that lack them; raises nothing of theirs.

        After a pod that does not answer, the next round goes on: so one round waits for one pod.
        """
        message = message_of(observation)
        if message is None:
            return
        reports = observation.reports
        reporting = [pod for pod in observation.cluster.pods if pod.ordinal in reports]
        due = [pod for pod in reporting if self._is_due(reports[pod.ordinal], message)]
        for pod in due:
            if not await self._tell(pod, reports[pod.ordinal], message):
                return

    def _is_due(self, report: ReplicasReport, message: TellConditionsRequest) -> bool:
        """Whether the pod lacks the message; a pod without the store's assignment refuses it."""
        pod, process = report.ordinal, report.incarnation
        if report.store_id != message.store_id or self._told.get(pod) == (process, message):
            return False
        known, not_before_s = self._not_before_s.get(pod, ("", 0.0))
        return known != process or self._clock.monotonic_s() >= not_before_s

    async def _tell(
        self, pod: PodState, report: ReplicasReport, message: TellConditionsRequest
    ) -> bool:
        """Whether the pod answered; a version without the message answers, too."""
        process = report.incarnation
        try:
            await self._pods.tell_conditions(pod.reached_at, message)
        except PathNotFoundError:
            self._not_before_s[pod.ordinal] = process, inf
        except StoreError as error:
            logger.debug("%s was not told the conditions: %s", pod.address.name, error.message)
            self._not_before_s[pod.ordinal] = process, self._clock.monotonic_s() + _AGAIN_S
            return False
        else:
            self._told[pod.ordinal] = process, message
        return True


def message_of(observation: Observation) -> TellConditionsRequest | None:
    """The conditions in the status, as it was read in this round; None where it has none."""
    resource = observation.resource
    if resource.status is None or not resource.status.conditions:
        return None
    return TellConditionsRequest(
        store_id=resource.store_id,
        conditions=tuple(
            StoreCondition(
                type=one.type.value,
                status=one.status.value,
                reason=one.reason,
                message=one.message,
                last_transition_time=one.last_transition_time,
            )
            for one in resource.status.conditions
        ),
    )
