"""Restarts of pods beside one that does not end, or serves and does not come back in sync."""

import pytest

from qss_core.model import Ordinal
from qss_operator.planning.findings.deleted_volumes import deleted_volumes_message
from qss_operator.planning.membership.restarts import next_restart
from qss_operator.planning.model import ConditionType
from qss_testing.fakes.control_world import World, assignment_of, outdated, restarted_next

_ROUNDS = 100


def progressing(world: World) -> tuple[str, str]:
    found = world.status().condition(ConditionType.PROGRESSING)
    assert found is not None
    return found.reason, found.message


def stick(world: World, pod: int, silent_s: float = 200.0) -> None:
    """The pod's node has lost its power: the pod is being ended, and never ends."""
    world.stuck = {pod}
    world.pods[pod].is_running = world.pods[pod].is_reachable = False
    world.silent_s = {Ordinal(pod): silent_s}


def test_a_pod_that_does_not_end_does_not_hold_up_pods_whose_data_others_have() -> None:
    world = outdated(replicas=4, standbys=2, partitions=8)
    stick(world, 3)
    found: list[int] = []
    for _ in range(_ROUNDS):
        found += restarted_next(world)
        for entry in assignment_of(world):
            assert len(set(entry.in_sync) - {3}) >= 1
            assert entry.active in entry.in_sync
    assert sorted(found) == [0, 1, 2]
    assert all(entry.active != 3 for entry in assignment_of(world))
    assert progressing(world) == (
        "RollingUpdate",
        "3 of 4 pods have the new template; word-counts-3 should have stopped long ago, and is not "
        "waited for",
    )


def test_a_deleted_volume_of_the_pod_that_does_not_end_holds_up_no_roll_either() -> None:
    world = outdated(replicas=4, standbys=2, partitions=8)
    stick(world, 3)
    world.pods[3].deleted_volume = "data-word-counts-3"
    assert sorted(restarts_all_but(world, 3)) == [0, 1, 2]
    assert all(entry.active != 3 for entry in assignment_of(world))
    told = "word-counts-3 should have stopped long ago, and is not waited for"
    assert told in progressing(world)[1]


def test_a_deleted_volume_of_a_pod_that_does_not_end_is_told_as_such() -> None:
    world = outdated(replicas=4, standbys=2, partitions=8)
    world.stuck = {3}
    for pod in (1, 3):
        world.pods[pod].deleted_volume = f"data-word-counts-{pod}"
    seen = world.observation()
    said = deleted_volumes_message(seen, assignment_of(world))
    assert said == (
        "data-word-counts-1 is deleted, and the data goes when word-counts-1 stops: the other "
        "replicas take over, the operator restarts word-counts-1 with a new volume, and copies the "
        "data to it; data-word-counts-3 is deleted, and word-counts-3, which should have stopped "
        "long ago, gets a new volume when it has gone"
    )


@pytest.mark.parametrize("standbys", [0, 1])
def test_beside_a_pod_that_does_not_end_no_pod_with_an_only_copy_restarts(standbys: int) -> None:
    world = outdated(replicas=3, standbys=standbys, partitions=6)
    stick(world, 2)
    for _ in range(20):
        assert restarted_next(world) == []
    seen = world.observation()
    finding = next_restart(seen, {one.partition: one for one in assignment_of(world)}).finding
    assert finding is not None
    assert finding[2] == (
        "0 of 3 pods have the new template; word-counts-2 should have stopped long ago, and is not "
        "waited for; the others wait until each partition has another replica in sync"
    )


@pytest.mark.parametrize("state", ["promised", "uncompared"])
def test_a_pod_that_does_not_end_and_answers_still_has_no_copy_that_counts(state: str) -> None:
    """Its other replica cannot act at once, so that the stuck pod keeps its active for now."""
    world = outdated(replicas=3, standbys=1, partitions=3)
    world.stuck = {1}
    if state == "promised":
        world.promised = {2}
    else:
        world.uncompared = {2}
    for _ in range(_ROUNDS):
        restarted_next(world)
        assert all(entry.in_sync != (1,) for entry in assignment_of(world))
    assert world.pods[2].template == 0
    world.promised, world.uncompared = set(), set()
    for _ in range(10):
        restarted_next(world)
    assert all(1 not in entry.in_sync for entry in assignment_of(world)), "it holds up nothing"


def test_the_learners_of_a_pod_that_does_not_end_and_answers_take_no_epochs() -> None:
    """Nobody told its process to stop: its learners catch up, and count again in each epoch."""
    world = outdated(replicas=3, standbys=1, partitions=3)
    world.stuck = {1}
    for _ in range(_ROUNDS):
        restarted_next(world)
    settled = assignment_of(world)
    assert any(1 in entry.replicas for entry in settled)
    assert all(1 not in entry.in_sync for entry in settled)
    for _ in range(_ROUNDS):
        restarted_next(world)
    assert assignment_of(world) == settled


def test_the_roll_goes_on_once_the_copies_of_a_lost_pod_are_made_elsewhere() -> None:
    world = outdated(replicas=3, standbys=1, partitions=6)
    stick(world, 2, silent_s=601.0)
    found: list[int] = []
    for _ in range(_ROUNDS):
        found += restarted_next(world)
    assert sorted(found) == [0, 1]
    assert all(set(entry.in_sync) == {0, 1} for entry in assignment_of(world))


def test_beside_a_pod_that_does_not_end_every_other_pod_has_to_serve() -> None:
    world = outdated(replicas=4, standbys=2, partitions=8)
    stick(world, 3)
    while not (first := restarted_next(world)):
        pass
    world.pods[first[0]].state = "opening"
    for _ in range(10):
        assert restarted_next(world) == []
    world.pods[first[0]].state = "serving"
    assert restarts_all_but(world, 3)


def restarts_all_but(world: World, stuck: int) -> list[int]:
    found: list[int] = []
    for _ in range(_ROUNDS):
        found += restarted_next(world)
    assert all(pod.template == 1 for pod in world.pods if pod.ordinal != stuck)
    return found


@pytest.mark.parametrize("standbys", [1, 2])
def test_a_roll_stops_at_a_pod_that_serves_and_does_not_come_back_in_sync(standbys: int) -> None:
    world = outdated(replicas=4, standbys=standbys, partitions=8)
    while not (first := restarted_next(world)):
        pass
    (late,) = first
    world.lagging = {late}
    for _ in range(20):
        assert restarted_next(world) == []
    missing = [str(one.partition) for one in assignment_of(world) if late in one.replicas]
    assert all(late not in entry.in_sync for entry in assignment_of(world))
    reason, message = progressing(world)
    assert reason == "RollingUpdate"
    assert message == (
        "1 of 4 pods have the new template; rule RestartedPodsInSync: waiting until "
        f"word-counts-{late} is in sync again with partitions {', '.join(missing)}"
    )
    # All others hold what they held.
    assert all(len(entry.in_sync) >= standbys for entry in assignment_of(world))
    world.lagging = set()
    assert len(restarts_all_but(world, stuck=-1)) == 3


def test_a_roll_goes_on_without_a_restarted_pod_that_is_lost_for_good() -> None:
    world = outdated(replicas=5, standbys=2, partitions=10)
    while not (first := restarted_next(world)):
        pass
    (late,) = first
    stick(world, late)
    assert len(restarts_all_but(world, stuck=late)) == 4


def test_a_pod_that_is_not_in_sync_restarts_before_the_others() -> None:
    """The new template may mend it; the others then have all their replicas in sync."""
    world = outdated(replicas=4, standbys=2, partitions=8)
    world.template = 0
    world.lagging = {1}
    world.pods[1].lost = dict.fromkeys(range(8), "damaged")
    for _ in range(10):
        restarted_next(world)
    world.pods[1].lost = {}
    world.template = 1
    found: list[int] = []
    while not found:
        found = restarted_next(world)
    assert found == [1]
    world.lagging = set()
    assert len(restarts_all_but(world, stuck=-1)) == 3
