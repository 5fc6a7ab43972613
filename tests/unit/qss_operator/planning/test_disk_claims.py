"""If status and disks differ, the disks count, and no partition is made empty."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.assignment_state import (
    ASSIGNMENT_UNKNOWN,
    NO_IN_SYNC_REPLICA,
    KnownAssignment,
    UnknownAssignment,
    assess,
)
from qss_operator.planning.disk_claims import Claim, told_of_unclear
from qss_operator.planning.model import (
    ConditionStatus,
    ConditionType,
    PublishAssignment,
    SendAssignment,
)
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import (
    World,
    configuration,
    published,
    resource_of,
    say,
    spec_of,
    written_store,
)

P0 = PartitionId(0)


def hold(world: World, ordinal: int, entry: PartitionConfiguration, *, is_written: bool) -> None:
    """Adds a replica to a pod's volume."""
    pod = world.pods[ordinal]
    others = [one for one in pod.held if one.partition != entry.partition]
    pod.held = tuple(sorted([entry, *others], key=lambda one: one.partition))
    pod.written = (pod.written - {entry.partition}) | ({entry.partition} if is_written else set())


def told(world: World) -> list[int]:
    return [step.ordinal for step in plan(world.observation()) if isinstance(step, SendAssignment)]


def holders(world: World, partition: PartitionId = P0) -> list[int]:
    return [
        pod.ordinal for pod in world.pods if partition in {entry.partition for entry in pod.held}
    ]


def first_partition(world: World) -> list[list[PartitionConfiguration]]:
    """The configuration of partition 0 on each pod."""
    return [[entry for entry in pod.held if entry.partition == P0] for pod in world.pods]


def goes_on_around_the_first_partition(world: World) -> bool:
    """New settings reach all other partitions; each pod keeps its state of partition 0."""
    before, said = first_partition(world), published(world)
    spec = spec_of(changelog={"retention": "1h"})
    world.resource = replace(world.resource, spec=spec, generation=2)
    world.sent.clear()
    world.settle()
    assert first_partition(world) == before
    assert published(world) == said
    retentions = {sent.assignment.settings.changelog_retention_ms for sent in world.sent.values()}
    return len(world.sent) == 3 and retentions == {3_600_000} and world.status().assigned == "5/6"


def moved_by_hand() -> World:
    return say(written_store(), configuration(0, 1))


def two_hold_it(*, first_written: bool, second_written: bool, says: int = 1) -> World:
    """The result of a wrong status that the operator followed: two pods are active in epoch 1."""
    world = say(written_store(), configuration(0, says))
    hold(world, 0, configuration(0, 0), is_written=first_written)
    hold(world, 1, configuration(0, 1), is_written=second_written)
    return world


def test_what_a_pod_holds_wins_over_a_status_of_the_same_epoch() -> None:
    world = moved_by_hand()
    steps = plan(world.observation())
    assert isinstance(steps[0], PublishAssignment)
    assert steps[0].partitions[0] == configuration(0, 0)
    world.settle()
    assert published(world) == configuration(0, 0)
    assert holders(world) == [0]
    assert world.status().assigned == "6/6"


def test_a_wrong_status_is_corrected_only_after_every_volume_was_heard() -> None:
    world = moved_by_hand()
    world.pods[2].is_reachable = False
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert found.reason == ASSIGNMENT_UNKNOWN
    assert plan(world.observation()) == []


def test_a_pod_that_still_opens_its_replicas_may_hold_another_configuration() -> None:
    world = two_hold_it(first_written=True, second_written=False, says=0)
    world.pods[0].held = world.pods[0].held[1:]
    world.pods[0].state = "opening"
    assert isinstance(assess(world.observation()), UnknownAssignment)
    assert plan(world.observation()) == []


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_partition_is_not_made_empty_while_the_pod_with_its_data_is_silent(epoch: int) -> None:
    world = say(written_store(), configuration(0, 1, epoch=epoch))
    world.pods[0].is_reachable = False
    world.sent.clear()
    assert told(world) == [2]
    condition = world.status().condition(ConditionType.DEGRADED)
    assert condition is not None
    assert (condition.status, condition.reason) == (ConditionStatus.TRUE, NO_IN_SYNC_REPLICA)
    assert "word-counts-1 does not hold partition 0" in condition.message


def test_a_pod_that_opens_slowly_is_not_said_to_have_lost_its_partitions() -> None:
    world = written_store()
    world.pods[1].held, world.pods[1].state = (), "opening"
    world.pods[1].restart()
    assert told(world) == []
    condition = world.status().condition(ConditionType.DEGRADED)
    assert condition is not None
    assert condition.status is ConditionStatus.FALSE


@pytest.mark.parametrize("is_made", [False, True])
def test_a_higher_epoch_that_leaves_the_data_behind_is_told_to_nobody(*, is_made: bool) -> None:
    world = say(written_store(), configuration(0, 1, epoch=2))
    if is_made:
        hold(world, 1, configuration(0, 1, epoch=2), is_written=False)
    found = assess(world.observation())
    assert isinstance(found, KnownAssignment)
    assert list(found.unclear) == [P0]
    assert "partition 0: its data is on word-counts-0," in found.unclear[P0]
    assert goes_on_around_the_first_partition(world)


def test_who_holds_the_data_is_not_told_to_give_it_up_before_its_successor_was_heard() -> None:
    world = say(written_store(), configuration(0, 1, epoch=2))
    world.pods[1].is_reachable = False
    found = assess(world.observation())
    assert isinstance(found, KnownAssignment)
    assert "is for word-counts-1, which did not answer yet" in found.unclear[P0]
    before = first_partition(world)
    world.sent.clear()
    world.settle()
    assert first_partition(world) == before
    world.pods[1].is_reachable = True
    assert goes_on_around_the_first_partition(world)


@pytest.mark.parametrize("says", [0, 1])
def test_a_replica_with_batches_wins_over_an_empty_one_of_its_epoch(says: int) -> None:
    world = two_hold_it(first_written=True, second_written=False, says=says)
    world.settle()
    assert published(world) == configuration(0, 0, epoch=2)
    assert world.pods[0].held[0] == configuration(0, 0, epoch=2)
    assert all(one.partition for one in world.pods[1].held), "its empty replica is deleted"
    assert world.status().assigned == "6/6"
    assert plan(world.observation()) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: two_hold_it(first_written=True, second_written=True),
        lambda: two_hold_it(first_written=False, second_written=False),
    ],
    ids=["both written", "both empty"],
)
def test_where_two_pods_hold_one_epoch_and_none_is_certain_all_else_goes_on(
    make: Callable[[], World],
) -> None:
    world = make()
    assert goes_on_around_the_first_partition(world)
    for kind in (ConditionType.READY, ConditionType.DEGRADED):
        condition = world.status().condition(kind)
        assert condition is not None
        assert condition.reason == ASSIGNMENT_UNKNOWN
        assert "partition 0: word-counts-0, word-counts-1 hold different" in condition.message
    rebalancing = world.status().condition(ConditionType.REBALANCING)
    assert rebalancing is not None
    assert rebalancing.reason == "NothingToMove", "no pod deletes a disputed replica"


def test_entries_that_no_active_of_their_configuration_holds_do_not_win() -> None:
    world = two_hold_it(first_written=False, second_written=False)
    hold(world, 2, configuration(0, 0, others=(2,)), is_written=True)
    assert goes_on_around_the_first_partition(world)


def test_an_unclear_partition_of_which_the_status_says_nothing_holds_all_up() -> None:
    world = two_hold_it(first_written=True, second_written=True)
    world.resource = replace(world.resource, status=None)
    world.sent.clear()
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert "partition 0: word-counts-0, word-counts-1 hold different" in found.message
    assert plan(world.observation()) == []


def test_a_pod_that_every_configuration_places_an_unclear_partition_on_is_left_alone() -> None:
    world = say(written_store(), configuration(0, 0, others=(2,)))
    hold(world, 0, configuration(0, 0, others=(1, 2)), is_written=True)
    hold(world, 1, configuration(0, 1, others=(0, 2)), is_written=True)
    world.sent.clear()
    assert told(world) == [0, 1], "pod 2 would make the partition, empty"


def test_an_unclear_partition_is_never_told_with_a_pod_that_has_no_address() -> None:
    elsewhere = Claim(pod=Ordinal(0), configuration=configuration(0, 7), is_empty=False)
    here = Claim(pod=Ordinal(1), configuration=configuration(0, 1), is_empty=True)
    pods = frozenset(map(Ordinal, range(3)))

    def say_to(pod: int) -> PartitionConfiguration | None:
        return told_of_unclear(Ordinal(pod), (elsewhere, here), configuration(0, 1), pods)

    assert say_to(0) is None, "it keeps what it has"
    assert say_to(1) == here.configuration
    assert say_to(2) == here.configuration, "a hint that every pod can follow"


def test_an_empty_volume_is_not_filled_once_a_pod_holds_entries_whatever_the_status_says() -> None:
    """The operator did not run since the store was made, so its condition is still Creating."""
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3)))
    for _ in range(2):  # Two rounds: pods are made; the assignment is published and sent.
        for step in plan(world.observation()):
            world.apply(step)
    for pod in world.pods:
        pod.written = {0, 1, 2}
    lost = world.pods[1]
    lost.store_id, lost.held, lost.written = None, (), set()
    lost.restart()
    steps = plan(world.observation())
    assert not any(isinstance(step, SendAssignment) and step.ordinal == 1 for step in steps)


def test_an_empty_volume_is_filled_while_no_pod_holds_an_entry() -> None:
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3)))
    for _ in range(2):
        for step in plan(world.observation()):
            world.apply(step)
    lost = world.pods[1]
    lost.store_id, lost.held = None, ()
    lost.restart()
    steps = plan(world.observation())
    assert any(isinstance(step, SendAssignment) and step.ordinal == 1 for step in steps)


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_lost_replica_ends_no_creation_before_every_pod_has_its_assignment(standbys: int) -> None:
    """Otherwise a pod that was not told yet would count as one that lost its volume."""
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3, standbys=standbys)))
    for _ in range(2):
        for step in plan(world.observation()):
            if not (isinstance(step, SendAssignment) and step.ordinal == 2):
                world.apply(step)
    world.pods[0].lost = {0: "its files are damaged"}
    world.resource = replace(world.resource, status=world.status())
    assert told(world) == [2]
    for _ in range(4):
        for step in plan(world.observation()):
            world.apply(step)
        world.resource = replace(world.resource, status=world.status())
    assert all(pod.store_id is not None for pod in world.pods)
    condition = world.status().condition(ConditionType.DEGRADED)
    assert condition is not None
    assert (condition.reason == NO_IN_SYNC_REPLICA) == (standbys == 0)
    assert published(world).in_sync == ((Ordinal(1),) if standbys else (Ordinal(0),))


def test_a_lost_replica_whose_configuration_differs_in_one_epoch_makes_a_dispute() -> None:
    world = written_store()
    hold(world, 1, configuration(0, 1), is_written=True)
    world.pods[1].lost = {0: "its files are damaged"}
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert "hold different configurations of one epoch" in known.unclear[P0]
    assert goes_on_around_the_first_partition(world)
