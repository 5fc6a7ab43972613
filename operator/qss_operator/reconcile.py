"""The loop of one store: observe, plan, act step by step, publish.

All that it remembers between rounds is what each pod was told, to spare sending it again; a new
reconciler that remembers nothing does the same work.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import assert_never

from qss_core.errors import StoreError
from qss_core.model import Ordinal, StoreName
from qss_core.wire import ReplicasReport
from qss_operator.planning.knowledge import Known, assess
from qss_operator.planning.model import (
    ClusterState,
    Observation,
    PublishAssignment,
    SendAssignment,
    SentAssignment,
    SetReplicas,
    Step,
    StoreResource,
    StoreStatus,
)
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_operator.ports import Clock, Cluster, Pods, Resources

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often the loop looks, and how often it writes what it saw."""

    unsettled_s: float = 0.2
    settled_s: float = 1.0
    publish_s: float = 1.0


class StoreReconciler:
    """Brings one store to what its resource asks for, round by round."""

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
        self._published_at_s: float | None = None

    async def run(self) -> None:
        """Run rounds until the resource is deleted or the task is cancelled."""
        while True:
            try:
                is_settled = await self.run_round()
            except StoreError as error:
                logger.warning("%s: %s: %s", self._store, error.code, error.message)
                is_settled = False
            except Exception:
                # One bad round must not be the last one.
                logger.exception("%s: a round failed", self._store)
                is_settled = False
            if is_settled is None:
                return
            interval = self._intervals.settled_s if is_settled else self._intervals.unsettled_s
            await self._cluster.wait_for_change(self._store, interval)

    async def run_round(self) -> bool | None:
        """One round; whether nothing was left to do, or None if the resource is gone."""
        observation = await self._observe()
        if observation is None:
            return None
        await self._cluster.keep(observation)
        steps = plan(observation)
        for step in steps:
            await self._act(step, observation)
        if steps:
            # What was done shows in the next round; a second status is written only then.
            return False
        return await self._publish_observation(observation)

    async def _observe(self) -> Observation | None:
        resource = await self._resources.read(self._store)
        if resource is None:
            return None
        cluster = await self._cluster.observe(self._store)
        reports = await self._reports(cluster)
        return Observation(
            resource=resource, cluster=cluster, reports=reports, sent=dict(self._sent)
        )

    async def _reports(self, cluster: ClusterState) -> dict[Ordinal, ReplicasReport]:
        running = [pod for pod in cluster.pods if pod.is_running]
        reports = await asyncio.gather(*(self._pods.report(pod.reached_at) for pod in running))
        return {
            pod.ordinal: report
            for pod, report in zip(running, reports, strict=True)
            # Another pod, of this store or of none, may listen at an address that was reused.
            if report is not None and (report.store, report.ordinal) == (self._store, pod.ordinal)
        }

    async def _act(self, step: Step, observation: Observation) -> None:
        match step:
            case SetReplicas():
                logger.info("%s: asking for %d pods", self._store, step.replicas)
                await self._cluster.set_replicas(self._store, step.replicas)
            case PublishAssignment():
                logger.info("%s: publishing an assignment", self._store)
                status = status_of(observation, self._clock.now())
                assert status.assignment == step.partitions
                await self._publish(observation.resource, status)
            case SendAssignment():
                await self._send(step, observation)
            case _:
                assert_never(step)

    async def _send(self, step: SendAssignment, observation: Observation) -> None:
        pod = next(pod for pod in observation.cluster.pods if pod.ordinal == step.ordinal)
        try:
            report = await self._pods.assign(pod.reached_at, step.assignment)
        except StoreError as error:
            # One pod's refusal must not keep the others from being told; the next round, which
            # sees why, tries again.
            name = pod.address.name
            logger.warning("%s did not take it: %s: %s", name, error.code, error.message)
            return
        self._sent[step.ordinal] = SentAssignment(
            incarnation=report.incarnation, assignment=step.assignment
        )

    async def _publish_observation(self, observation: Observation) -> bool:
        """Publish what changed, not more often than the interval says; whether all is quiet."""
        status = status_of(observation, self._clock.now())
        is_quiet = isinstance(assess(observation), Known) and all(
            pod.ordinal in observation.reports for pod in observation.cluster.pods
        )
        if status == observation.resource.status:
            return is_quiet and status.assigned == _all_of(status.assigned)
        now_s = self._clock.monotonic_s()
        if (
            self._published_at_s is not None
            and now_s - self._published_at_s < self._intervals.publish_s
        ):
            return False
        await self._publish(observation.resource, status)
        self._published_at_s = now_s
        return False

    async def _publish(self, resource: StoreResource, status: StoreStatus) -> None:
        await self._resources.publish(resource, status)


def _all_of(count: str | None) -> str:
    whole = (count or "0/0").partition("/")[2]
    return f"{whole}/{whole}"
