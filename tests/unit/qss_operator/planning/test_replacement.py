"""A pod that does not come back: other pods get copies of what it had."""

from dataclasses import replace as changed
from typing import Any

import pytest

from qss_core.model import Ordinal
from qss_operator.planning.model import ConditionType
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, assignment_of, resource_of, spec_of

_ROUNDS = 200
_LONG_S = 600.0


def without(*silent: int, **spec: Any) -> World:
    """A store that has settled, whose pods `silent` answer no more for ten minutes."""
    world = World(resource=resource_of(spec_of(**{"standbys": 1, **spec})))
    world.settle(_ROUNDS)
    for held in world.pods:
        held.written = set(range(world.resource.spec.partitions))
    for pod in silent:
        world.pods[pod].is_reachable = False
        world.silent_s[Ordinal(pod)] = _LONG_S
    return world


def holders(world: World) -> set[int]:
    return {pod for one in assignment_of(world) for pod in one.replicas}


def run(world: World) -> None:
    for _ in range(_ROUNDS):
        for step in plan(world.observation()):
            world.apply(step)


def is_redundant(world: World) -> bool:
    return all(len(one.in_sync) == len(one.replicas) == 2 for one in assignment_of(world))


def test_other_pods_get_copies_of_what_a_lost_pod_had() -> None:
    world = without(1)
    assert 1 in holders(world)
    run(world)
    assert holders(world) == {0, 2}
    assert is_redundant(world)


def test_a_pod_that_answers_again_gets_its_share_again() -> None:
    world = without(1)
    run(world)
    world.pods[1].is_reachable = True
    world.silent_s.clear()
    run(world)
    assert holders(world) == {0, 1, 2}
    assert is_redundant(world)
    loads = [sum(pod in one.replicas for one in assignment_of(world)) for pod in range(3)]
    assert max(loads) - min(loads) <= 1


def test_other_pods_get_copies_also_of_partitions_whose_actives_were_wanted_there() -> None:
    """Their only other replica would stay the last one for as long as the pod is lost."""
    world = without(1)
    wanted = ",".join(f"{one.partition}=1" for one in assignment_of(world) if 1 in one.replicas)
    world.resource = changed(world.resource, actives=wanted)
    run(world)
    assert holders(world) == {0, 2}
    assert is_redundant(world)
    world.pods[1].is_reachable = True
    world.silent_s.clear()
    run(world)
    led = [str(one.partition) for one in assignment_of(world) if one.active == 1]
    assert {text.partition("=")[0] for text in wanted.split(",")} <= set(led)
    assert is_redundant(world)


def test_a_wish_for_a_lost_pod_without_a_replica_of_the_partition_waits() -> None:
    world = without(1)
    run(world)
    world.resource = changed(world.resource, actives="0=1")
    assert plan(world.observation()) == []
    rebalancing = world.status().condition(ConditionType.REBALANCING)
    assert rebalancing is not None
    assert "0=1 of queryablestate.dev/actives waits for that pod" in rebalancing.message
    world.pods[1].is_reachable = True
    world.silent_s.clear()
    run(world)
    assert assignment_of(world)[0].active == 1


@pytest.mark.parametrize("answers_after", range(12))
def test_a_pod_that_answers_in_the_middle_ends_the_same(answers_after: int) -> None:
    world = without(1, replicas=4, partitions=8)
    for _ in range(answers_after):
        for step in plan(world.observation()):
            world.apply(step)
    world.pods[1].is_reachable = True
    world.silent_s.clear()
    run(world)
    assert is_redundant(world)
    loads = [sum(pod in one.replicas for one in assignment_of(world)) for pod in range(4)]
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize(
    ("silent", "spec"),
    [
        ((1,), {"rebalance": {"replaceAfter": "11m"}}),
        ((1,), {"rebalance": {"paused": True}}),
        # Half of the pods: the operator may be cut off itself.
        ((1,), {"replicas": 2}),
        ((1, 3), {"replicas": 4}),
        # The others are not enough.
        ((1,), {"replicas": 3, "standbys": 2}),
        ((1,), {"standbys": 0}),
    ],
)
def test_nothing_is_copied(silent: tuple[int, ...], spec: dict[str, Any]) -> None:
    world = without(*silent, **spec)
    before = [set(one.replicas) for one in assignment_of(world)]
    run(world)
    assert [set(one.replicas) for one in assignment_of(world)] == before


def test_pods_that_were_just_silent_are_waited_for() -> None:
    """One is lost, and another is silent for a moment: a part of the pods would get too much."""
    world = without(1, replicas=5, partitions=10)
    world.pods[2].is_reachable = False
    world.silent_s[Ordinal(2)] = 5.0
    before = [set(one.replicas) for one in assignment_of(world)]
    run(world)
    assert [set(one.replicas) for one in assignment_of(world)] == before
