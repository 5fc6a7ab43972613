"""Tells the pods of a store the conditions in its status, which the pods show to their readers.

Nothing depends on these messages. A pod gets one for each change of the published conditions, one
after it has started again, and one each minute: an operator that was paused may have told it older
ones meanwhile. A pod that does not take it is told again after half a minute at the earliest, and
a pod of a version without this message never.
"""

import asyncio
import logging
from dataclasses import dataclass
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
_AFRESH_S = 60.0


@dataclass(frozen=True, slots=True)
class _Told:
    """The conditions that a pod's process was told, and when it is told again without a change."""

    process: str
    message: TellConditionsRequest | None  # None where the pod did not take it.
    again_s: float


class ConditionTeller:
    """Knows the conditions that each pod of one store was told; a new one tells every pod once."""

    def __init__(self, pods: Pods, clock: Clock) -> None:
        self._pods = pods
        self._clock = clock
        self._told: dict[Ordinal, _Told] = {}

    async def tell(self, observation: Observation) -> None:
        """Tells the published conditions to the pods that lack them; raises no error of a pod.

        All pods are told at the same time, so that a round waits a second for all of them.
        """
        message = message_of(observation)
        if message is None:
            return
        reports = observation.reports
        reporting = [pod for pod in observation.cluster.pods if pod.ordinal in reports]
        due = [pod for pod in reporting if self._is_due(reports[pod.ordinal], message)]
        await asyncio.gather(*(self._tell(pod, reports[pod.ordinal], message) for pod in due))

    def _is_due(self, report: ReplicasReport, message: TellConditionsRequest) -> bool:
        """Whether the pod may lack the message; one without the store's assignment refuses it."""
        if report.store_id != message.store_id:
            return False
        told = self._told.get(report.ordinal)
        if told is None or told.process != report.incarnation:
            return True
        is_news = told.message is not None and told.message != message
        return is_news or self._clock.monotonic_s() >= told.again_s

    async def _tell(
        self, pod: PodState, report: ReplicasReport, message: TellConditionsRequest
    ) -> None:
        taken, again_s = None, _AGAIN_S
        try:
            await self._pods.tell_conditions(pod.reached_at, message)
        except PathNotFoundError:
            again_s = inf
        except StoreError as error:
            logger.debug("%s was not told the conditions: %s", pod.address.name, error.message)
        else:
            taken, again_s = message, _AFRESH_S
        again_s += self._clock.monotonic_s()
        self._told[pod.ordinal] = _Told(report.incarnation, taken, again_s)


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
