"""Plans: the order of steps, forbidden steps, and the same end after an interruption."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import msgspec
import pytest

from qss_core.model import Ordinal, StoreId
from qss_operator.planning.assignment_state import (
    ASSIGNMENT_UNKNOWN,
    RETAINED_VOLUMES_FOUND,
    KnownAssignment,
    UnknownAssignment,
    assess,
)
from qss_operator.planning.missing_data import emptied_pods
from qss_operator.planning.model import PublishAssignment, SendAssignment, SetReplicas, StoreStatus
from qss_operator.planning.plan import plan
from qss_operator.planning.status import starting_status, stopped_status
from qss_testing.fakes.control_world import (
    NOW,
    UID,
    World,
    configuration,
    published,
    resource_of,
    say,
    spec_of,
)

OLDER = StoreId("another-store")


def new_store() -> World:
    return World(resource=resource_of())


def running_store() -> World:
    world = new_store()
    world.settle()
    return world


def restarted_pod() -> World:
    world = running_store()
    world.pods[1].restart()
    return world


def status_was_lost() -> World:
    world = running_store()
    world.resource = replace(world.resource, status=None)
    return world


def status_went_back() -> World:
    """The pods hold a newer configuration than the status, as after a restored backup."""
    world = running_store()
    pod = world.pods[0]
    pod.held = tuple(msgspec.structs.replace(entry, epoch=7) for entry in pod.held)
    return world


def changed_settings() -> World:
    world = running_store()
    spec = spec_of(changelog={"retention": "1h"})
    world.resource = replace(world.resource, spec=spec, generation=2)
    return world


def one_pod_is_silent() -> World:
    world = running_store()
    world.pods[2].is_reachable = False
    world.pods[0].restart()
    return world


WORLDS = [
    new_store,
    running_store,
    restarted_pod,
    status_was_lost,
    status_went_back,
    changed_settings,
    one_pod_is_silent,
]


def end_of(world: World) -> tuple[object, ...]:
    world.settle()
    disks = [(pod.store_id, pod.held) for pod in world.pods]
    return world.wanted, disks, world.resource.status


@pytest.mark.parametrize("make", WORLDS, ids=lambda make: make.__name__)
def test_a_plan_cut_after_any_step_and_made_again_ends_the_same(make: Callable[[], World]) -> None:
    expected = end_of(make())
    world = make()
    while steps := plan(world.observation()):
        for cut in range(len(steps) + 1):
            again = deepcopy(world)
            for step in steps[:cut]:
                again.apply(step)
            # A planner that continues has no memory.
            again.sent.clear()
            assert end_of(again) == expected
        for step in steps:
            world.apply(step)


def test_a_new_store_asks_for_pods_before_anything_else() -> None:
    assert plan(new_store().observation()) == [SetReplicas(replicas=3)]


def test_an_assignment_is_published_before_any_pod_is_told() -> None:
    world = new_store()
    world.scale(3)
    steps = plan(world.observation())
    assert isinstance(steps[0], PublishAssignment)
    assert [type(step) for step in steps[1:]] == [SendAssignment] * 3
    assert {entry.epoch for entry in steps[0].partitions} == {1}
    assert steps[0].store_id == UID


def test_a_settled_store_needs_nothing() -> None:
    assert plan(running_store().observation()) == []


def test_a_restarted_pod_alone_is_told_again() -> None:
    steps = plan(restarted_pod().observation())
    assert [step.ordinal for step in steps if isinstance(step, SendAssignment)] == [1]


def test_new_settings_are_sent_to_every_pod_without_a_new_epoch() -> None:
    world = changed_settings()
    steps = plan(world.observation())
    assert [type(step) for step in steps] == [SendAssignment] * 3


def test_a_silent_pod_is_not_told_and_holds_nobody_up() -> None:
    world = running_store()
    world.pods[2].is_reachable = False
    world.sent.clear()
    steps = plan(world.observation())
    assert [step.ordinal for step in steps if isinstance(step, SendAssignment)] == [0, 1]


@pytest.mark.parametrize("make", [status_was_lost, status_went_back])
def test_a_status_below_the_pods_waits_for_every_volume(make: Callable[[], World]) -> None:
    world = make()
    world.pods[2].is_reachable = False
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert found.reason == ASSIGNMENT_UNKNOWN
    assert "word-counts-2" in found.message
    assert plan(world.observation()) == []


def test_the_highest_configuration_that_a_pod_holds_is_adopted() -> None:
    world = status_went_back()
    held = {entry.partition: entry for pod in world.pods for entry in pod.held}
    world.settle()
    status = world.resource.status
    assert status is not None
    assert status.assignment == tuple(held[number] for number in sorted(held))
    assert {entry.epoch for entry in status.assignment} == {1, 7}


def test_a_lost_status_is_adopted_as_it_was() -> None:
    before = running_store().resource.status
    world = status_was_lost()
    world.settle()
    assert world.resource.status == before


def test_data_is_not_made_up_for_a_volume_that_is_missing() -> None:
    world = status_was_lost()
    world.pods[1].store_id, world.pods[1].held = None, ()
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert found.reason == ASSIGNMENT_UNKNOWN
    assert "no pod holds partition 1, 4" in found.message


def test_an_emptied_volume_is_not_told_to_serve_nothing_as_if_it_were_the_data() -> None:
    world = running_store()
    world.pods[1].store_id, world.pods[1].held = None, ()
    world.sent.clear()
    steps = plan(world.observation())
    assert [step.ordinal for step in steps if isinstance(step, SendAssignment)] == [0, 2]


def test_a_volume_that_was_never_written_is_filled_however_often_the_pods_were_stopped() -> None:
    world = new_store()
    world.scale(3)
    world.apply(plan(world.observation())[0])
    status = world.resource.status
    assert status is not None
    stopped = starting_status(stopped_status(status, NOW), NOW)
    world.resource = replace(world.resource, status=stopped)
    assert [type(step) for step in plan(world.observation())] == [SendAssignment] * 3


@pytest.mark.parametrize("make", [status_was_lost, status_went_back])
def test_a_pod_that_has_not_read_its_disk_yet_counts_as_silent(make: Callable[[], World]) -> None:
    world = make()
    for pod in world.pods:
        pod.is_opening = True
    if world.resource.status is None:
        assert isinstance(assess(world.observation()), UnknownAssignment)
    assert not any(isinstance(step, PublishAssignment) for step in plan(world.observation()))
    for pod in world.pods:
        pod.is_opening = False
    assert isinstance(plan(world.observation())[0], PublishAssignment)


def test_files_without_their_assignment_are_not_served_as_if_they_were_whole() -> None:
    world = running_store()
    world.pods[1].is_opening = True  # It has files, and reports no assignment yet.
    world.sent.clear()
    assert world.pods[1].has_data
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert emptied_pods(world.observation(), known) == [world.observation().cluster.pods[1]]
    steps = plan(world.observation())
    assert [step.ordinal for step in steps if isinstance(step, SendAssignment)] == [0, 2]


def test_volumes_that_cannot_be_looked_into_are_waited_for_before_a_first_assignment() -> None:
    world = World(resource=resource_of(), are_volumes_opaque=True)
    world.scale(3)
    world.pods[1].is_reachable = False
    assert plan(world.observation()) == []
    world.pods[1].is_reachable = True
    world.settle()
    assert world.status().assigned == "6/6"


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_empty_pod_of_learners_is_told_while_another_pod_is_silent(epoch: int) -> None:
    """Its partitions have one copy until then. One in sync of an older epoch may not know all."""
    spec = spec_of(partitions=1, replicas=3, standbys=2)
    world = World(resource=resource_of(spec), are_volumes_opaque=True)
    world.settle()
    before = published(world)
    entry = msgspec.structs.replace(before, in_sync=(before.active,), epoch=2)
    say(world, entry)
    for pod in world.pods:
        pod.held, pod.written = (entry,), {0}
    world.pods[entry.active].held = (msgspec.structs.replace(entry, epoch=epoch),)
    empty, silent = sorted({*entry.replicas} - {entry.active})
    world.pods[empty].store_id, world.pods[empty].held = None, ()
    world.pods[silent].is_reachable = False
    told = [step.ordinal for step in plan(world.observation()) if isinstance(step, SendAssignment)]
    assert (empty in told) == (epoch == 2)


def foreign_volumes(adopt: str | None = None) -> World:
    world = World(resource=resource_of(adopt_volumes=adopt))
    world.scale(3)
    for pod in world.pods:
        pod.store_id = OLDER
        pod.held = tuple(configuration(n, n % 3, epoch=4) for n in range(6) if n % 3 == pod.ordinal)
    return world


def test_volumes_of_another_store_are_left_alone() -> None:
    world = foreign_volumes()
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert found.reason == RETAINED_VOLUMES_FOUND
    assert f"queryablestate.dev/adopt-volumes={OLDER}" in found.message
    assert plan(world.observation()) == []


def test_volumes_of_another_store_are_taken_over_by_annotation() -> None:
    world = foreign_volumes(adopt=OLDER)
    world.settle()
    status = world.resource.status
    assert status is not None
    assert status.store_id == OLDER
    assert [entry.epoch for entry in status.assignment or ()] == [4] * 6


def test_volumes_with_more_partitions_than_the_resource_are_not_adopted() -> None:
    world = foreign_volumes(adopt=OLDER)
    world.resource = replace(world.resource, spec=spec_of(partitions=4))
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert found.reason == RETAINED_VOLUMES_FOUND
    assert "partition 5" in found.message


def test_one_foreign_volume_does_not_stop_the_other_pods() -> None:
    world = running_store()
    world.pods[1].store_id = OLDER
    world.sent = {}
    steps = plan(world.observation())
    assert [step.ordinal for step in steps if isinstance(step, SendAssignment)] == [0, 2]


def test_a_published_store_id_stays_whatever_the_annotation_says() -> None:
    world = running_store()
    world.resource = replace(world.resource, adopt_volumes="something-else")
    assert plan(world.observation()) == []


def test_replicas_of_the_general_case_are_placed_on_pods_of_their_own() -> None:
    world = World(resource=resource_of(spec_of(partitions=8, replicas=4, standbys=1)))
    world.settle()
    status = world.resource.status
    assert isinstance(status, StoreStatus)
    assert all(len(entry.replicas) == 2 for entry in status.assignment or ())
    assert plan(world.observation()) == []
    assert Ordinal(3) in {entry.active for entry in status.assignment or ()}
