"""`python -m qss_faults.parts.operator_program STATE STORE`: one store's operator, as a process.

It runs the rounds of `qss up` over the same state directory, but starts no pods: so its end is the
end of no pod, as on Kubernetes. Where the file `die-at` has a number, the operator kills itself at
the step with that number: before or after it publishes an assignment, or tells a pod something.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from qss_client.clock import Clock, SystemClock
from qss_client.processes import is_alive
from qss_core.model import Ordinal, PodAddress, PodName, StoreAssignment, StoreName, Wire
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_operator.http_pods import HttpPods
from qss_operator.local.directory.files import holds_files, read_yaml, write_yaml
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.prepare import resource_of
from qss_operator.local.processes import signal_process
from qss_operator.local.rounds import run_rounds
from qss_operator.local.status_writer import LocalResources
from qss_operator.planning.model import (
    ClusterState,
    Endpoints,
    Observation,
    PodEndpoints,
    PodState,
    StoreResource,
    StoreStatus,
)
from qss_operator.reconcile.reconciler import Intervals, StoreReconciler

_LOOK_S = 0.1


class Place(Wire, frozen=True, kw_only=True):
    """The address and the volume of a pod."""

    query: str
    changelog: str
    data: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Counts steps down in a file, and kills this process at the last one."""

    file: Path

    def take(self) -> None:
        """Takes one step; sends SIGKILL to this process where it is the chosen one."""
        try:
            left = int(self.file.read_text())
        except FileNotFoundError:
            return
        if left <= 0:
            self.file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        self.file.write_text(str(left - 1))


class MachinesCluster:
    """The pods that `processes` runs (the port Cluster): their number never changes."""

    def __init__(self, state: StateDirectory, places: tuple[Place, ...]) -> None:
        self._state = state
        self._places = places

    async def observe(self, store: StoreName) -> ClusterState:
        """The pods, by the files that tell their processes."""
        pods = tuple(PodEndpoints(query=one.query, changelog=one.changelog) for one in self._places)
        return ClusterState(
            replicas=len(pods),
            pods=tuple(self._pod(store, Ordinal(n)) for n in range(len(pods))),
            endpoints=Endpoints(query=pods[0].query, changelog=pods[0].changelog, pods=pods),
            local_option=self._state.option,
        )

    def _pod(self, store: StoreName, ordinal: Ordinal) -> PodState:
        place, process = self._places[ordinal], self._state.process(store, ordinal)
        return PodState(
            address=PodAddress(
                ordinal=ordinal,
                name=PodName(f"{store}-{ordinal}"),
                query=place.query,
                changelog=place.changelog,
            ),
            is_running=process is not None and is_alive(process),
            has_data=holds_files(Path(place.data)),
            uid=str(process.pid) if process is not None else None,
        )

    async def look_at_nodes(self, cluster: ClusterState) -> ClusterState:
        """The machines of these pods are never cordoned."""
        return cluster

    async def keep(self, observation: Observation) -> None:
        """Does nothing, since nothing stands beside these pods."""

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        """Does nothing, since the number of pods never changes."""

    async def restart(self, store: StoreName, pod: PodState) -> None:
        """Ends a pod in order; `processes` starts it again."""
        process = self._state.process(store, pod.ordinal)
        if process is not None and str(process.pid) == pod.uid:
            signal_process(process, signal.SIGTERM)

    async def wait_for_change(self, store: StoreName, timeout_s: float) -> None:
        """Returns when a pod was started again, or after the timeout."""
        before = self._state.processes()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._state.processes() == before:  # noqa: ASYNC110 a file does not tell.
                    await asyncio.sleep(_LOOK_S)


class SteppedResources(LocalResources):
    """Resources whose publishing of another assignment is a step."""

    def __init__(self, state: StateDirectory, resource: StoreResource, steps: Steps) -> None:
        super().__init__(state, [resource])
        self._steps = steps

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Publishes a status, with a step before and after another assignment."""
        old = resource.status.assignment if resource.status else None
        if status.assignment == old:
            await super().publish(resource, status)
            return
        self._steps.take()
        await super().publish(resource, status)
        self._steps.take()


class SteppedPods(HttpPods):
    """Pods to which each word of the operator is a step."""

    def __init__(self, session: aiohttp.ClientSession, clock: Clock, steps: Steps) -> None:
        super().__init__(session, clock=clock, silent_after_s=10.0)
        self._steps = steps

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        return await self._stepped(lambda: super(SteppedPods, self).assign(pod, assignment))

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        return await self._stepped(lambda: super(SteppedPods, self).retire(pod, request))

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        return await self._stepped(lambda: super(SteppedPods, self).accept_loss(pod, request))

    async def _stepped(self, tell: Callable[[], Awaitable[ReplicasReport]]) -> ReplicasReport:
        self._steps.take()
        report = await tell()
        self._steps.take()
        return report


def places_file(state: StateDirectory) -> Path:
    return state.path / "places.yaml"


def steps_file(state: StateDirectory) -> Path:
    return state.path / "die-at"


def write_places(state: StateDirectory, places: list[Place]) -> None:
    """Tells the operator where the pods are."""
    write_yaml(
        places_file(state),
        [{"query": one.query, "changelog": one.changelog, "data": one.data} for one in places],
    )


async def run(state: StateDirectory, store: StoreName) -> None:
    """Runs rounds until the process is killed."""
    steps = Steps(steps_file(state))
    places = tuple(Place(**one) for one in read_yaml(places_file(state)))
    stored = state.read_resource(store)
    assert stored is not None, f"{state.path} has no store {store}"
    cluster, clock = MachinesCluster(state, places), SystemClock()
    async with aiohttp.ClientSession() as session:
        reconciler = StoreReconciler(
            store,
            resources=SteppedResources(state, resource_of(stored, state.read_status(store)), steps),
            cluster=cluster,
            pods=SteppedPods(session, clock, steps),
            clock=clock,
            intervals=Intervals(),
        )
        await run_rounds(store, reconciler.run_round, cluster.wait_for_change, Intervals())


if __name__ == "__main__":
    asyncio.run(run(StateDirectory(Path(sys.argv[1])), StoreName(sys.argv[2])))
