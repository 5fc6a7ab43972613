"""Runs pods as child processes on the loopback address (the port Cluster)."""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from qss_core.model import Ordinal, PodAddress, PodName, StoreName
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.files import holds_files
from qss_operator.local.directory.ports import LOOPBACK, PodPorts, choose_ports, moves
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.processes import end_process
from qss_operator.local.supervisor import STOP_GRACE_S, PodSupervisor
from qss_operator.planning.model import (
    ClusterState,
    ConditionStatus,
    ConditionType,
    Endpoints,
    Finding,
    Observation,
    PodEndpoints,
    PodState,
)

_LOG = logging.getLogger(__name__)
INVALID_RESOURCE = "InvalidResource"
POD_COMMAND = (sys.executable, "-m", "qss_store")


@dataclass(slots=True)
class _Pods:
    """The processes of one store's pods."""

    addresses: tuple[PodAddress, ...] = ()
    template: str = ""  # The pod template: pods that run from another one are outdated.
    supervisors: list[PodSupervisor] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class LocalCluster:
    """The pods of all stores of one run. The end of the context stops every pod."""

    def __init__(
        self,
        state: StateDirectory,
        pod_command: Sequence[str] = POD_COMMAND,
        refusal: Callable[[StoreName], str | None] = lambda _: None,
    ) -> None:
        """`refusal` says why a store's edited file is not carried out; the status shows it."""
        self._state = state
        self._refusal = refusal
        self._pod_command = tuple(pod_command)
        self._stores: dict[StoreName, _Pods] = {}

    async def __aenter__(self) -> "LocalCluster":
        """Begin without pods: end the pods that an earlier run left behind."""
        await end_leftovers(self._state)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop every pod, all at the same time."""
        await cancel([task for pods in self._stores.values() for task in pods.tasks])

    async def observe(self, store: StoreName) -> ClusterState:
        """The pods of a store, running or not."""
        pods = self._stores.get(store, _Pods())
        states = tuple(
            self._state_of(store, address, supervisor)
            for address, supervisor in zip(pods.addresses, pods.supervisors, strict=True)
        )
        findings: dict[ConditionType, Finding] = {}
        if refused := self._refusal(store):
            findings[ConditionType.DEGRADED] = ConditionStatus.TRUE, INVALID_RESOURCE, refused
        return ClusterState(
            replicas=len(states),
            pods=states,
            endpoints=_endpoints(pods.addresses),
            findings=findings,
            local_option=self._state.option,
        )

    async def look_at_nodes(self, cluster: ClusterState) -> ClusterState:
        """One machine has no nodes that could be cordoned."""
        return cluster

    async def keep(self, observation: Observation) -> None:
        """Keeps the parts that pods are made of from now on."""
        resource = observation.resource
        pods = self._stores.setdefault(resource.name, _Pods())
        access = resource.spec.access
        annotations = sorted(resource.spec.pod.annotations.items())
        pages = (access.console, access.allowed_origins)
        pods.template = repr((resource.restarted_at, annotations, pages))

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        """Start the pods of a store, or stop the pods with the highest ordinals."""
        pods = self._stores.setdefault(store, _Pods())
        await cancel(pods.tasks[replicas:])
        del pods.tasks[replicas:], pods.supervisors[replicas:]
        # The ports of running pods are these pods' own, also while a pod starts.
        running = len(pods.supervisors)
        recorded = self._state.read_ports(store)
        own = [port for pod in recorded[:running] for port in pod.all()]
        chosen = choose_ports(
            recorded[running:],
            replicas - running,
            seed=str(self._state.path.absolute() / store),
            taken=[*own, *self._ports_of_others(store)],
        )
        ports = recorded[:running] + chosen
        if ports != recorded[: len(ports)]:
            self._state.write_ports(store, ports + recorded[len(ports) :])
            for line in moves(store, recorded, ports):
                _LOG.warning("%s", line)
        pods.addresses = tuple(
            _address(store, Ordinal(number), entry) for number, entry in enumerate(ports[:replicas])
        )
        for number in range(running, replicas):
            self._start(store, pods, Ordinal(number), ports[number])
        pods.changed.set()

    async def restart(self, store: StoreName, pod: PodState) -> None:
        """Stop a pod in order, and start it again."""
        supervisors = self._stores[store].supervisors
        if pod.ordinal < len(supervisors) and supervisors[pod.ordinal].uid == pod.uid:
            supervisors[pod.ordinal].restart()

    def wake(self, store: StoreName) -> None:
        """End the wait for a change of a store: its resource has changed."""
        self._stores.setdefault(store, _Pods()).changed.set()

    async def wait_for_change(self, store: StoreName, timeout_s: float) -> None:
        """Return when a pod has started or ended, or at a call of `wake`, or after the timeout."""
        changed = self._stores.setdefault(store, _Pods()).changed
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        changed.clear()

    def _start(self, store: StoreName, pods: _Pods, ordinal: Ordinal, ports: PodPorts) -> None:
        command = (
            *self._pod_command,
            *("--store", store),
            *("--ordinal", str(ordinal)),
            *("--data-dir", str(self._state.data_directory(store, ordinal).absolute())),
            *("--query-port", str(ports.query)),
            *("--internal-port", str(ports.internal)),
            *("--ops-port", str(ports.ops)),
        )
        supervisor = PodSupervisor(
            self._state, store, ordinal, command, pods.changed.set, lambda: pods.template
        )
        pods.supervisors.append(supervisor)
        pods.tasks.append(asyncio.create_task(supervisor.run(), name=f"{store}-{ordinal}"))

    def _state_of(
        self, store: StoreName, address: PodAddress, supervisor: PodSupervisor
    ) -> PodState:
        """The state of a pod; if its volume cannot be read, it counts as having data."""
        has_data, trouble = True, supervisor.trouble
        try:
            has_data = holds_files(self._state.data_directory(store, address.ordinal))
        except StateDirectoryError as error:
            trouble = trouble or f"cannot be started: {error.message}"
        return PodState(
            address=address,
            is_running=supervisor.is_running,
            has_data=has_data,
            trouble=trouble,
            uid=supervisor.uid,
            is_outdated=supervisor.is_outdated,
            is_leaving=supervisor.is_leaving,
        )

    def _ports_of_others(self, store: StoreName) -> list[int]:
        others = (other for other in self._state.stores() if other != store)
        return [
            port for other in others for pod in self._state.read_ports(other) for port in pod.all()
        ]


async def end_leftovers(state: StateDirectory) -> int:
    """End pods whose `qss up` has ended; returns their number."""
    # All at once: their grace periods overlap, and the end of one raises no error.
    ended = await asyncio.gather(
        *(end_process(process, STOP_GRACE_S) for process in state.processes())
    )
    return sum(ended)


async def cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancels the tasks, and waits until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _address(store: StoreName, ordinal: Ordinal, ports: PodPorts) -> PodAddress:
    return PodAddress(
        ordinal=ordinal,
        name=PodName(f"{store}-{ordinal}"),
        query=f"http://{LOOPBACK}:{ports.query}",
        changelog=f"http://{LOOPBACK}:{ports.internal}",
    )


def _endpoints(addresses: Sequence[PodAddress]) -> Endpoints:
    if not addresses:
        return Endpoints()
    pods = tuple(PodEndpoints(query=pod.query, changelog=pod.changelog) for pod in addresses)
    return Endpoints(query=pods[0].query, changelog=pods[0].changelog, pods=pods)
