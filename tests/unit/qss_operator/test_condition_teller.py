"""Pods are told the published conditions: for each change and each minute; nothing waits for it."""

import asyncio
from dataclasses import dataclass, replace

import msgspec
import pytest

from qss_core.errors import PathNotFoundError, UnreachableError
from qss_core.model import Ordinal, PodAddress
from qss_core.wire.conditions import TellConditionsRequest
from qss_operator.planning.model import Observation
from qss_operator.reconcile.reconciler import StoreReconciler
from qss_testing.fakes.control_world import World, resource_of
from qss_testing.fakes.simulated_pod import STORE

PODS = [Ordinal(number) for number in range(3)]


async def rounds(world: World, reconciler: StoreReconciler, number: int = 20) -> None:
    for _ in range(number):
        await reconciler.run_round()
        world.seconds += 1.0


async def settled(world: World) -> StoreReconciler:
    reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
    await rounds(world, reconciler)
    return reconciler


def last_of(world: World, pod: Ordinal) -> TellConditionsRequest:
    return [message for told, message in world.told if told == pod][-1]


def members(told: TellConditionsRequest) -> list[tuple[str, str, str, str, str]]:
    return [
        (one.type, one.status, one.reason, one.message, one.last_transition_time)
        for one in told.conditions
    ]


def as_published(world: World) -> list[tuple[str, str, str, str, str]]:
    assert world.resource.status is not None
    assert world.resource.status.conditions
    return [
        (one.type.value, one.status.value, one.reason, one.message, one.last_transition_time)
        for one in world.resource.status.conditions
    ]


async def test_each_pod_is_told_what_is_published_and_each_change_once() -> None:
    world = World(resource=resource_of())
    reconciler = await settled(world)
    for pod in PODS:
        told = last_of(world, pod)
        assert told.store_id == world.resource.store_id
        assert members(told) == as_published(world)
        assert "Ready" in {one.type for one in told.conditions}
    before = len(world.told)
    await rounds(world, reconciler, 5)
    assert len(world.told) == before
    world.pods[2].is_reachable = False
    await rounds(world, reconciler, 3)
    changed = world.told[before:]
    assert {pod for pod, _ in changed} == {*PODS[:2]}
    assert len(changed) == len(set(map(repr, changed)))


async def test_a_pod_that_began_anew_is_told_anew() -> None:
    world = World(resource=resource_of())
    reconciler = await settled(world)
    world.told.clear()
    world.pods[1].restart()
    await rounds(world, reconciler)
    assert members(last_of(world, PODS[1])) == as_published(world)


async def test_a_pod_that_does_not_take_them_hinders_nothing_and_is_told_twice_a_minute() -> None:
    world = World(resource=resource_of(), deaf={PODS[0]: UnreachableError("away")})
    reconciler = await settled(world)
    assert last_of(world, PODS[1]) == last_of(world, PODS[2])
    assert reconciler.failures == []
    world.told.clear()
    for _ in range(120):
        world.seconds += 1.0
        assert await reconciler.run_round(), "settled"
    assert [pod for pod, _ in world.told].count(PODS[0]) == 4
    world.deaf.clear()
    await rounds(world, reconciler, 60)
    assert [pod for pod, _ in world.told].count(PODS[0]) == 5


async def test_what_a_paused_operator_told_later_lasts_for_a_minute() -> None:
    world = World(resource=resource_of())
    reconciler = await settled(world)
    late = TellConditionsRequest(store_id=world.resource.store_id, conditions=())
    world.told.extend((pod, late) for pod in PODS)
    await rounds(world, reconciler, 60)
    for pod in PODS:
        assert members(last_of(world, pod)) == as_published(world)
    before = len(world.told)
    await rounds(world, reconciler, 30)
    assert len(world.told) == before


@dataclass
class SlowWorld(World):
    """Pods that answer when all others have been told, too."""

    waiting: int = 0
    at_once: int = 0

    async def tell_conditions(self, pod: PodAddress, request: TellConditionsRequest) -> None:
        self.waiting += 1
        await asyncio.sleep(0)
        self.at_once = max(self.at_once, self.waiting)
        self.waiting -= 1
        await super().tell_conditions(pod, request)


async def test_a_round_waits_for_all_pods_together_and_not_for_one_after_the_other() -> None:
    away = UnreachableError("away")
    world = SlowWorld(resource=resource_of(), deaf={PODS[0]: away})
    await settled(world)
    assert world.at_once == len(PODS)
    assert last_of(world, PODS[1]) == last_of(world, PODS[2])


@dataclass
class BrokenWorld(World):
    """A world in which rounds meet an error once `is_broken`."""

    is_broken: bool = False

    async def keep(self, observation: Observation) -> None:
        await super().keep(observation)
        if self.is_broken:
            raise RuntimeError("a bug")


async def test_conditions_are_told_also_when_rounds_fail() -> None:
    world = BrokenWorld(resource=resource_of())
    reconciler = await settled(world)
    assert world.resource.status is not None
    told = world.resource.status.conditions or ()
    changed = tuple(
        msgspec.structs.replace(one, message="the operator met an error") for one in told
    )
    status = msgspec.structs.replace(world.resource.status, conditions=changed)
    world.resource = replace(world.resource, status=status)
    world.is_broken = True
    with pytest.raises(RuntimeError, match="a bug"):
        await reconciler.run_round()
    assert members(last_of(world, PODS[1])) == as_published(world)


async def test_a_pod_of_a_version_without_the_message_is_told_once_in_its_life() -> None:
    world = World(resource=resource_of(), deaf={PODS[0]: PathNotFoundError("no such path")})
    reconciler = await settled(world)
    assert [pod for pod, _ in world.told].count(PODS[0]) == 1
    world.pods[1].is_reachable = False
    await rounds(world, reconciler, 120)
    assert [pod for pod, _ in world.told].count(PODS[0]) == 1
    world.pods[0].restart()
    await rounds(world, reconciler)
    assert [pod for pod, _ in world.told].count(PODS[0]) == 2


async def test_a_pod_without_the_assignment_of_the_store_is_not_told() -> None:
    world = World(resource=resource_of())
    world.scale(3)
    reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
    await reconciler.run_round()
    assert world.resource.status is not None
    assert world.resource.status.conditions
    assert world.told == []
