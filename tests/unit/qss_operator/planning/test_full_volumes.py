"""A full volume is reported while all partitions are served, and gets no new replicas."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import FullVolume
from qss_operator.planning.membership.moves import full_pods
from qss_operator.planning.model import ConditionType
from qss_operator.planning.plan import plan
from qss_operator.planning.status import attention, status_of
from qss_testing.fakes.control_world import NOW, World, resource_of, spec_of

MIB = 1024 * 1024


def world_with(free: int, size: int) -> World:
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3)))
    world.settle()
    world.pods[1].full_volume = FullVolume(
        free_bytes=free, kept_back_bytes=64 * MIB, size_bytes=size
    )
    return world


def test_a_full_volume_is_told_with_its_numbers_and_the_store_serves() -> None:
    world = world_with(12 * MIB + MIB // 2, 200 * MIB)
    status = world.status()
    degraded, ready = (
        status.condition(ConditionType.DEGRADED),
        status.condition(ConditionType.READY),
    )
    assert degraded is not None
    assert ready is not None
    assert (degraded.status, degraded.reason) == ("True", "VolumeFull")
    assert degraded.message == (
        "the volume of word-counts-1 has 12.5 MiB free of 200 MiB, and 64 MiB are kept back: reads "
        "are answered, and every batch waits (DISK_FULL). To go on, free space, or make it larger "
        "(spec.storage.size)"
    )
    assert ready.status == "True"
    assert attention(status) == degraded, "a table that shows Ready alone says it too"
    world.pods[1].full_volume = None
    assert world.status().condition(ConditionType.DEGRADED).reason == "Healthy"  # type: ignore[union-attr]
    assert attention(world.status()) is None


def test_of_a_volume_that_is_too_small_no_room_can_be_made() -> None:
    observation = world_with(40 * MIB, 40 * MIB).observation()
    local = replace(observation.cluster, local_option="")
    degraded = status_of(replace(observation, cluster=local), NOW).condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert "has 40 MiB free of 40 MiB, and 64 MiB are kept back" in degraded.message
    assert degraded.message.endswith("To go on, give the state directory a larger volume")


def test_a_volume_that_a_batch_has_no_room_on_is_told_and_gets_new_replicas() -> None:
    """It takes smaller batches, and copies."""
    world = world_with(100 * MIB, 200 * MIB)
    world.pods[1].full_volume = FullVolume(
        free_bytes=100 * MIB, kept_back_bytes=64 * MIB, size_bytes=200 * MIB, needed_bytes=90 * MIB
    )
    degraded = world.status().condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert (degraded.status, degraded.reason) == ("True", "VolumeFull")
    assert degraded.message == (
        "the volume of word-counts-1 has 100 MiB free of 200 MiB, and 64 MiB are kept back; a "
        "batch needs 90 MiB: reads are answered, and larger batches wait (DISK_FULL). To go on, "
        "free space, or make it larger (spec.storage.size)"
    )
    assert full_pods(world.observation()) == frozenset()


def test_a_volume_that_a_copy_has_no_room_on_is_told_and_gets_no_new_replicas() -> None:
    """Another copy would wait there, too; batches go on."""
    world = world_with(100 * MIB, 200 * MIB)
    world.pods[1].full_volume = FullVolume(
        free_bytes=100 * MIB, kept_back_bytes=64 * MIB, size_bytes=200 * MIB, copy_bytes=190 * MIB
    )
    degraded = world.status().condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert degraded.message == (
        "the volume of word-counts-1 has 100 MiB free of 200 MiB, and 64 MiB are kept back; a "
        "copy needs 190 MiB: reads are answered, and copies wait. To go on, make it larger "
        "(spec.storage.size)"
    )
    assert full_pods(world.observation()) == {1}


# --- New replicas


FULL = FullVolume(free_bytes=12 * MIB, kept_back_bytes=64 * MIB, size_bytes=200 * MIB)


def rebalancing(world: World) -> tuple[str, str, str]:
    found = world.status().condition(ConditionType.REBALANCING)
    assert found is not None
    return found.status.value, found.reason, found.message


def ask_for(world: World, full: set[int], **spec: int) -> None:
    world.resource = replace(world.resource, spec=spec_of(**spec))
    world.scale(spec["replicas"])
    for pod in world.pods:
        pod.full_volume = FULL if pod.ordinal in full else None


def running(**spec: int) -> World:
    world = World(resource=resource_of(spec_of(**spec)))
    world.settle()
    return world


def replicas_on(world: World, pod: int) -> int:
    status = world.resource.status
    assert status is not None
    return sum(pod in entry.replicas for entry in status.assignment or ())


def test_a_pod_with_a_full_volume_gets_no_replica_until_it_has_room() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    ask_for(world, {3}, replicas=4, standbys=1, partitions=6)
    world.settle(50)
    assert replicas_on(world, 3) == 0
    assert (world.status().moving, world.status().in_sync) == ("0/0", "12/12")
    assert rebalancing(world) == (
        "False",
        "VolumeFull",
        "word-counts-3 gets no replica while its volume is full: it waits for room, see Degraded",
    )
    world.pods[3].full_volume = None
    world.settle(50)
    assert replicas_on(world, 3) == 3
    assert rebalancing(world)[1] == "NothingToMove"


def test_missing_standbys_go_to_pods_with_room_and_what_is_on_a_full_volume_stays() -> None:
    world = running(replicas=3, standbys=0, partitions=6)
    ask_for(world, {1}, replicas=3, standbys=1, partitions=6)
    world.settle(50)
    assert world.status().in_sync == "12/12"
    assert [replicas_on(world, pod) for pod in range(3)] == [5, 2, 5]


def test_a_partition_gets_its_standby_on_a_full_volume_where_no_other_pod_can_take_it() -> None:
    world = running(replicas=2, standbys=0, partitions=2)
    ask_for(world, {1}, replicas=2, standbys=1, partitions=2)
    world.lagging = {0, 1}
    world.settle(50)
    assert rebalancing(world)[2] == (
        "word-counts-1 gets a replica of partition 0 although its volume is full: no other pod can "
        "take it, or the copy had begun"
    )
    world.lagging = set()
    world.settle(50)
    assert world.status().in_sync == "4/4"


def test_a_cordoned_pod_with_room_comes_before_a_full_one() -> None:
    world = running(replicas=3, standbys=0, partitions=6)
    world.pods[0].is_cordoned = world.pods[2].is_cordoned = True
    ask_for(world, {1}, replicas=3, standbys=1, partitions=6)
    world.settle(50)
    assert [replicas_on(world, pod) for pod in range(3)] == [5, 2, 5]


def test_a_cordoned_pod_comes_before_a_full_one_also_where_a_third_has_all_partitions() -> None:
    """That one is open, and cannot take a second replica of what it has."""
    world = running(replicas=1, standbys=0, partitions=6)
    ask_for(world, {1}, replicas=3, standbys=1, partitions=6)
    world.pods[2].is_cordoned = True
    world.settle(50)
    assert [replicas_on(world, pod) for pod in range(3)] == [6, 0, 6]


def copying(**spec: Any) -> tuple[World, int]:
    """A store of one partition with rows, whose new standby is being copied; and that pod."""
    world = running(replicas=3, standbys=0, partitions=1)
    world.pods[0].written = {0}
    world.lagging = {0, 1, 2}
    world.resource = replace(
        world.resource, spec=spec_of(replicas=3, standbys=1, partitions=1, **spec)
    )
    world.settle(50)
    entry = configuration_of(world)
    (learner,) = {*entry.replicas} - {*entry.in_sync}
    return world, learner


def configuration_of(world: World) -> PartitionConfiguration:
    (entry,) = world.status().assignment or ()
    return entry


@pytest.mark.parametrize("paused", [False, True])
def test_a_copy_whose_volume_fills_goes_to_another_pod_with_room(paused: bool) -> None:
    world, learner = copying(rebalance={"paused": paused})
    world.pods[learner].full_volume = FULL
    (other,) = {1, 2} - {learner}
    told = f"the volume of word-counts-{learner} has no room for the copy of partition 0"
    assert paused or told in rebalancing(world)[2]
    world.settle(50)
    assert other in configuration_of(world).replicas
    world.resource = replace(world.resource, spec=spec_of(replicas=3, standbys=1, partitions=1))
    world.lagging = set()
    world.settle(50)
    assert {*configuration_of(world).in_sync} == {*configuration_of(world).replicas} == {0, other}
    assert world.pods[learner].held == ()
    assert world.status().moving == "0/0"


def test_a_copy_stays_on_a_full_volume_while_no_other_pod_has_room() -> None:
    world, learner = copying()
    for pod in world.pods[1:]:
        pod.full_volume = FULL
    assert plan(world.observation()) == []
    assert learner in configuration_of(world).replicas


def test_a_standby_that_fell_behind_on_a_full_volume_keeps_its_rows_there() -> None:
    world, learner = copying()
    world.pods[learner].written = {0}
    world.pods[learner].full_volume = FULL
    assert plan(world.observation()) == []
    assert learner in configuration_of(world).replicas


# --- Refused copies


def refusing(*refused: int) -> FullVolume:
    """The report of a volume that batches and some copies have room on."""
    return FullVolume(
        free_bytes=100 * MIB,
        kept_back_bytes=64 * MIB,
        size_bytes=200 * MIB,
        copy_bytes=190 * MIB,
        refused_copies=tuple(PartitionId(one) for one in refused),
    )


def copying_two() -> tuple[World, int, int]:
    """A store with two learners on pod 1, which has no entries of them; and the two partitions."""
    world = running(replicas=3, standbys=0, partitions=6)
    for pod in world.pods:
        pod.written = {entry.partition for entry in pod.held}
    world.lagging = {1}
    world.resource = replace(world.resource, spec=spec_of(replicas=3, standbys=1, partitions=6))
    world.settle(50)
    first, second = (
        entry.partition
        for entry in world.status().assignment or ()
        if 1 in entry.replicas and 1 not in entry.in_sync
    )
    return world, first, second


def replicas_of(world: World, partition: int) -> set[Ordinal]:
    (found,) = [
        entry.replicas for entry in world.status().assignment or () if entry.partition == partition
    ]
    return {*found}


@pytest.mark.parametrize("version", ["names refused copies", "before"])
def test_a_refused_copy_alone_goes_to_another_pod_beside_a_copy_that_runs(version: str) -> None:
    """Both went, and the copy that was nearly done began anew elsewhere."""
    world, runs, refused = copying_two()
    world.pods[1].full_volume = refusing(*([refused] if version != "before" else []))
    world.pods[1].copying = {runs}
    world.settle(50)
    assert 1 in replicas_of(world, runs)
    assert 1 not in replicas_of(world, refused)
    world.lagging, world.pods[1].copying = set(), set()
    world.settle(50)
    assert 1 in replicas_of(world, runs)
    assert 1 not in replicas_of(world, refused)
    assert (world.status().moving, world.status().in_sync) == ("0/0", "12/12")


def test_a_learner_whose_copy_was_not_refused_stays_also_before_it_is_copied() -> None:
    world, waits, refused = copying_two()
    world.pods[1].full_volume = refusing(refused)
    world.settle(50)
    assert 1 in replicas_of(world, waits)
    assert 1 not in replicas_of(world, refused)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_refused_copy_over_an_old_database_goes_to_another_pod(
    is_damaged: bool, is_full: bool
) -> None:
    """The learner waited for ever: it seemed to wait only for the entries since."""
    world, learner = copying()
    pod = world.pods[learner]
    pod.written, pod.damaged = {0}, {0} if is_damaged else set()
    volume = refusing(0)
    pod.full_volume = msgspec.structs.replace(volume, free_bytes=MIB) if is_full else volume
    (other,) = {1, 2} - {learner}
    world.settle(50)
    assert {*configuration_of(world).replicas} == {0, other}
    world.lagging = set()
    world.settle(50)
    assert {*configuration_of(world).in_sync} == {0, other}
    assert pod.held == ()


def test_full_volumes_alone_move_nothing() -> None:
    for full in ({0}, {0, 1}, {0, 1, 2}):
        world = running(replicas=3, standbys=1, partitions=6)
        ask_for(world, full, replicas=3, standbys=1, partitions=6)
        assert plan(world.observation()) == []
        assert rebalancing(world)[1] == "NothingToMove"
