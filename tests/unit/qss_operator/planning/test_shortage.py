"""Partitions count as short of replicas by what the pods report."""

from dataclasses import replace as changed

import pytest

from qss_operator.planning.findings.shortage import Shortage, shortage_of
from qss_testing.fakes.control_world import World, resource_of, spec_of


def running(standbys: int = 1) -> World:
    """A store of three partitions on three pods, which serves."""
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3, standbys=standbys)))
    world.settle(40)
    return world


def shortage(world: World) -> Shortage:
    return shortage_of(world.observation())


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_a_store_that_serves_lacks_nothing(standbys: int) -> None:
    assert shortage(running(standbys)) == Shortage()


def test_partitions_of_a_silent_pod_are_short_and_those_without_another_copy_have_none() -> None:
    world = running()
    world.pods[0].is_running = False
    assert shortage(world) == Shortage(under_replicated=2, without_in_sync=0)
    world.pods[1].is_running = False
    assert shortage(world) == Shortage(under_replicated=3, without_in_sync=1)
    alone = running(standbys=0)
    alone.pods[0].is_running = False
    assert shortage(alone) == Shortage(under_replicated=1, without_in_sync=1)


def test_a_replica_that_failed_is_no_copy_and_one_that_opens_is() -> None:
    world = running()
    world.pods[0].state = "opening"
    assert shortage(world) == Shortage()
    world.pods[0].state = "failed"
    assert shortage(world) == Shortage(under_replicated=2, without_in_sync=0)


def test_a_damaged_replica_is_no_copy() -> None:
    world = running(standbys=0)
    number = world.pods[0].held[0].partition
    world.pods[0].damaged = {number}
    assert shortage(world) == Shortage(under_replicated=1, without_in_sync=1)


def test_a_store_that_hibernates_lacks_nothing() -> None:
    world = running()
    for pod in world.pods:
        pod.is_running = False
    assert shortage(world).without_in_sync == 3
    spec = spec_of(partitions=3, replicas=0, standbys=1)
    world.resource = changed(world.resource, spec=spec)
    assert shortage(world) == Shortage()
