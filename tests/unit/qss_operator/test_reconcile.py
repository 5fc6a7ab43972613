"""Rounds of one store over fake ports: their writes, their times, and failures."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from qss_core.errors import StaleEpochError, StoreTypeRefusedError, WrongStoreError
from qss_core.model import Ordinal, PodAddress, StoreAssignment, StoreName
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.errors import InvalidResourceError, StartFailedError
from qss_operator.planning.model import (
    ConditionType,
    Observation,
    PodState,
    StoreResource,
    StoreStatus,
)
from qss_operator.reconcile.reconciler import Intervals, StoreReconciler
from qss_testing.fakes.control_world import World, resource_of, spec_of
from qss_testing.fakes.simulated_pod import STORE


def reconciler_of(world: World, intervals: Intervals | None = None) -> StoreReconciler:
    return StoreReconciler(
        STORE, resources=world, cluster=world, pods=world, clock=world, intervals=intervals
    )


async def settle(reconciler: StoreReconciler, world: World) -> None:
    for _ in range(20):
        if await reconciler.run_round():
            return
        world.seconds += 1.0
    raise AssertionError("not settled")


def reasons(world: World) -> list[str]:
    found = []
    for status in world.published:
        ready = status.condition(ConditionType.READY)
        assert ready is not None
        found.append(ready.reason)
    return found


async def test_a_new_store_becomes_ready() -> None:
    world = World(resource=resource_of())
    await settle(reconciler_of(world), world)
    assert world.resource.status is not None
    assert world.resource.status.assigned == "6/6"
    assert reasons(world) == ["PodsStarting", "Serving"]


async def test_the_assignment_is_published_before_a_pod_holds_it() -> None:
    world = World(resource=resource_of())
    held_when_published: list[int] = []

    @dataclass(kw_only=True)
    class Watched(World):
        async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
            held_when_published.append(sum(len(pod.held) for pod in self.pods))
            await super().publish(resource, status)

    watched = Watched(resource=world.resource)
    await settle(reconciler_of(watched), watched)
    assert held_when_published[0] == 0


async def test_a_status_that_did_not_change_is_not_written() -> None:
    world = World(resource=resource_of())
    reconciler = reconciler_of(world)
    await settle(reconciler, world)
    written = len(world.published)
    for _ in range(5):
        world.seconds += 10.0
        assert await reconciler.run_round() is True
    assert len(world.published) == written


async def test_observations_are_written_once_a_second_and_the_last_one_is_not_lost() -> None:
    world = World(resource=resource_of())
    reconciler = reconciler_of(world)
    await settle(reconciler, world)
    written = len(world.published)
    world.seconds += 5.0
    for is_reachable in (False, True, False):
        world.pods[0].is_reachable = is_reachable
        await reconciler.run_round()
    assert len(world.published) == written + 1
    world.pods[1].is_reachable = False
    await reconciler.run_round()
    assert len(world.published) == written + 1
    world.seconds += 1.0
    await reconciler.run_round()
    assert world.published[-1].ready == "1/3"


async def test_an_assignment_is_written_at_once() -> None:
    world = World(resource=resource_of())
    world.scale(3)
    reconciler = reconciler_of(world, Intervals(publish_s=1000.0))
    await reconciler.run_round()
    assert world.published[-1].assignment is not None


async def test_a_pod_that_refuses_does_not_keep_the_others_from_being_told() -> None:
    @dataclass(kw_only=True)
    class Refusing(World):
        async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
            if pod.ordinal == 0:
                raise WrongStoreError("no")
            return await super().assign(pod, assignment)

    world = Refusing(resource=resource_of())
    reconciler = reconciler_of(world)
    for _ in range(3):
        await reconciler.run_round()
    assert [len(pod.held) for pod in world.pods] == [0, 2, 2]


async def test_a_refused_assignment_is_told_once_and_tried_again_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried_at_s: list[float] = []

    @dataclass(kw_only=True)
    class Refusing(World):
        async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
            if pod.ordinal == 1:
                tried_at_s.append(self.seconds)
                raise StaleEpochError("partition 0 holds epoch 1; 1 is old")
            return await super().assign(pod, assignment)

    world = Refusing(resource=resource_of())
    reconciler = reconciler_of(world)
    for _ in range(300):
        assert await reconciler.run_round() is False
        world.seconds += 0.5
    pauses = [after - before for before, after in pairwise(tried_at_s)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    said = "did not take its assignment: STALE_EPOCH: partition 0 holds epoch 1; 1 is old"
    status = world.published[-1]
    assert status.assigned == "4/6"
    for kind, value in ((ConditionType.READY, "False"), (ConditionType.DEGRADED, "True")):
        found = status.condition(kind)
        assert found is not None
        assert (found.status, found.reason) == (value, "AssignmentRefused")
        assert f"word-counts-1 {said}" in found.message
    assert len([one for one in caplog.messages if "STALE_EPOCH" in one]) == 1


async def test_a_store_type_that_a_pod_cannot_serve_has_a_reason_of_its_own() -> None:
    @dataclass(kw_only=True)
    class Refusing(World):
        async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
            if pod.ordinal == 1:
                raise StoreTypeRefusedError("no package in this pod has it")
            return await super().assign(pod, assignment)

    world = Refusing(resource=resource_of())
    reconciler = reconciler_of(world)
    for _ in range(10):
        assert await reconciler.run_round() is False
        world.seconds += 0.5
    for kind, value in ((ConditionType.READY, "False"), (ConditionType.DEGRADED, "True")):
        found = world.published[-1].condition(kind)
        assert found is not None
        assert (found.status, found.reason) == (value, "StoreTypeRefused")
        assert "word-counts-1 did not take its assignment: STORE_TYPE_REFUSED: no package" in (
            found.message
        )


async def test_a_pod_that_was_started_anew_is_told_at_once_and_the_trouble_is_over() -> None:
    @dataclass(kw_only=True)
    class Refusing(World):
        async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
            if self.pods[pod.ordinal].incarnation == 1:
                raise StaleEpochError("no")
            return await super().assign(pod, assignment)

    world = Refusing(resource=resource_of())
    reconciler = reconciler_of(world)
    for _ in range(5):
        await reconciler.run_round()
    for pod in world.pods:
        pod.restart()
    await reconciler.run_round()
    assert all(pod.held for pod in world.pods)
    await settle(reconciler, world)
    degraded = world.published[-1].condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert degraded.reason == "Healthy"


async def test_children_that_are_refused_are_tried_again_and_told_beside_the_pods() -> None:
    @dataclass(kw_only=True)
    class Refusing(World):
        is_refusing: bool = False
        tried: int = 0

        async def keep(self, observation: Observation) -> None:
            self.tried += 1
            if self.is_refusing:
                raise InvalidResourceError("a limit is below its request")

    world = Refusing(resource=resource_of())
    reconciler = reconciler_of(world)
    await settle(reconciler, world)
    world.is_refusing, world.tried = True, 0
    world.pods[1].is_running = world.pods[1].is_reachable = False
    world.pods[1].trouble = "ended with exit code 3"
    for _ in range(10):
        world.seconds += 1.0
        await reconciler.run_round()
    assert world.tried == 4
    degraded = world.published[-1].condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert degraded.reason == "PodsFailing"
    said = "word-counts-1 ended with exit code 3; a limit is below its request"
    assert degraded.message == said
    world.is_refusing = False
    world.resource = replace(world.resource, generation=2)
    await reconciler.run_round()
    assert world.tried == 5, "an edit is tried at once"


async def test_what_may_pass_by_itself_is_told_when_it_does_not() -> None:
    @dataclass(kw_only=True)
    class Unreachable(World):
        is_unreachable: bool = False

        async def keep(self, observation: Observation) -> None:
            if self.is_unreachable:
                raise StartFailedError("later")

    world = Unreachable(resource=resource_of())
    reconciler = reconciler_of(world)
    await settle(reconciler, world)
    world.is_unreachable = True
    found = []
    for _ in range(5):
        world.seconds += 1.0
        await reconciler.run_round()
        degraded = world.published[-1].condition(ConditionType.DEGRADED)
        assert degraded is not None
        found.append(degraded.reason)
    assert found == ["Healthy", "Healthy", "Healthy", "NotReady", "NotReady"]


async def test_why_a_pod_does_not_let_the_operator_in_is_told() -> None:
    @dataclass(kw_only=True)
    class Closed(World):
        async def report(self, pod: PodAddress) -> ReplicasReport | None:
            return None

        def refusal(self, pod: PodAddress) -> str | None:
            return "does not answer the operator: a certificate"

    world = Closed(resource=resource_of())
    reconciler = reconciler_of(world)
    for _ in range(4):
        world.seconds += 1.0
        await reconciler.run_round()
    ready = world.published[-1].condition(ConditionType.READY)
    assert ready is not None
    assert ready.reason == "PodsFailing"
    assert "word-counts-2 does not answer the operator: a certificate" in ready.message


async def test_another_pod_at_a_reused_address_is_not_believed() -> None:
    @dataclass(kw_only=True)
    class Swapped(World):
        async def report(self, pod: PodAddress) -> ReplicasReport | None:
            other = Ordinal((pod.ordinal + 1) % len(self.pods))
            return self.pods[other].report()

    world = Swapped(resource=resource_of())
    reconciler = reconciler_of(world)
    for _ in range(3):
        await reconciler.run_round()
    assert [pod.held for pod in world.pods] == [(), (), ()]


def in_sync(world: World) -> list[int]:
    """The number of in-sync replicas of each partition."""
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    return [len(entry.in_sync) for entry in status.assignment]


def actives(world: World) -> list[int]:
    """The pod of each partition's active."""
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    return [entry.active for entry in status.assignment]


@dataclass(kw_only=True)
class RefusingRestarts(World):
    """A cluster whose admission webhook denies restarts."""

    is_refusing: bool = True
    tried_at_s: list[float] = field(default_factory=list)

    async def restart(self, store: StoreName, pod: PodState) -> None:
        if self.is_refusing:
            self.tried_at_s.append(self.seconds)
            raise StartFailedError("admission webhook denied it")
        await super().restart(store, pod)


async def refusing_restarts() -> tuple[RefusingRestarts, StoreReconciler]:
    """A settled store of three pods with rows and one standby."""
    world = RefusingRestarts(resource=resource_of(spec_of(replicas=3, standbys=1)))
    reconciler = reconciler_of(world)
    await settle(reconciler, world)
    for pod in world.pods:
        pod.written = set(range(world.resource.spec.partitions))
    return world, reconciler


async def test_a_pod_whose_restart_is_refused_is_in_sync_again_until_the_next_try() -> None:
    world, reconciler = await refusing_restarts()
    world.template = 1
    short_s = 0.0
    for _ in range(1000):
        await reconciler.run_round()
        world.seconds += 0.2
        short_s += 0.2 if min(in_sync(world)) == 1 else 0.0
    pauses = [after - before for before, after in pairwise(world.tried_at_s)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 1.0
    assert 60.0 <= pauses[-1] < 63.0
    assert short_s < 20.0  # Of 200: a second or two for each try.
    degraded = world.published[-1].condition(ConditionType.DEGRADED)
    progressing = world.published[-1].condition(ConditionType.PROGRESSING)
    assert degraded is not None
    assert progressing is not None
    assert "admission webhook denied it" in degraded.message
    assert "was refused and is tried again" in progressing.message
    world.is_refusing = False
    for _ in range(200):
        await reconciler.run_round()
        world.seconds += 1.0
    assert {pod.template for pod in world.pods} == {1}
    assert set(in_sync(world)) == {2}


async def test_an_active_that_a_person_chose_does_not_come_back_between_two_tries() -> None:
    """It would be handed over again for each try of its pod's restart."""
    world, reconciler = await refusing_restarts()
    chosen = actives(world)
    pins = ",".join(f"{partition}={pod}" for partition, pod in enumerate(chosen))
    world.resource = replace(world.resource, actives=pins)
    world.template = 1
    handovers, before = 0, chosen
    for _ in range(1000):
        await reconciler.run_round()
        world.seconds += 0.2
        now = actives(world)
        handovers += sum(one != other for one, other in zip(before, now, strict=True))
        before = now
    assert handovers == chosen.count(2), "those of the first pod to restart, once"
    world.is_refusing = False
    for _ in range(200):
        await reconciler.run_round()
        world.seconds += 1.0
    assert {pod.template for pod in world.pods} == {1}
    assert actives(world) == chosen
