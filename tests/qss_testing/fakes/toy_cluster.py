"""A toy cluster: the toy API server, simulated controllers and kubelets, pods in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from prometheus_client import CollectorRegistry

from qss_client.clock import SystemClock
from qss_core.errors import UnreachableError
from qss_core.model import Ordinal, PodAddress, StoreAssignment, StoreName
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_operator.kubernetes.api.client import KubernetesApi, connect
from qss_operator.kubernetes.api.kinds import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    STORES,
    Kind,
)
from qss_operator.kubernetes.events.poster import Events
from qss_operator.kubernetes.leadership.health import Health, HealthLimits
from qss_operator.kubernetes.objects.nodes import Nodes
from qss_operator.kubernetes.objects.pod_template import PodDefaults
from qss_operator.kubernetes.rounds import Rounds
from qss_operator.kubernetes.store_loop import StoreContext, StoreLoop
from qss_operator.metrics import OperatorMetrics
from qss_testing.fakes.control_world import with_caught_up
from qss_testing.fakes.simulated_pod import STORE, SimulatedPod
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.fakes.toy_objects import Object, Place

NAMESPACE = "shop"
PODS_OF_STORE = [f"{STORE}-{number}" for number in range(3)]
SPEC: Object = {
    "store": {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}},
    "partitions": 6,
    "replicas": 3,
    "standbys": 0,
    "access": {"authentication": "None"},
    "storage": {"size": "1Gi"},
}


class TurnedClock(SystemClock):
    """A clock ahead of the machine's clock."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@dataclass(slots=True)
class ToyCluster:
    """One namespace with one store; the pods are SimulatedPods, whose disks outlive them."""

    server: ToyApiServer
    disks: dict[str, SimulatedPod] = field(default_factory=dict)
    lagging: set[int] = field(default_factory=set)  # Pods whose learners never catch up.
    is_leader: bool = True
    is_spread: bool = False  # Whether pod N runs on the node nodeN; else all run on node0.
    refused: str | None = None  # The API server's refusal of pods that a StatefulSet makes.
    clock: TurnedClock = field(default_factory=TurnedClock)
    store_loop: StoreLoop = field(init=False)
    shared: StoreContext = field(init=False)

    # --- The port Pods

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        running = [disk for disk in self.disks.values() if disk.is_running]
        reports = {disk.ordinal: disk.report() for disk in running}
        found = reports.get(pod.ordinal)
        level = {number: told for number, told in reports.items() if number not in self.lagging}
        return found and with_caught_up(found, level, (), ())

    def refusal(self, pod: PodAddress) -> str | None:
        return None

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        found = self.disks.get(pod.name)
        if found is None or not found.is_running:
            raise UnreachableError(f"{pod.name} is not there")
        found.take(assignment)
        return found.report()

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        self.disks[pod.name].retire(request)
        return self.disks[pod.name].report()

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        found = self.disks[pod.name]
        found.accept_loss(request.partition, request.epoch, request.assignment)
        return found.report()

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        """Takes them as a pod does, which only shows them."""

    # --- Objects

    def place(self, kind: Kind, name: str | None = None) -> Place:
        return Place(kind.group, NAMESPACE, kind.plural, name, None)

    def find(self, kind: Kind, name: str) -> Object | None:
        return self.server.objects.objects.get(self.place(kind, name).key)

    def get(self, kind: Kind, name: str) -> Object:
        return self.server.objects.get(self.place(kind, name))

    def names(self, kind: Kind) -> list[str]:
        page = self.server.objects.page(self.place(kind), {})
        return [one["metadata"]["name"] for one in page["items"]]

    def edit(self, kind: Kind, name: str, patch: Object) -> None:
        """Changes an object like another client; the watch reports it."""
        found = self.server.objects.patch(self.place(kind, name), patch)
        if "spec" in patch and kind in (STORES, STATEFUL_SETS):
            generation = found["metadata"].get("generation", 1) + 1
            found = self.server.objects.patch(
                self.place(kind, name), {"metadata": {"generation": generation}}
            )
        self.tell(kind, name)

    def delete(self, kind: Kind, name: str) -> None:
        self.server.objects.delete(self.place(kind, name), {})
        self.tell(kind, name)

    def tell(self, kind: Kind, name: str) -> None:
        """Reports an object like a watch."""
        found = self.find(kind, name)
        version = found["metadata"]["resourceVersion"] if found is not None else None
        self.store_loop.changed(kind, name, version)

    def make_store(self, **spec: Any) -> None:
        self.server.objects.create(
            self.place(STORES),
            {"metadata": {"name": STORE, "generation": 1}, "spec": {**SPEC, **spec}},
        )
        self.tell(STORES, STORE)

    def condition(self, kind: str) -> Object:
        status = self.get(STORES, STORE)["status"]
        return next(one for one in status["conditions"] if one["type"] == kind)

    # --- Controllers and kubelets

    def control(self) -> None:
        """Does the controllers' work once: makes the pods of the StatefulSet."""
        found = self.find(STATEFUL_SETS, STORE)
        replicas = found["spec"]["replicas"] if found is not None else 0
        if found is not None:
            self._observe_generation(found)
        for number in range(replicas):
            assert found is not None
            self._make_claim(found, f"data-{STORE}-{number}")
            if self.find(PODS, f"{STORE}-{number}") is None and self.refused is None:
                self._make_pod(found, number)
            elif self.find(PODS, f"{STORE}-{number}") is None:
                self._tell_refusal(found, f"{STORE}-{number}")
            else:
                self._adopt(found, f"{STORE}-{number}")
        for name in self.names(PODS):
            if int(name.rpartition("-")[2]) >= replicas:
                self.disks[name].is_running = False
                self.delete(PODS, name)

    def _tell_refusal(self, found: Object, pod: str) -> None:
        message = (
            f'create Pod {pod} in StatefulSet {STORE} failed error: pods "{pod}" is {self.refused}'
        )
        event = {
            "metadata": {"name": f"{pod}.refused"},
            "involvedObject": {"uid": found["metadata"]["uid"]},
            "reason": "FailedCreate",
            "message": message,
        }
        if self.find(EVENTS, f"{pod}.refused") is None:
            self.server.objects.create(self.place(EVENTS), event)

    def _observe_generation(self, found: Object) -> None:
        generation = found["metadata"].get("generation", 1)
        status = {"observedGeneration": generation}
        patch = {"metadata": {"generation": generation}, "status": status}
        self.server.objects.patch(self.place(STATEFUL_SETS, STORE), patch)
        self.tell(STATEFUL_SETS, STORE)

    def _adopt(self, found: Object, name: str) -> None:
        """Lets a set that was made again take over the pods of the old set."""
        owners = controlled_by(found)
        if self.get(PODS, name)["metadata"].get("ownerReferences") != owners:
            self.edit(PODS, name, {"metadata": {"ownerReferences": owners}})

    def _make_claim(self, found: Object, name: str) -> None:
        if self.find(PERSISTENT_VOLUME_CLAIMS, name) is not None:
            return
        template = found["spec"]["volumeClaimTemplates"][0]
        size = template["spec"]["resources"]["requests"]
        self.server.objects.create(
            self.place(PERSISTENT_VOLUME_CLAIMS),
            {
                "metadata": {"name": name, "labels": template["metadata"]["labels"]},
                "spec": template["spec"],
                "status": {"phase": "Bound", "capacity": size},
            },
        )
        self.tell(PERSISTENT_VOLUME_CLAIMS, name)

    def _make_pod(self, found: Object, number: int) -> None:
        name = f"{STORE}-{number}"
        template = found["spec"]["template"]
        disk = self.disks.setdefault(name, SimulatedPod(ordinal=Ordinal(number)))
        disk.restart()
        disk.is_running = True
        self.server.objects.create(
            self.place(PODS),
            {
                "metadata": {
                    **template["metadata"],
                    "name": name,
                    "ownerReferences": controlled_by(found),
                },
                "spec": {**template["spec"], "nodeName": f"node{number if self.is_spread else 0}"},
                "status": {
                    "phase": "Running",
                    "podIP": "10.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{"ready": True, "state": {"running": {}}}],
                },
            },
        )
        self.tell(PODS, name)

    # --- Rounds

    async def settle(self, rounds_max: int = 40) -> str:
        """Runs rounds and controllers until three rounds in a row need nothing."""
        quiet = 0
        for _ in range(rounds_max):
            asked = len(self.server.asked)
            result, _ = await self.store_loop.run_round()
            self.control()
            self.forget_publish_pace()
            quiet = quiet + 1 if len(self.server.asked) == asked else 0
            if quiet == 3 or result == "gone":
                return result
        raise AssertionError(f"not settled after {rounds_max} rounds: {result}")

    def pass_pauses(self) -> None:
        """Lets refused actions be due again."""
        self.clock.ahead_s += 60.0

    def forget_publish_pace(self) -> None:
        """Lets a second pass, after which the next status and moves may be published."""
        reconciler = self.store_loop.reconciler
        if reconciler is not None:
            reconciler.published_at_s = reconciler.moved_at_s = None


@asynccontextmanager
async def toy_cluster(tmp_path: Any) -> AsyncIterator[ToyCluster]:
    """A cluster with an operator's loop of one store, which `make_store` makes."""
    async with ToyApiServer() as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
        async with connect(str(kubeconfig)) as api:
            cluster = ToyCluster(server)
            cluster.shared = store_context_of(cluster, api)
            cluster.store_loop = StoreLoop(NAMESPACE, StoreName(STORE), cluster.shared)
            yield cluster


def controlled_by(stateful_set: Object) -> list[Object]:
    uid = stateful_set["metadata"]["uid"]
    return [{"kind": "StatefulSet", "name": STORE, "uid": uid, "controller": True}]


def store_context_of(cluster: ToyCluster, api: KubernetesApi) -> StoreContext:
    clock, numbers = cluster.clock, count()
    health = Health(HealthLimits(), clock=clock)
    return StoreContext(
        api=api,
        pods_of=lambda _: cluster,
        events=Events(api, reporter="test", clock=clock, token=lambda: f"event{next(numbers)}"),
        health=health,
        metrics=OperatorMetrics(CollectorRegistry()),
        clock=clock,
        defaults=PodDefaults(image="store:1", operator_service_account="qss-system/operator"),
        may_act=lambda: cluster.is_leader,
        nodes=Nodes(api, may_read=True, clock=clock),
        rounds=Rounds(1, health),
    )
