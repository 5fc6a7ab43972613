"""Without a status the volumes count, also of partitions that a pod cannot open."""

from dataclasses import replace

import pytest

from qss_core.model import PartitionId
from qss_operator.planning.assignment_state import ASSIGNMENT_UNKNOWN, NO_IN_SYNC_REPLICA
from qss_operator.planning.model import ConditionType
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import (
    World,
    configuration,
    published,
    resource_of,
    spec_of,
    written_store,
)

P0 = PartitionId(0)


def without_status(*waiting: int, is_older: bool = False) -> World:
    """A made store whose resource was made again; these pods' volumes have no room."""
    world = written_store()
    world.resource = replace(world.resource, status=None)
    for ordinal in waiting:
        pod = world.pods[ordinal]
        pod.lost = {entry.partition: "the volume is full: 3 MiB are free" for entry in pod.held}
        pod.waiting, pod.is_older = {*pod.lost}, is_older
    return world


@pytest.mark.parametrize("waiting", [(1,), (0, 1, 2)])
def test_a_partition_that_waits_for_room_is_not_said_to_be_gone_and_not_made_anew(
    waiting: tuple[int, ...],
) -> None:
    world = without_status(*waiting, is_older=True)
    assert [pod.report().ready for pod in world.pods] == [True] * 3
    assert plan(world.observation()) == []
    for kind in (ConditionType.READY, ConditionType.DEGRADED):
        condition = world.status().condition(kind)
        assert condition is not None
        assert condition.reason == ASSIGNMENT_UNKNOWN
        name = f"word-counts-{waiting[0]}"
        assert f"{name} has partition {waiting[0]} and cannot open it: the volume" in (
            condition.message
        )
        assert "delete" not in condition.message
    for pod in world.pods:
        pod.lost, pod.waiting = {}, set()
    world.settle()
    assert world.status().assigned == "6/6"


def test_a_replica_that_cannot_be_opened_may_hold_a_newer_configuration_than_another_one() -> None:
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2, standbys=1)))
    world.settle()
    older, newer = published(world), configuration(0, 0, epoch=2)
    world.resource = replace(world.resource, status=None)
    world.pods[0].held, world.pods[1].held = (newer,), (older,)
    for pod in world.pods:
        pod.written = {0}
    world.pods[0].lost, world.pods[0].is_older = {0: "its files are damaged"}, True
    assert plan(world.observation()) == []
    ready = world.status().condition(ConditionType.READY)
    assert ready is not None
    assert "its files are damaged" in ready.message
    world.pods[0].is_older = False
    world.settle()
    assert published(world) == newer
    assert world.pods[1].held == (older,), "its data is not given up"


@pytest.mark.parametrize("waiting", [(1,), (0, 1, 2)])
def test_a_partition_that_waits_for_room_keeps_the_configuration_that_its_pod_tells(
    waiting: tuple[int, ...],
) -> None:
    before = written_store().resource.status
    world = without_status(*waiting)
    world.settle()
    status = world.resource.status
    assert status is not None
    assert before is not None
    assert status.assignment == before.assignment
    for pod in world.pods:
        pod.lost, pod.waiting = {}, set()
    world.settle()
    assert world.status().assigned == "6/6"


def with_standbys(*, lost_on: int) -> World:
    """A store without a status; a pod lost its replica of partition 0, whose active is pod 0."""
    world = World(resource=resource_of(spec_of(partitions=3, replicas=2, standbys=1)))
    world.settle()
    entry = published(world)
    assert (entry.active, {*entry.in_sync}) == (0, {0, 1})
    for pod in world.pods:
        pod.written = {0, 1, 2}
    world.pods[lost_on].lost = {0: "its files are damaged"}
    world.resource = replace(world.resource, status=None)
    return world


def reasons(world: World) -> dict[ConditionType, str]:
    return {one.type: one.reason for one in world.status().conditions or ()}


@pytest.mark.parametrize("lost_on", [0, 1])
def test_without_a_status_a_store_goes_on_without_a_standby_that_cannot_be_opened(
    lost_on: int,
) -> None:
    """The lost replica leaves the in-sync ones, or another one takes over, as with a status."""
    world = with_standbys(lost_on=lost_on)
    world.settle(30)
    entry = published(world)
    assert entry.active == 1 - lost_on
    assert entry.in_sync == (1 - lost_on,)
    assert {*entry.replicas} == {0, 1}
    assert reasons(world)[ConditionType.DEGRADED] == "FewerStandbys"
    assert reasons(world)[ConditionType.READY] == "Serving"


def test_without_a_status_a_lost_sole_replica_is_lost_and_its_loss_can_be_accepted() -> None:
    world = without_status()
    (entry,) = world.pods[0].held[:1]
    world.pods[0].lost = {entry.partition: "its files are damaged"}
    world.settle()
    assert published(world, entry.partition) == entry
    assert reasons(world)[ConditionType.READY] == NO_IN_SYNC_REPLICA
    accepted = f"{entry.partition}@{entry.epoch}"
    world.resource = replace(world.resource, accept_data_loss=accepted)
    world.settle()
    assert published(world, entry.partition).epoch == entry.epoch + 1
    assert world.pods[0].lost == {}
