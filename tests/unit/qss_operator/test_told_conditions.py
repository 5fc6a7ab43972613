"""Pods are told the published conditions: once for each change, and nothing waits for them."""

from qss_core.errors import PathNotFoundError, UnreachableError
from qss_core.model import Ordinal
from qss_core.wire.conditions import TellConditionsRequest
from qss_operator.reconcile import StoreReconciler
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
    assert [pod for pod, _ in world.told] == [PODS[0]] * 4
    world.deaf.clear()
    await rounds(world, reconciler, 60)
    assert len(world.told) == 5


async def test_a_round_waits_for_one_pod_that_does_not_answer() -> None:
    away = UnreachableError("away")
    world = World(resource=resource_of(), deaf={PODS[0]: away, PODS[1]: away})
    reconciler = await settled(world)
    assert last_of(world, PODS[2])
    world.told.clear()
    world.seconds += 30.0
    for pod in PODS[:2]:
        await reconciler.run_round()
        assert [told for told, _ in world.told] == [pod]
        world.told.clear()
    await reconciler.run_round()
    assert world.told == []


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
