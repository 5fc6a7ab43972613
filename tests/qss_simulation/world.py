"""The machines of one run, the processes on them, and what a person would do with them."""

import asyncio
import shutil
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 seeded by the story.
from typing import Any

from qss_client.http.retries import RetryLimits
from qss_core.errors import StoreError
from qss_core.model import Ordinal, PartitionConfiguration, StoreName
from qss_core.spec.resource import StoreSpec
from qss_core.wire.replica_reports import ReplicaReport
from qss_operator.planning.model import StoreResource
from qss_simulation.history import PARTITIONS, Histories, HistoryError
from qss_simulation.parts.api_server import ApiServer
from qss_simulation.parts.clocks import MachineClock
from qss_simulation.parts.disk import DatabaseFiles, SimulatedDisk
from qss_simulation.parts.network import Network
from qss_simulation.parts.seeded_loop import SeededLoop, context_of
from qss_simulation.parts.trace import Trace
from qss_simulation.processes.operator import SimulatedCluster, run_operator
from qss_simulation.processes.pod import PodProcess
from qss_simulation.processes.reader import run_reader
from qss_simulation.processes.writer import Driver
from qss_simulation.settings import settings_of
from qss_store.runtime.settings import Settings

_UID = "uid-{}"
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Volume:
    """A copy of a volume: the files of the pod, and its databases."""

    directory: Path
    files: dict[str, DatabaseFiles]


class World:
    """Everything that exists in one run."""

    def __init__(
        self,
        loop: SeededLoop,
        seed: int,
        directory: Path,
        spec: StoreSpec,
        settings: Settings | None = None,
    ) -> None:
        """Machines without processes; `directory` holds what the pods keep in files.

        Without `settings` the seed chooses them.
        """
        self.loop = loop
        self.trace = Trace(loop)
        self.histories = Histories()
        self.histories.make(_UID.format(1))
        self.index_version = 1  # The version of the store type in the pods' image.
        self.failures: list[BaseException] = []
        self.store = StoreName("flights")
        self.pods = spec.replicas  # The machines for pods.
        self.replicas = spec.replicas  # The first machines run a pod, so many of them.
        self.template = 0  # The pods' template; a person who restarts the store makes another one.
        self.is_scaled = False  # Whether a person changes the number of pods.
        self._seed = seed
        self._directory = directory
        self._spec = spec
        uid = _UID.format(1)
        resource = StoreResource(name=self.store, uid=uid, generation=1, version="1", spec=spec)
        loop.set_exception_handler(self._unexpected)
        self.network = Network(loop, self.random("network"), self.trace, self.failures.append)
        self.api = ApiServer(resource, self.random("api"), self.trace)
        self.disks = [
            SimulatedDisk(loop, self.random(f"disk-{number}"), self.trace)
            for number in range(self.pods)
        ]
        self.clocks = {host: MachineClock(loop) for host in self.hosts}
        self.settings = settings or settings_of(self.random("settings"))
        self.processes: dict[str, PodProcess] = {}  # By host.
        self._nodes: dict[str, str] = {}  # The node that runs on a host.
        self._templates: dict[str, int] = {}  # The template of each pod, by node.
        self._starts = 0
        self._made = 1
        self._copies = 0
        self._is_deleted = False
        self._readers = 0

    @property
    def hosts(self) -> list[str]:
        """The machines of pods, and the operator's."""
        return [*(f"pod-{number}" for number in range(self.pods)), "operator"]

    def random(self, what: str) -> Random:
        """Chances of one part of the world: the draws of others do not change them."""
        return Random(f"{self._seed}/{what}")

    # --- Processes

    def start_pod(self, number: int) -> None:
        """Starts a pod's process, unless one runs."""
        host = f"pod-{number}"
        if host in self._nodes or self._is_deleted or number >= self.replicas:
            return
        self.disks[number].syncs = 0  # Those of the last process never end.
        node = self._begin(host)
        self._templates[node] = self.template
        self._supervise(node, self._run_pod(number, host, node))

    async def _run_pod(self, number: int, host: str, node: str) -> None:
        process = PodProcess(
            self.store,
            number,
            self._volume(number),
            self.disks[number],
            self.network,
            self.clocks[host],
            self.settings,
            incarnation=node,
            index_version=self.index_version,
            resource_uid=self.api.resource.uid,
        )
        self.processes[host] = process
        await process.run(self.network, host)

    def start_operator(self) -> None:
        """Starts the operator's process, unless one runs."""
        host = "operator"
        if host in self._nodes:
            return
        cluster = SimulatedCluster(
            self.store,
            self.disks,
            lambda one: self._nodes.get(f"pod-{one}"),
            lambda node: self._templates[node] != self.template,
            self.restart,
            lambda: self.replicas,
            self.scale,
        )
        work = run_operator(
            self.store, self.api, cluster, self.network, self.clocks[host], self.trace
        )
        self._supervise(self._begin(host), work)

    def scale(self, replicas: int) -> None:
        """Starts pods on more machines, or ends those with the highest numbers."""
        self.trace.note("scale", str(replicas))
        self.replicas = min(replicas, self.pods)
        for number in range(self.pods):
            if number < self.replicas:
                self.start_pod(number)
            else:
                self.end(f"pod-{number}")

    def restart(self, number: int) -> None:
        """Ends a pod's process in order, and starts it with the present template."""
        self.trace.note("restart", str(number))
        if self.end(f"pod-{number}"):
            self.start_pod(number)

    def driver(self, query: str, number: int, *, deadline_s: float) -> Driver:
        """A run of a query, not started."""
        return Driver(
            self.store,
            self.pods,
            self.network,
            self.random(f"driver-{number}"),
            self.histories,
            self.trace,
            query=query,
            number=number,
            limits=RetryLimits(deadline_s=deadline_s),
        )

    def start_driver(self, driver: Driver, number: int, batches: int) -> str:
        """Starts a driver's process; returns its node."""
        node = f"driver-{number}"
        self._supervise(node, driver.live(batches))
        return node

    def start_reader(self) -> None:
        self._readers += 1
        node = f"reader-{self._readers}"
        random = self.random(node)
        work = run_reader(self.network, self.pods, random, self.histories, self.trace)
        self._supervise(node, work)

    def acting(self, partition: int) -> list[str]:
        """The hosts whose replica may answer as the partition's active now."""
        return [
            host
            for host, process in self.processes.items()
            if host in self._nodes
            and context_of(self._nodes[host]).run(process.may_answer_for, partition)
        ]

    async def watch_actives(self) -> None:
        """Fails the run where two replicas of a partition may act at once."""
        while True:
            for partition in range(PARTITIONS):
                acting = self.acting(partition)
                if len(acting) > 1:
                    told = f"{' and '.join(acting)} act for partition {partition}"
                    self.failures.append(HistoryError(told))
            await asyncio.sleep(_LOOK_S)

    def end(self, host: str) -> bool:
        """Ends the process of a host at once; returns whether one ran."""
        node = self._nodes.pop(host, None)
        if node is None:
            return False
        self.trace.note("end", node)
        self.processes.pop(host, None)
        self.loop.kill(node)
        return True

    def delete_store(self) -> None:
        """Somebody deletes the store with its pods and volumes."""
        self._is_deleted = True
        self.api.delete()
        for number, disk in enumerate(self.disks):
            self.end(f"pod-{number}")
            disk.erase()

    def make_store_again(self) -> None:
        """Somebody makes a store of the deleted one's name."""
        self._made += 1
        self._is_deleted = False
        uid = _UID.format(self._made)
        self.histories.make(uid)
        self.api.make_again(uid)
        for number in range(self.pods):
            self.start_pod(number)

    def lost(self, host: str) -> list[int]:
        """The partitions that a host's pod reports as lost."""
        process = self.processes.get(host)
        return [one.partition for one in process.pod.report().lost] if process else []

    def serves_all(self, host: str) -> bool | None:
        """Whether a host's pod has all replicas, none lost or behind; None: nobody can tell yet."""
        pod = self.processes[host].pod if host in self.processes else None
        registry = pod.registry if pod is not None and pod.has_opened else None
        if pod is None or not (registry and registry.is_compared and registry.assignment):
            return None
        report, decided = pod.report(), registry.completion.decided
        if report.lost or not {one.state for one in report.replicas} <= {"serving", "opening"}:
            return False
        # An older copy may lack chunks of a decided batch alone: that shows when it is applied.
        return None if any(one.sequence < decided for one in report.replicas) else True

    @property
    def standbys(self) -> int:
        """The number of standbys that the resource asks for."""
        return self.api.resource.spec.effective_standbys

    @property
    def assignment(self) -> tuple[PartitionConfiguration, ...]:
        """The published configurations; empty before there are any."""
        status = self.api.resource.status
        return (status.assignment if status else None) or ()

    def _replicas(self) -> list[tuple[Ordinal, ReplicaReport]]:
        """The replicas of all pods that run, with their pods."""
        return [
            (process.pod.ordinal, one)
            for process in self.processes.values()
            for one in process.pod.report().replicas
        ]

    @property
    def is_redundant(self) -> bool:
        """Whether every replica is in sync, as far as the status tells, and was compared."""
        found = self._replicas()
        held = {(pod, one.configuration.partition) for pod, one in found if one.is_compared}
        return bool(self.assignment) and all(
            set(one.in_sync) == set(one.replicas)
            and all((pod, one.partition) in held for pod in one.in_sync)
            for one in self.assignment
        )

    @property
    def is_known(self) -> bool:
        """Whether every replica holds the published configuration of its partition."""
        held = {(pod, one.configuration) for pod, one in self._replicas()}
        return all((pod, one) in held for one in self.assignment for pod in one.replicas)

    @property
    def copies(self) -> int:
        """In how many in-sync replicas each partition is, by the status."""
        return min((len(one.in_sync) for one in self.assignment), default=0)

    @property
    def is_placed(self) -> bool:
        """Whether nothing is left to move, and no pod has a replica that it should not have."""
        status = self.api.resource.status
        if status is None or status.moving != "0/0" or self.replicas != self.spec.replicas:
            return False
        if any(self._templates[self._nodes[host]] != self.template for host in self.processes):
            return False
        return all(one.configuration.role_of(pod) is not None for pod, one in self._replicas())

    @property
    def spec(self) -> StoreSpec:
        """The present spec of the resource."""
        return self.api.resource.spec

    def is_migrated(self) -> bool:
        """Whether all rows have the format of the resource."""
        wanted = self.api.resource.spec.store.format
        return all(
            one.migration is None and one.format == (wanted or one.format)
            for _, one in self._replicas()
        )

    def epochs(self, host: str) -> list[int]:
        """The epochs of the replicas of a host's pod."""
        process = self.processes.get(host)
        replicas = process.pod.registry.replicas if process else {}
        return [replica.log.configuration.epoch for replica in replicas.values()]

    def pause(self, host: str) -> None:
        """Stops the process of a host, as SIGSTOP does."""
        if host in self._nodes:
            self.trace.note("pause", self._nodes[host])
            self.loop.pause(self._nodes[host])

    def resume(self, host: str) -> None:
        """Lets the process of a host go on."""
        if host in self._nodes:
            self.loop.resume(self._nodes[host])

    def heal(self) -> None:
        """Ends all faults, and starts what does not run."""
        self.network.faults.heal()
        self.api.faults.heal()
        self.loop.work_s.clear()
        self.loop.sync_s.clear()
        for number, disk in enumerate(self.disks):
            disk.heal()
            self.resume(f"pod-{number}")
            self.start_pod(number)
        self.resume("operator")
        self.start_operator()

    def volume(self, number: int, *, is_synced: bool) -> Volume:
        """A copy of a pod's volume: what was synced, or all of it."""
        disk, directory = self.disks[number], self._volume(number)
        files = {name: disk.synced_copy(name) for name in disk.databases()}
        self._copies += 1
        kept = self._directory / f"copy-{self._copies}"
        if directory.exists():
            shutil.copytree(directory, kept)
        return Volume(kept, files if is_synced else disk.files())

    def put_volume(self, number: int, volume: Volume | None) -> None:
        """Puts another volume in the place of a pod's; None is an empty one."""
        directory = self._volume(number)
        shutil.rmtree(directory, ignore_errors=True)
        if volume is not None and volume.directory.exists():
            shutil.copytree(volume.directory, directory)
        self.disks[number].replace(volume.files if volume is not None else {})

    def damage(self, number: int, partition: int) -> None:
        """Makes a hole in the write-ahead log of one database of a pod that does not run."""
        self.disks[number].damage(self._volume(number) / "partitions" / str(partition))

    def _volume(self, number: int) -> Path:
        return self._directory / f"{self._made}-{number}"

    def lose_power(self, number: int, *, holes: bool, all_of_it: bool = False) -> None:
        """Ends a pod's process, and loses what no sync covered: all, or an end of it."""
        self.end(f"pod-{number}")
        self.trace.note("power-loss", f"pod-{number}")
        self.disks[number].lose_power(holes=holes, all_of_it=all_of_it)

    def _begin(self, host: str) -> str:
        self._starts += 1
        node = f"{host}#{self._starts}"
        self._nodes[host] = node
        self.trace.note("start", node)
        return node

    def _supervise(self, node: str, work: Coroutine[Any, Any, object]) -> None:
        """Runs a process; one that ends with an error has a bug."""

        def ended(task: "asyncio.Task[object]") -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.failures.append(error)

        self.loop.start(node, work).add_done_callback(ended)

    def _unexpected(self, _: object, context: dict[str, Any]) -> None:
        """Takes an error that nobody waits for; a StoreError of a request given up is none."""
        error = context.get("exception")
        if error is not None and not isinstance(error, StoreError | asyncio.CancelledError):
            self.failures.append(error)
