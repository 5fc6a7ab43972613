"""One process of the operator: the product's reconciler and planner over simulated ports."""

import asyncio
from collections.abc import Callable, Sequence

from qss_core.errors import StoreError
from qss_core.model import Ordinal, PodAddress, PodName, StoreAssignment, StoreName
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.messages import decode, encode
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_operator.errors import ConflictError
from qss_operator.planning.model import ClusterState, Endpoints, Observation, PodEndpoints, PodState
from qss_operator.reconcile.reconciler import Intervals, StoreReconciler
from qss_simulation.parts.api_server import ApiServer
from qss_simulation.parts.clocks import MachineClock
from qss_simulation.parts.disk import SimulatedDisk
from qss_simulation.parts.network import Network
from qss_simulation.parts.trace import Trace

_REPORT_TIMEOUT_S = 2.0
_ASSIGN_TIMEOUT_S = 30.0
_FAILED_S = 1.0


def address_of(store: StoreName, ordinal: int) -> PodAddress:
    """The address of a pod in the simulated network."""
    host = f"http://pod-{ordinal}"
    name = PodName(f"{store}-{ordinal}")
    return PodAddress(ordinal=Ordinal(ordinal), name=name, query=host, changelog=host)


class SimulatedCluster:
    """The pods as things that run: the port Cluster. Each process starts again by itself."""

    def __init__(
        self,
        store: StoreName,
        disks: Sequence[SimulatedDisk],
        node: Callable[[int], str | None],
        is_outdated: Callable[[str], bool],
        restart: Callable[[int], None],
        replicas: Callable[[], int],
        scale: Callable[[int], None],
    ) -> None:
        """One machine for each disk; the first `replicas` run pods, and `scale` sets that number.

        `node` is that of a pod's process. A node that `is_outdated` has an older template.
        """
        self._disks = disks
        self._node = node
        self._is_outdated = is_outdated
        self._restart = restart
        self._replicas = replicas
        self._scale = scale
        self._addresses = [address_of(store, number) for number in range(len(disks))]

    async def observe(self, store: StoreName) -> ClusterState:
        """The pods and their volumes."""
        return ClusterState(
            replicas=self._replicas(),
            pods=tuple(
                PodState(
                    address=address,
                    is_running=(node := self._node(number)) is not None,
                    has_data=self._disks[number].has_data,
                    uid=node,
                    is_outdated=node is not None and self._is_outdated(node),
                )
                for number, address in enumerate(self._addresses[: self._replicas()])
            ),
            endpoints=Endpoints(
                query=self._addresses[0].query,
                pods=tuple(
                    PodEndpoints(query=one.query, changelog=one.changelog)
                    for one in self._addresses
                ),
            ),
        )

    async def look_at_nodes(self, cluster: ClusterState) -> ClusterState:
        """The hosts of the simulation are never cordoned."""
        return cluster

    async def keep(self, observation: Observation) -> None:
        """There is nothing beside the pods."""

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        """Starts pods, or ends those with the highest ordinals."""
        self._scale(replicas)

    async def restart(self, store: StoreName, pod: PodState) -> None:
        """Ends a pod's process, and starts it again."""
        if self._node(pod.ordinal) == pod.uid:
            self._restart(pod.ordinal)


class SimulatedPods:
    """The pods' control API over the simulated network: the port Pods."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        """The report of a pod on its replicas, or None."""
        try:
            return await self._ask(pod, "replicas", {}, _REPORT_TIMEOUT_S)
        except StoreError:
            return None

    def refusal(self, pod: PodAddress) -> str | None:
        """No pod refuses a report."""
        return None

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        """Gives a pod its assignment. Raises StoreError."""
        return await self._ask(pod, "assignment", assignment, _ASSIGN_TIMEOUT_S)

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        """Has a pod delete a replica. Raises StoreError."""
        return await self._ask(pod, "retire", request, _ASSIGN_TIMEOUT_S)

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        """Has a partition go on without what it lost. Raises StoreError."""
        return await self._ask(pod, "accept-loss", request, _ASSIGN_TIMEOUT_S)

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        """Sends nothing: no promise depends on what pods know of conditions."""

    async def _ask(
        self, pod: PodAddress, what: str, message: object, timeout_s: float
    ) -> ReplicasReport:
        url = f"{pod.changelog}/control/{what}"
        return decode(await self._network.exchange(url, encode(message), timeout_s), ReplicasReport)


async def run_operator(
    store: StoreName,
    api: ApiServer,
    cluster: SimulatedCluster,
    network: Network,
    clock: MachineClock,
    trace: Trace,
) -> None:
    """Rounds until the node dies, as a store's loop of the operator runs them."""
    intervals = Intervals()
    reconciler = StoreReconciler(
        store,
        resources=api,
        cluster=cluster,
        pods=SimulatedPods(network),
        clock=clock,
        intervals=intervals,
    )
    while True:
        pause_s = intervals.unsettled_s
        try:
            if await reconciler.run_round():
                pause_s = intervals.settled_s
        except ConflictError:
            trace.note("conflict")
        except StoreError as error:
            trace.note("round-failed", error.code)
            pause_s = _FAILED_S
        await asyncio.sleep(pause_s)
