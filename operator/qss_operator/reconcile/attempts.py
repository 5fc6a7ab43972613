"""Attempts the work of a store's rounds: refused work is repeated after a pause, and told."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any

from qss_client.clock import Clock
from qss_core.errors import StoreError, StoreTypeRefusedError
from qss_core.model import Ordinal, StoreName
from qss_operator.backoff import Backoff
from qss_operator.errors import reason_of
from qss_operator.planning.findings.obstacles import ASSIGNMENT_REFUSED, STORE_TYPE_REFUSED
from qss_operator.planning.model import (
    AcceptLoss,
    Observation,
    RestartPod,
    RetireReplica,
    SendAssignment,
    SetReplicas,
    Step,
    Trouble,
)

logger = logging.getLogger(__name__)


class Work(Enum):
    """The work of a round that can fail, beside telling a pod its assignment."""

    CHILDREN = "the update of the objects beside the pods"
    REPLICAS = "the number of pods"
    RESTART = "the restart of a pod"
    LOSS = "the loss that was accepted"
    RETIREMENT = "the deletion of a replica"


class Attempts:
    """The refusals of one store's work, each until its next success."""

    def __init__(self, store: StoreName, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._backoff = Backoff()
        self.failures: list[StoreError] = []  # The last round met them and went on.

    async def make(
        self,
        subject: Work | Ordinal,
        tried: Any,
        action: Callable[[], Awaitable[object]],
        raises: tuple[type[StoreError], ...] | type[StoreError] = (),
    ) -> bool:
        """Does an action that is due; returns whether it was done. Keeps the refusal.

        Raises the errors of `raises`: the round begins anew after them.
        """
        if not self.is_due(subject, tried):
            return False
        try:
            await action()
        except raises:
            raise
        except StoreError as error:
            self._failed(subject, tried, error)
            return False
        self._backoff.forget(subject)
        return True

    def has_failed(self, subject: Work | Ordinal) -> bool:
        """Whether the last attempt of this work was refused."""
        return self._backoff.of(subject) is not None

    def forget(self, subject: Work | Ordinal) -> None:
        """Forgets a refusal: the work is due at once."""
        self._backoff.forget(subject)

    def is_due(self, subject: Work | Ordinal, tried: Any) -> bool:
        return self._backoff.is_due(subject, tried, self._clock.monotonic_s())

    def _failed(self, subject: Work | Ordinal, tried: Any, error: StoreError) -> None:
        self.failures.append(error)
        is_news = self._backoff.failed(subject, tried, error, self._clock.monotonic_s())
        what = subject.value if isinstance(subject, Work) else f"pod {subject}'s assignment"
        level = logging.WARNING if is_news else logging.DEBUG
        text = "%s: %s was refused and is tried again: %s: %s"
        logger.log(level, text, self._store, what, error.code, error.message)

    def forget_all_but(self, steps: Iterable[Step], observation: Observation) -> None:
        """Forgets the failures of work that is not planned any more.

        A refused restart is planned again when the pod has handed over the actives that it got
        meanwhile.
        """
        planned: set[Work | Ordinal] = {Work.CHILDREN}
        refused = self._backoff.of(Work.RESTART)
        outdated = [pod.uid for pod in observation.cluster.pods if pod.is_old]
        if refused is not None and refused.tried[1] in outdated:
            planned.add(Work.RESTART)
        for step in steps:
            if isinstance(step, SendAssignment):
                planned.add(step.ordinal)
            elif isinstance(step, SetReplicas):
                planned.add(Work.REPLICAS)
            elif isinstance(step, RestartPod):
                planned.add(Work.RESTART)
            elif isinstance(step, AcceptLoss):
                planned.add(Work.LOSS)
            elif isinstance(step, RetireReplica):
                planned.add(Work.RETIREMENT)
        self._backoff.keep_only(planned)

    def troubles(self, observation: Observation) -> tuple[Trouble, ...]:
        """The refusals that the status should report."""
        told = []
        for subject in Work:
            failure = self._backoff.of(subject)
            if failure is not None and failure.is_told:
                reason = reason_of(failure.error)
                told.append(Trouble(reason=reason, message=failure.error.message))
        for pod in observation.cluster.pods:
            failure = self._backoff.of(pod.ordinal)
            if failure is not None and failure.is_told:
                said = f"{failure.error.code}: {failure.error.message}"
                message = f"{pod.address.name} did not take its assignment: {said}"
                is_of_type = isinstance(failure.error, StoreTypeRefusedError)
                reason = STORE_TYPE_REFUSED if is_of_type else ASSIGNMENT_REFUSED
                told.append(Trouble(reason=reason, message=message))
        return tuple(told)
