"""A round of one store: observe, plan, act step by step, publish.

All that it remembers between rounds is what each pod was told, to spare sending it again, and what
was refused, to try it again less often; a new reconciler that remembers nothing does the same work.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

from qss_client.clock import Clock
from qss_core.errors import StaleEpochError, StoreError, StoreTypeRefusedError
from qss_core.model import Ordinal, Sequence, StoreName
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.retirement import RetireRequest
from qss_operator.backoff import Backoff, Subject
from qss_operator.condition_teller import ConditionTeller
from qss_operator.errors import ConflictError, reason_of
from qss_operator.planning.assignment_state import KnownAssignment, assess
from qss_operator.planning.findings.obstacles import ASSIGNMENT_REFUSED, STORE_TYPE_REFUSED
from qss_operator.planning.findings.served_partitions import is_serving
from qss_operator.planning.findings.shortage import Shortage, shortage_of
from qss_operator.planning.membership.changes import changes_of
from qss_operator.planning.model import (
    AcceptLoss,
    ClusterState,
    Observation,
    PublishAssignment,
    RestartPod,
    RetireReplica,
    SendAssignment,
    SentAssignment,
    SetReplicas,
    Step,
    StoreResource,
    Trouble,
)
from qss_operator.planning.plan import places_replicas, plan
from qss_operator.planning.status import status_of
from qss_operator.pod_reports import PodReports, completed_of
from qss_operator.ports import Cluster, Pods, Resources
from qss_operator.times import time_of, utc

logger = logging.getLogger(__name__)
_SEND_WAIT_S = 2.0
_SENDS_MAX = 4  # To one pod at the same time.


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The pauses between rounds, and the shortest times between two of what is published.

    `publish_s` is between two statuses, `moves_s` between two assignments with changes of moves: a
    batch with rows in all partitions meets each of them.
    """

    unsettled_s: float = 0.2
    settled_s: float = 1.0
    publish_s: float = 1.0
    moves_s: float = 1.0


class StoreReconciler:
    """Brings one store to its resource's spec; the caller says when the next round is."""

    def __init__(
        self,
        store: StoreName,
        *,
        resources: Resources,
        cluster: Cluster,
        pods: Pods,
        clock: Clock,
        intervals: Intervals | None = None,
    ) -> None:
        self._store = store
        self._resources = resources
        self._cluster = cluster
        self._pods = pods
        self._clock = clock
        self._intervals = intervals or Intervals()
        self._sent: dict[Ordinal, SentAssignment] = {}
        self.published_at_s: float | None = None
        self.moved_at_s: float | None = None  # When changes of moves were published last.
        self._attempts = Backoff()
        self._sending: dict[Ordinal, dict[asyncio.Task[bool], SendAssignment]] = {}  # To each pod.
        self._completed: Sequence | None = None  # As of the last round.
        self._heard_s: dict[Ordinal, float] = {}  # When each pod was last heard, or first missed.
        self.failures: list[StoreError] = []  # The last round met them and went on.
        self.shortage = Shortage()  # As of the last round.
        self._reports = PodReports(store, pods, clock)
        self._teller = ConditionTeller(pods, clock)

    async def run_round(self) -> bool | None:
        """Runs one round; returns whether nothing was left to do, None if the resource is gone."""
        self.failures = []
        observation = await self._observe()
        if observation is None:
            return None
        # Readers of the pods see the published conditions, also those that say why rounds fail.
        # No step waits for this.
        try:
            is_settled = await self._carry_out(observation)
        except Exception:
            await self._teller.tell(observation)
            raise
        await self._teller.tell(observation)
        return is_settled

    async def _carry_out(self, observation: Observation) -> bool:
        """Plans, acts and publishes; returns whether nothing was left to do."""
        self.shortage = shortage_of(observation)
        await self._keep(observation)
        steps = plan(observation)
        if places_replicas(observation, steps):
            # No watch tells which nodes have been cordoned since they were read.
            cluster = await self._cluster.look_at_nodes(observation.cluster)
            observation = replace(observation, cluster=cluster)
            steps = plan(observation)
        self._forget_all_but(steps, observation)
        observation = replace(observation, troubles=self._troubles(observation))
        are_done = await self._act_all(steps, observation)
        if any(are_done):
            # What was done shows in the next round; a second status is written only then.
            return False
        observation = replace(observation, troubles=self._troubles(observation))
        is_settled = await self._publish_observation(observation) and not steps
        return is_settled and not observation.moves_wait

    async def _observe(self) -> Observation | None:
        resource = await self._resources.read(self._store)
        if resource is None:
            return None
        cluster = await self._cluster.observe(self._store)
        reports = await self._reports.of(cluster)
        cluster = self._reports.with_refusals(cluster, reports)
        completed, self._completed = self._completed, completed_of(reports.values())
        now_s = self._clock.monotonic_s()
        self._heard_s |= dict.fromkeys(reports, now_s)
        ordinals = [pod.ordinal for pod in cluster.pods]
        return Observation(
            resource=resource,
            cluster=cluster,
            reports=reports,
            sent=dict(self._sent),
            silent_s={one: now_s - self._heard_s.setdefault(one, now_s) for one in ordinals},
            completed=completed,
            refused_restart=self._refused_restart(resource, cluster),
            moves_wait=self.moved_at_s is not None
            and now_s - self.moved_at_s < self._intervals.moves_s,
        )

    def _refused_restart(self, resource: StoreResource, cluster: ClusterState) -> str | None:
        """The pod whose restart was refused, until it is due again."""
        refused = (
            pod.uid
            for pod in cluster.pods
            if not self._is_due(Subject.RESTART, (resource.generation, pod.uid))
        )
        return next(refused, None)

    async def _keep(self, observation: Observation) -> None:
        """Keeps the children; a refused child must not keep pods from being seen and told."""
        await self._attempt(
            Subject.CHILDREN,
            observation.resource.generation,
            lambda: self._cluster.keep(observation),
            raises=ConflictError,
        )

    async def _act_all(self, steps: Iterable[Step], observation: Observation) -> list[bool]:
        """Does the steps in their order, and tells the pods at the same time."""
        done: list[bool] = []
        sends: list[SendAssignment] = []
        for step in steps:
            if isinstance(step, SendAssignment):
                sends.append(step)
                continue
            done += await self._send_all(sends, observation)
            sends = []
            done.append(await self._act(step, observation))
        return [*done, *await self._send_all(sends, observation)]

    async def _send_all(
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
            work = asyncio.create_task(self._send(step, observation))
            begun += [] if under_way else [work]
            under_way[work] = step
            work.add_done_callback(partial(self._is_told, step.ordinal))
        if not begun:
            return []
        await asyncio.wait(begun, timeout=_SEND_WAIT_S)
        return [work.result() for work in begun if work.done()]

    def _is_newest(self, step: SendAssignment) -> bool:
        """Whether a pod is being sent no newer assignment than this one, and is sent this one."""
        return step in [*self._sending[step.ordinal].values()][-1:]

    def _is_told(self, pod: Ordinal, work: "asyncio.Task[bool]") -> None:
        self._sending[pod].pop(work, None)

    async def _act(self, step: Step, observation: Observation) -> bool:
        """Does a step, unless it has to wait; whether it was done."""
        match step:
            case SetReplicas():
                return await self._set_replicas(step, observation)
            case PublishAssignment():
                await self._publish_assignment(step, observation)
                return True
            case SendAssignment():
                return await self._send(step, observation)
            case RestartPod():
                return await self._restart(step, observation)
            case AcceptLoss():
                return await self._accept_loss(step, observation)
            case RetireReplica():
                return await self._retire(step, observation)
            case _:
                assert_never(step)

    async def _set_replicas(self, step: SetReplicas, observation: Observation) -> bool:
        async def ask() -> None:
            logger.info("%s: asking for %d pods", self._store, step.replicas)
            await self._cluster.set_replicas(self._store, step.replicas)

        # No pod runs without what has to stand beside it, as its network policy.
        if self._attempts.of(Subject.CHILDREN) is not None:
            return False
        tried = (observation.resource.generation, step)
        return await self._attempt(Subject.REPLICAS, tried, ask, raises=ConflictError)

    async def _restart(self, step: RestartPod, observation: Observation) -> bool:
        async def restart() -> None:
            logger.info("%s: restarting %s", self._store, step.pod.address.name)
            await self._cluster.restart(self._store, step.pod)

        tried = (observation.resource.generation, step.pod.uid)
        return await self._attempt(Subject.RESTART, tried, restart, raises=ConflictError)

    async def _send(self, step: SendAssignment, observation: Observation) -> bool:
        async def send() -> None:
            try:
                report = await self._pods.assign(pod.reached_at, step.assignment)
            except StaleEpochError:
                if self._is_newest(step):
                    raise
                return  # The pod has taken epochs of a newer one, which was sent meanwhile.
            self._sent[step.ordinal] = SentAssignment(
                incarnation=report.incarnation, assignment=step.assignment
            )
            self._attempts.forget(Subject.RETIREMENT)  # A pod without it refuses to delete one.

        pod = next(pod for pod in observation.cluster.pods if pod.ordinal == step.ordinal)
        tried = (observation.reports[step.ordinal].incarnation, step.assignment)
        # One pod's refusal must not keep the others from being told.
        return await self._attempt(step.ordinal, tried, send)

    async def _accept_loss(self, step: AcceptLoss, observation: Observation) -> bool:
        async def accept() -> None:
            told = "%s: partition %s goes on without the rows it lost, as accepted in epoch %s"
            logger.warning(told, self._store, step.partition, step.epoch)
            request = AcceptLossRequest(
                store_id=step.store_id,
                partition=step.partition,
                epoch=step.epoch,
                assignment=step.assignment,
            )
            await self._pods.accept_loss(pod.reached_at, request)

        pod = next(pod for pod in observation.cluster.pods if pod.ordinal == step.ordinal)
        return await self._attempt(Subject.LOSS, step, accept)

    async def _retire(self, step: RetireReplica, observation: Observation) -> bool:
        pod = next(pod for pod in observation.cluster.pods if pod.ordinal == step.ordinal)
        request = RetireRequest(store_id=step.store_id, partition=step.partition, epoch=step.epoch)
        return await self._attempt(
            Subject.RETIREMENT, step, lambda: self._pods.retire(pod.reached_at, request)
        )

    # --- What failed

    async def _attempt(
        self,
        subject: Subject | Ordinal,
        tried: Any,
        action: Callable[[], Awaitable[object]],
        raises: tuple[type[StoreError], ...] | type[StoreError] = (),
    ) -> bool:
        """Does an action that is due; returns whether it was done. Keeps why it was refused.

        Raises the errors of `raises`: the round begins anew after them.
        """
        if not self._is_due(subject, tried):
            return False
        try:
            await action()
        except raises:
            raise
        except StoreError as error:
            self._failed(subject, tried, error)
            return False
        self._attempts.forget(subject)
        return True

    def _is_due(self, subject: Subject | Ordinal, tried: Any) -> bool:
        return self._attempts.is_due(subject, tried, self._clock.monotonic_s())

    def _failed(self, subject: Subject | Ordinal, tried: Any, error: StoreError) -> None:
        self.failures.append(error)
        is_news = self._attempts.failed(subject, tried, error, self._clock.monotonic_s())
        what = subject.value if isinstance(subject, Subject) else f"pod {subject}'s assignment"
        level = logging.WARNING if is_news else logging.DEBUG
        text = "%s: %s was refused and is tried again: %s: %s"
        logger.log(level, text, self._store, what, error.code, error.message)

    def _forget_all_but(self, steps: Iterable[Step], observation: Observation) -> None:
        """Forgets the failures of work that is not planned any more.

        A refused restart is planned again when the pod has handed over the actives that it got
        meanwhile.
        """
        planned: set[Subject | Ordinal] = {Subject.CHILDREN}
        refused = self._attempts.of(Subject.RESTART)
        outdated = [pod.uid for pod in observation.cluster.pods if pod.is_old]
        if refused is not None and refused.tried[1] in outdated:
            planned.add(Subject.RESTART)
        for step in steps:
            if isinstance(step, SendAssignment):
                planned.add(step.ordinal)
            elif isinstance(step, SetReplicas):
                planned.add(Subject.REPLICAS)
            elif isinstance(step, RestartPod):
                planned.add(Subject.RESTART)
            elif isinstance(step, AcceptLoss):
                planned.add(Subject.LOSS)
            elif isinstance(step, RetireReplica):
                planned.add(Subject.RETIREMENT)
        self._attempts.keep_only(planned)

    def _troubles(self, observation: Observation) -> tuple[Trouble, ...]:
        told = []
        for subject in Subject:
            failure = self._attempts.of(subject)
            if failure is not None and failure.is_told:
                reason = reason_of(failure.error)
                told.append(Trouble(reason=reason, message=failure.error.message))
        for pod in observation.cluster.pods:
            failure = self._attempts.of(pod.ordinal)
            if failure is not None and failure.is_told:
                said = f"{failure.error.code}: {failure.error.message}"
                message = f"{pod.address.name} did not take its assignment: {said}"
                is_of_type = isinstance(failure.error, StoreTypeRefusedError)
                reason = STORE_TYPE_REFUSED if is_of_type else ASSIGNMENT_REFUSED
                told.append(Trouble(reason=reason, message=message))
        return tuple(told)

    # --- What is published

    async def _publish_assignment(self, step: PublishAssignment, observation: Observation) -> None:
        logger.info("%s: publishing an assignment", self._store)
        status = status_of(observation, time_of(utc(self._clock)))
        assert status.assignment == step.partitions
        await self._resources.publish(observation.resource, status)
        before = observation.resource.status
        published = None if before is None else before.assignment
        if changes_of(published, step.partitions).have_moves:
            self.moved_at_s = self._clock.monotonic_s()

    async def _publish_observation(self, observation: Observation) -> bool:
        """Publish the changes, not more often than the interval says; whether all is quiet."""
        status = status_of(observation, time_of(utc(self._clock)))
        is_quiet = isinstance(assess(observation), KnownAssignment) and all(
            pod.ordinal in observation.reports for pod in observation.cluster.pods
        )
        if status == observation.resource.status:
            return is_quiet and is_serving(status)
        now_s, last_s = self._clock.monotonic_s(), self.published_at_s
        if last_s is not None and now_s - last_s < self._intervals.publish_s:
            return False
        await self._resources.publish(observation.resource, status)
        self.published_at_s = now_s
        return False
