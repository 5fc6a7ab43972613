"""The store that is struck: its pods, its operator, their disks and links, and its status."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from qss_client.clock import SystemClock
from qss_client.http.sync_http import SyncHttp
from qss_client.processes import identify
from qss_core.errors import StoreError
from qss_core.model import Ordinal, PartitionConfiguration
from qss_core.wire.messages import decode
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.versions import OWN_VERSION
from qss_faults.content import content_of
from qss_faults.history import Batches
from qss_faults.parts.namespaces import is_inside
from qss_faults.parts.network import Network, network_of
from qss_faults.parts.operator_program import Place, write_places
from qss_faults.parts.processes import Processes
from qss_faults.parts.volumes import Volume, directories, mounted
from qss_faults.plan import Plan
from qss_operator.local.directory.files import make_directory
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.prepare import prepare, store
from qss_operator.planning.model import ConditionType, StoreStatus
from qss_operator.times import time_of, utc
from qss_testing.clients.qss_command import STORE, manifest
from qss_testing.pods.ports import free_ports

OPERATOR = "operator"
_TESTS = Path(__file__).parent.parent


@dataclass(slots=True, kw_only=True)
class Machines:
    """The pods and the operator of one store, which run inside `machines_of`."""

    plan: Plan
    state: StateDirectory
    processes: Processes
    network: Network | None  # With a network the pods have disks of their own, too.
    volumes: list[Volume]
    places: list[Place]

    @property
    def pods(self) -> range:
        return range(self.plan.pods)

    @property
    def urls(self) -> list[str]:
        """The query URLs of all pods."""
        return [one.query for one in self.places]

    def status(self) -> StoreStatus:
        """The published status; an empty one before the first."""
        return self.state.read_status(STORE) or StoreStatus()

    def configurations(self) -> tuple[PartitionConfiguration, ...]:
        return self.status().assignment or ()

    def is_whole(self) -> bool:
        """Whether all replicas are in sync, and status and reports say so."""
        status = self.status()
        degraded, ready = (
            status.condition(kind) for kind in (ConditionType.DEGRADED, ConditionType.READY)
        )
        return (
            degraded is not None
            and degraded.reason == "Healthy"
            and ready is not None
            and ready.status == "True"
            and len(self.configurations()) == self.plan.partitions
            and all(
                len(one.in_sync) == len(one.replicas) == 1 + self.plan.standbys
                for one in self.configurations()
            )
        )

    def report(self, pod: int) -> ReplicasReport | None:
        """The report of a pod; None if it does not answer."""
        http = SyncHttp()
        try:
            url = f"{self.places[pod].changelog}/control/replicas"
            answer = http.request("GET", url, headers={**OWN_VERSION}, timeout_s=2.0)
            return decode(answer.body, ReplicasReport)
        except StoreError:
            return None
        finally:
            http.close()

    def trouble(self) -> list[str]:
        """Why the store is not whole: conditions, configurations, and replicas in trouble."""
        told = [
            f"{one.type}={one.status} {one.reason}: {one.message}"
            for one in self.status().conditions or ()
        ]
        told += [
            f"partition {one.partition}: epoch {one.epoch}, active {one.active}, "
            f"in sync {list(one.in_sync)} of {list(one.replicas)}"
            for one in self.configurations()
        ]
        for pod in self.pods:
            report = self.report(pod)
            told.append(f"pod {pod}: {'no report' if report is None else report}")
        return told


def pod_name(pod: int) -> str:
    return f"pod-{pod}"


@contextmanager
def machines_of(plan: Plan, directory: Path) -> Iterator[Machines]:
    """Starts a store's pods and operator; their end is the end of the context.

    Hosts and disks of their own need namespaces; without these the pods are on the loopback.
    """
    with ExitStack() as stack:
        hosts = (*(pod_name(pod) for pod in range(plan.pods)), OPERATOR)
        network = stack.enter_context(network_of(hosts)) if is_inside() else None
        make = mounted if is_inside() else directories
        volumes = stack.enter_context(make(directory, plan.pods))
        state = StateDirectory(directory / "state")
        # The processes end before their disks and links do.
        processes = stack.enter_context(Processes({"PYTHONPATH": _python_path()}))
        machines = Machines(
            plan=plan,
            state=state,
            processes=processes,
            network=network,
            volumes=volumes,
            places=[],
        )
        _store(plan, directory, state)
        for pod in machines.pods:
            _add_pod(machines, pod, directory)
        write_places(state, machines.places)
        command = (
            sys.executable,
            "-m",
            "qss_faults.parts.operator_program",
            str(state.path),
            STORE,
        )
        enter = network.enter(OPERATOR) if network else ()
        processes.add(OPERATOR, (*enter, *command), directory / "operator.log", lambda _: None)
        yield machines


def _python_path() -> str:
    """The children's path for modules: this package, before what this process was given."""
    return os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])


def _store(plan: Plan, directory: Path, state: StateDirectory) -> None:
    file = directory / "store.yaml"
    file.write_text(
        manifest(
            partitions=plan.partitions,
            replicas=plan.pods,
            store=dict(content_of(plan.content, Batches(plan.partitions)).spec),
            standbys=plan.standbys,
            rebalance={
                "leaseDuration": f"{plan.lease_s:g}s",
                "failoverAfter": f"{plan.silent_s:g}s",
                "replicaTimeout": f"{plan.silent_s:g}s",
            },
        )
    )
    make_directory(state.path)
    (prepared,) = prepare([file], state)
    store(prepared, state, str(uuid4()), time_of(utc(SystemClock())))


def _add_pod(machines: Machines, pod: int, directory: Path) -> None:
    state, network, name = machines.state, machines.network, pod_name(pod)
    enter: tuple[str, ...] = ()
    if network is None:
        host, ports = "127.0.0.1", free_ports(3)
    else:
        host, ports, enter = network.address(name), [8080, 8081, 8082], network.enter(name)
    volume = machines.volumes[pod]
    make_directory(state.pod_directory(STORE, Ordinal(pod)))
    machines.places.append(
        Place(
            query=f"http://{host}:{ports[0]}",
            changelog=f"http://{host}:{ports[1]}",
            data=str(volume.data),
        )
    )
    command = (
        *(*enter, sys.executable, "-m", "qss_store", "--store", STORE, "--ordinal", str(pod)),
        *("--host", host, "--data-dir", str(volume.data)),
        *("--query-port", str(ports[0]), "--internal-port", str(ports[1])),
        *("--ops-port", str(ports[2])),
    )

    def started(pid: int) -> None:
        process = identify(pid)
        if process is not None:
            state.write_process(STORE, Ordinal(pod), process)

    machines.processes.add(name, command, directory / f"{name}.log", started)
