"""A store's environment in memory: the resource, its pods and their disks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, assert_never

import msgspec

from qss_core.errors import StoreError, UnreachableError
from qss_core.model import (
    Epoch,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodAddress,
    Role,
    StoreAssignment,
    StoreName,
)
from qss_core.spec.resource import StoreSpec, decode_spec
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.replica_reports import (
    ReplicasReport,
)
from qss_core.wire.retirement import RetireRequest
from qss_core.wire.versions import VERSION_1
from qss_operator.errors import ConflictError
from qss_operator.planning.model import (
    AcceptLoss,
    ClusterState,
    Endpoints,
    Observation,
    PodEndpoints,
    PodState,
    PublishAssignment,
    RestartPod,
    RetireReplica,
    SendAssignment,
    SentAssignment,
    SetReplicas,
    Step,
    StoreResource,
    StoreStatus,
)
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_testing.fakes.simulated_pod import STORE, SimulatedPod

UID = "0b5e-uid"
_P0 = PartitionId(0)
NOW = "2026-11-21T12:00:00Z"


def spec_of(partitions: int = 6, replicas: int = 3, **members: Any) -> StoreSpec:
    rows = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}}
    counts = {"partitions": partitions, "replicas": replicas, "standbys": 0}
    return decode_spec({"store": rows, **counts, **members})


def resource_of(
    spec: StoreSpec | None = None,
    status: StoreStatus | None = None,
    adopt_volumes: str | None = None,
) -> StoreResource:
    return StoreResource(
        name=STORE,
        uid=UID,
        generation=1,
        version="1",
        spec=spec or spec_of(),
        adopt_volumes=adopt_volumes,
        status=status,
    )


def configuration(
    partition: int, active: int, epoch: int = 1, others: tuple[int, ...] = ()
) -> PartitionConfiguration:
    pods = tuple(map(Ordinal, (active, *others)))
    return PartitionConfiguration(
        partition=PartitionId(partition),
        epoch=Epoch(epoch),
        active=pods[0],
        in_sync=pods,
        replicas=pods,
    )


def with_caught_up(
    report: ReplicasReport,
    reports: Mapping[Ordinal, ReplicasReport],
    uncompared: Collection[int],
    promised: Collection[int],
) -> ReplicasReport:
    """The report, where each active says that the learners which follow it have caught up."""

    def level_with(held: PartitionConfiguration) -> tuple[Ordinal, ...]:
        return tuple(
            pod
            for pod, other in reports.items()
            for one in other.replicas
            if one.configuration == held and held.role_of(pod) is Role.LEARNER
        )

    replicas = tuple(
        msgspec.structs.replace(
            one,
            caught_up=level_with(one.configuration) if one.role is Role.ACTIVE else (),
            is_compared=report.ordinal not in uncompared,
            waits_for_lease=report.ordinal in promised,
        )
        for one in report.replicas
    )
    return msgspec.structs.replace(report, replicas=replicas)


@dataclass(kw_only=True)
class World:
    """All objects. It also implements the ports Resources, Cluster, Pods and Clock."""

    resource: StoreResource
    pods: list[SimulatedPod] = field(default_factory=list)
    wanted: int = 0
    sent: dict[Ordinal, SentAssignment] = field(default_factory=dict)
    seconds: float = 0.0
    kept: int = 0
    are_volumes_opaque: bool = False
    template: int = 0  # The pods' template; another one outdates running pods.
    uncompared: set[int] = field(default_factory=set)  # Pods that no other replica has compared.
    promised: set[int] = field(default_factory=set)  # Pods that would wait for an older lease.
    lagging: set[int] = field(default_factory=set)  # Pods whose learners do not catch up.
    leaving: set[int] = field(
        default_factory=set
    )  # Pods that Kubernetes ends; their learners do not begin to count.
    stuck: set[int] = field(default_factory=set)  # Pods whose nodes have no power.
    older: set[int] = field(default_factory=set)  # Pods of the version without standbys.
    silent_s: dict[Ordinal, float] = field(default_factory=dict)  # Seconds without an answer.
    published: list[StoreStatus] = field(default_factory=list)
    told: list[tuple[Ordinal, TellConditionsRequest]] = field(default_factory=list)
    deaf: dict[Ordinal, StoreError] = field(default_factory=dict)  # To conditions.

    # --- As values.

    def observation(self) -> Observation:
        reports = {
            pod.ordinal: pod.report() for pod in self.pods if pod.is_running and pod.is_reachable
        }
        stays = self.lagging | self.older | self.leaving
        level = {pod: report for pod, report in reports.items() if pod not in stays}
        reports = {
            pod: msgspec.structs.replace(report, message_version=VERSION_1)
            if pod in self.older
            else with_caught_up(report, level, self.uncompared, self.promised)
            for pod, report in reports.items()
        }
        return Observation(
            resource=self.resource,
            cluster=self.cluster(),
            reports=reports,
            sent=dict(self.sent),
            silent_s=dict(self.silent_s),
        )

    def cluster(self) -> ClusterState:
        states = tuple(
            PodState(
                address=pod.address,
                is_running=pod.is_running,
                has_data=None if self.are_volumes_opaque else pod.has_data,
                node=pod.node,
                zone=pod.zone,
                version=pod.version,
                is_cordoned=pod.is_cordoned,
                trouble=pod.trouble,
                if_silent=pod.if_silent,
                uid=pod.uid,
                is_outdated=pod.template != self.template,
                is_leaving=pod.ordinal in self.leaving | self.stuck,
                is_stuck=pod.ordinal in self.stuck,
                deleted_volume=pod.deleted_volume,
            )
            for pod in self.pods
        )
        pods = tuple(
            PodEndpoints(query=pod.address.query, changelog=pod.address.changelog)
            for pod in self.pods
        )
        return ClusterState(
            replicas=self.wanted,
            pods=states,
            endpoints=Endpoints(query=pods[0].query, pods=pods) if pods else Endpoints(),
        )

    def apply(self, step: Step) -> None:
        """Performs a step like the reconciler."""
        match step:
            case SetReplicas():
                self.scale(step.replicas)
            case PublishAssignment():
                status = status_of(self.observation(), NOW)
                assert (status.store_id, status.assignment) == (step.store_id, step.partitions)
                self.resource = replace(self.resource, status=status)
            case SendAssignment():
                pod = self.pods[step.ordinal]
                pod.take(step.assignment)
                self.sent[step.ordinal] = SentAssignment(
                    incarnation=str(pod.incarnation), assignment=step.assignment
                )
            case RestartPod():
                self.restarted(step.pod)
            case AcceptLoss():
                self.pods[step.ordinal].accept_loss(step.partition, step.epoch, step.assignment)
            case RetireReplica():
                self.pods[step.ordinal].retire(
                    RetireRequest(
                        store_id=step.store_id, partition=step.partition, epoch=step.epoch
                    )
                )
            case _:
                assert_never(step)

    def settle(self, rounds_max: int = 10) -> None:
        """Plans and applies until no step is left."""
        for _ in range(rounds_max):
            steps = plan(self.observation())
            if not steps:
                status = status_of(self.observation(), NOW)
                self.resource = replace(self.resource, status=status)
                return
            for step in steps:
                self.apply(step)
        raise AssertionError(f"not settled after {rounds_max} rounds")

    def scale(self, replicas: int) -> None:
        self.wanted = replicas
        self.pods = self.pods[:replicas]
        known = len(self.pods)
        self.pods += [
            SimulatedPod(ordinal=Ordinal(n), template=self.template) for n in range(known, replicas)
        ]

    def restarted(self, pod: PodState) -> None:
        """A pod ends and starts, with the present template."""
        simulated = self.pods[pod.ordinal]
        if simulated.uid == pod.uid:
            simulated.restart()
            simulated.template = self.template

    def status(self) -> StoreStatus:
        return status_of(self.observation(), NOW)

    # --- As ports.

    async def read(self, store: StoreName) -> StoreResource | None:
        return self.resource if store == self.resource.name else None

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        if resource.version != self.resource.version:
            raise ConflictError("changed")
        version = str(int(self.resource.version) + 1)
        self.resource = replace(self.resource, status=status, version=version)
        self.published.append(status)

    async def observe(self, store: StoreName) -> ClusterState:
        return self.cluster()

    async def look_at_nodes(self, cluster: ClusterState) -> ClusterState:
        """The pods as they are: this world never has an older look at them."""
        return self.cluster()

    async def keep(self, observation: Observation) -> None:
        self.kept += 1

    async def set_replicas(self, store: StoreName, replicas: int) -> None:
        self.scale(replicas)

    async def restart(self, store: StoreName, pod: PodState) -> None:
        self.restarted(pod)

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        return self.observation().reports.get(pod.ordinal)

    def refusal(self, pod: PodAddress) -> str | None:
        return None

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        simulated = self.pods[pod.ordinal]
        if not (simulated.is_running and simulated.is_reachable):
            raise UnreachableError(f"{pod.name} does not answer")
        simulated.take(assignment)
        return simulated.report()

    async def retire(self, pod: PodAddress, request: RetireRequest) -> ReplicasReport:
        self.pods[pod.ordinal].retire(request)
        return self.pods[pod.ordinal].report()

    async def accept_loss(self, pod: PodAddress, request: AcceptLossRequest) -> ReplicasReport:
        simulated = self.pods[pod.ordinal]
        simulated.accept_loss(request.partition, request.epoch, request.assignment)
        return simulated.report()

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        self.told.append((pod.ordinal, request))
        if pod.ordinal in self.deaf:
            raise self.deaf[pod.ordinal]

    def wall_ms(self) -> int:
        return int(datetime.fromisoformat(NOW).timestamp() * 1000)

    def cpu_s(self) -> float:
        return self.seconds

    def monotonic_s(self) -> float:
        return self.seconds


def running(**spec: Any) -> World:
    """A store that has settled, without rows."""
    world = World(resource=resource_of(spec_of(**spec)))
    world.settle()
    return world


def written_store() -> World:
    """A store that has settled, and whose replicas have rows."""
    world = running()
    for pod in world.pods:
        pod.written = {entry.partition for entry in pod.held}
    return world


def outdated(**spec: Any) -> World:
    """A store that has settled, and whose template then changed."""
    world = running(**spec)
    for pod in world.pods:
        pod.written = set(range(world.resource.spec.partitions))
    world.template = 1
    return world


def assignment_of(world: World) -> tuple[PartitionConfiguration, ...]:
    """The published configurations of a store that has some."""
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    return status.assignment


def published(world: World, partition: PartitionId = _P0) -> PartitionConfiguration:
    """The published configuration of one partition."""
    return next(one for one in assignment_of(world) if one.partition == partition)


def restarted_next(world: World) -> list[int]:
    """Runs one round; returns the ordinals of pods that it restarts."""
    steps = plan(world.observation())
    for step in steps:
        world.apply(step)
    return [step.pod.ordinal for step in steps if isinstance(step, RestartPod)]


def say(world: World, entry: PartitionConfiguration) -> World:
    """Writes a configuration into the status, as a person can with kubectl."""
    status = world.resource.status
    assert status is not None
    assignment = tuple(
        entry if one.partition == entry.partition else one for one in status.assignment or ()
    )
    edited = msgspec.structs.replace(status, assignment=assignment)
    world.resource = replace(world.resource, status=edited)
    return world
