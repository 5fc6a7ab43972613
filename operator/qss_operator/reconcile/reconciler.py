"""A round of one store: observe, plan, act step by step, publish.

Between rounds a reconciler remembers the assignment that each pod took, to spare sending it again,
and the refusals, to repeat refused work less often. A new reconciler, which remembers nothing, does
the same work.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_core.model import Ordinal, Sequence, StoreName
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.retirement import RetireRequest
from qss_operator.errors import ConflictError
from qss_operator.planning.assignment_state import KnownAssignment, assess
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
    SetReplicas,
    Step,
    StoreResource,
)
from qss_operator.planning.plan import places_replicas, plan
from qss_operator.planning.status import status_of
from qss_operator.ports import Cluster, Pods, Resources
from qss_operator.reconcile.assignment_sender import AssignmentSender
from qss_operator.reconcile.attempts import Attempts, Work
from qss_operator.reconcile.condition_teller import ConditionTeller
from qss_operator.reconcile.pod_reports import PodReports, completed_of
from qss_operator.times import time_of, utc

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """The pauses between rounds, and the shortest times between two publications.

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
        self.published_at_s: float | None = None
        self.moved_at_s: float | None = None  # When changes of moves were published last.
        self._attempts = Attempts(store, clock)
        self._sender = AssignmentSender(pods, self._attempts)
        self._completed: Sequence | None = None  # As of the last round.
        self._heard_s: dict[Ordinal, float] = {}  # When each pod was last heard, or first missed.
        self.shortage = Shortage()  # As of the last round.
        self._reports = PodReports(store, pods, clock)
        self._teller = ConditionTeller(pods, clock)

    @property
    def failures(self) -> list[StoreError]:
        """The failures that the last round met, and after which it went on."""
        return self._attempts.failures

    async def run_round(self) -> bool | None:
        """Runs one round; returns whether nothing was left to do, None if the resource is gone."""
        self._attempts.failures = []
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
        self._attempts.forget_all_but(steps, observation)
        observation = replace(observation, troubles=self._attempts.troubles(observation))
        are_done = await self._act_all(steps, observation)
        if any(are_done):
            # The next round observes the steps' effects; a second status is written only then.
            return False
        observation = replace(observation, troubles=self._attempts.troubles(observation))
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
            sent=dict(self._sender.sent),
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
            if not self._attempts.is_due(Work.RESTART, (resource.generation, pod.uid))
        )
        return next(refused, None)

    async def _keep(self, observation: Observation) -> None:
        """Keeps the children; a refused child must not keep pods from being seen and told."""
        await self._attempts.make(
            Work.CHILDREN,
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
            done += await self._sender.send_all(sends, observation)
            sends = []
            done.append(await self._act(step, observation))
        return [*done, *await self._sender.send_all(sends, observation)]

    async def _act(self, step: Step, observation: Observation) -> bool:
        """Does a step, unless it has to wait; returns whether it was done."""
        match step:
            case SetReplicas():
                return await self._set_replicas(step, observation)
            case PublishAssignment():
                await self._publish_assignment(step, observation)
                return True
            case SendAssignment():
                return await self._sender.send(step, observation)
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

        # No pod runs without the objects beside it, as its network policy.
        if self._attempts.has_failed(Work.CHILDREN):
            return False
        tried = (observation.resource.generation, step)
        return await self._attempts.make(Work.REPLICAS, tried, ask, raises=ConflictError)

    async def _restart(self, step: RestartPod, observation: Observation) -> bool:
        async def restart() -> None:
            logger.info("%s: restarting %s", self._store, step.pod.address.name)
            await self._cluster.restart(self._store, step.pod)

        tried = (observation.resource.generation, step.pod.uid)
        return await self._attempts.make(Work.RESTART, tried, restart, raises=ConflictError)

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
        return await self._attempts.make(Work.LOSS, step, accept)

    async def _retire(self, step: RetireReplica, observation: Observation) -> bool:
        pod = next(pod for pod in observation.cluster.pods if pod.ordinal == step.ordinal)
        request = RetireRequest(store_id=step.store_id, partition=step.partition, epoch=step.epoch)
        return await self._attempts.make(
            Work.RETIREMENT, step, lambda: self._pods.retire(pod.reached_at, request)
        )

    # --- Publishing

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
        """Publishes the changes, not more often than the interval says.

        Returns whether nothing has changed, all pods have answered, and the store serves.
        """
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
