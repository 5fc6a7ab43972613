"""The rules by which a pod may be evicted."""

import pytest
from msgspec.structs import replace

from qss_core.model import Ordinal, PartitionConfiguration
from qss_operator.planning.findings.evictions import may_evict
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    Observation,
    StoreStatus,
)
from qss_testing.fakes.control_world import World, resource_of, spec_of
from qss_testing.pods.stores import configuration

SOLE = configuration(0, 0)
PAIR = replace(SOLE, replicas=(Ordinal(0), Ordinal(1)), in_sync=(Ordinal(0), Ordinal(1)))
ALONE = replace(PAIR, in_sync=(Ordinal(0),))


def status_with(*assignment: PartitionConfiguration, assigned: str = "1/1") -> StoreStatus:
    ready = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE,
        reason="Serving",
        message="",
        last_transition_time="2026-11-26T00:00:00Z",
        observed_generation=1,
    )
    return StoreStatus(conditions=(ready,), assigned=assigned, assignment=assignment)


def seen(status: StoreStatus, **spec: int) -> Observation:
    return World(resource=resource_of(spec_of(**spec), status)).observation()


@pytest.mark.parametrize(
    ("status", "may"),
    [
        (status_with(PAIR), True),
        (status_with(SOLE), True),
        (status_with(ALONE), False),
        (status_with(PAIR, ALONE), False),
        (status_with(PAIR, assigned="0/1"), False),
        (StoreStatus(), False),
    ],
)
def test_the_last_replica_in_sync_is_not_evicted_while_a_standby_is_missing(
    status: StoreStatus, may: bool
) -> None:
    assert may_evict(seen(status, standbys=1)) is may


@pytest.mark.parametrize(("assigned", "may"), [("1/1", True), ("0/1", False)])
def test_a_move_without_standbys_forbids_no_eviction(assigned: str, may: bool) -> None:
    assert may_evict(seen(status_with(ALONE, assigned=assigned))) is may


def test_standbys_without_room_forbid_no_eviction() -> None:
    assert may_evict(seen(status_with(ALONE), standbys=1, replicas=1))


# --- Partitions that wait for a person


def running(standbys: int) -> World:
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3, standbys=standbys)))
    world.settle()
    for pod in world.pods:
        pod.written = {0, 1, 2}
    return world


def after_rounds(world: World) -> World:
    """The world once nothing changes any more; its status says how it is."""
    world.settle(30)
    assert world.resource.status is not None
    return world


def lose_partition(world: World, number: int) -> None:
    """All replicas of a partition are lost, one after the other."""
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    for pod in reversed(status.assignment[number].in_sync):
        world.pods[pod].lost = {number: "the checksum is wrong"}


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_a_partition_of_which_all_is_lost_holds_up_no_eviction(standbys: int) -> None:
    world = running(standbys)
    lose_partition(world, 1)
    after_rounds(world)
    assert world.status().assigned == "2/3"
    assert world.status().condition(ConditionType.READY).reason == "NoInSyncReplica"  # type: ignore[union-attr]
    assert may_evict(world.observation())


def test_a_partition_that_went_back_holds_up_no_eviction() -> None:
    world = running(0)
    world.pods[1].behind = {1: 57}
    assert may_evict(after_rounds(world).observation())


def test_a_lost_volume_holds_up_no_eviction_where_nobody_has_its_partitions() -> None:
    world = running(0)
    world.pods[1].store_id, world.pods[1].held = None, ()
    assert may_evict(after_rounds(world).observation())


def test_what_may_come_back_holds_up_evictions_beside_what_is_lost() -> None:
    world = running(1)
    lose_partition(world, 1)
    after_rounds(world)
    assert may_evict(world.observation())
    away = world.pods[0]
    away.is_reachable = False
    assert not may_evict(world.observation()), "the pod may have the data"
    away.is_reachable = True
    away.state = "opening"
    assert not may_evict(world.observation()), "its partitions are not served"


def test_a_partition_that_its_pod_will_open_holds_up_evictions() -> None:
    world = running(0)
    world.pods[1].lost, world.pods[1].waiting = {1: "no room"}, {1}
    assert not may_evict(after_rounds(world).observation())


def test_a_partition_that_is_short_of_standbys_holds_up_evictions_beside_a_lost_one() -> None:
    world = running(1)
    lose_partition(world, 1)
    after_rounds(world)
    world.lagging = {0, 1, 2}
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    other = status.assignment[2]
    standby = next(pod for pod in other.in_sync if pod != other.active)
    lost = world.pods[standby].lost
    world.pods[standby].lost = {**lost, 2: "the checksum is wrong"}
    after_rounds(world)
    world.pods[standby].lost = lost
    after_rounds(world)
    assert [len(entry.in_sync) for entry in world.status().assignment or ()] == [2, 1, 1]
    assert world.status().assigned == "2/3"
    assert not may_evict(world.observation())
