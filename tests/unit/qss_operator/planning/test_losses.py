"""Partitions that lack batches: what the status says, and how a person accepts the loss."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId, Role, Sequence
from qss_core.wire.replica_reports import ReplicaReport
from qss_operator.planning.fullest_learner import may_have_fuller_learner
from qss_operator.planning.losses import lacking
from qss_operator.planning.model import (
    AcceptLoss,
    ConditionStatus,
    ConditionType,
    PublishAssignment,
    SendAssignment,
)
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_testing.fakes.control_world import NOW, World, assignment_of, resource_of, spec_of


def running_store() -> World:
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3)))
    world.settle()
    for pod in world.pods:
        pod.written = {0, 1, 2}
    return world


def condition(world: World, kind: ConditionType) -> tuple[str, str, str]:
    found = world.status().condition(kind)
    assert found is not None
    return found.status.value, found.reason, found.message


def behind_store() -> World:
    world = running_store()
    world.pods[1].behind = {1: 57}
    return world


def accepting(world: World, text: str) -> World:
    world.resource = replace(world.resource, accept_data_loss=text)
    return world


def test_a_partition_that_is_behind_is_told_with_both_sequences_and_what_to_do() -> None:
    world = behind_store()
    status, reason, message = condition(world, ConditionType.DEGRADED)
    assert (status, reason) == ("True", "PartitionRolledBack")
    assert "partition 1 on word-counts-1 holds sequence 1, and at least 57 was completed" in message
    assert "queryablestate.dev/accept-data-loss=1@1" in message
    assert condition(world, ConditionType.READY)[:2] == ("False", "PartitionRolledBack")
    assert plan(world.observation()) == []


def test_a_partition_that_cannot_be_opened_is_told_with_why() -> None:
    world = running_store()
    world.pods[1].lost = {1: "it was cut short"}
    status, reason, message = condition(world, ConditionType.DEGRADED)
    assert (status, reason) == ("True", "NoInSyncReplica")
    assert "partition 1 on word-counts-1 cannot be opened: it was cut short" in message
    assert "accept-data-loss=1@1" in message
    seen = replace(world.observation(), completed=Sequence(57))
    held = world.status().assignment
    assert held is not None
    told = {one.partition: one.why for one in lacking(seen, held)}
    assert (
        "cannot be opened (batches up to sequence 57 were completed): it was"
        in told[PartitionId(1)]
    )


SWAPPED = "this is the volume of pod 2: give each pod its own volume again; nothing is lost"


def test_a_volume_on_the_wrong_pod_is_to_be_put_back_and_no_loss_is_to_be_accepted() -> None:
    world = running_store()
    world.pods[1].lost, world.pods[1].misplaced = {1: SWAPPED}, {1}
    world.pods[2].behind = {2: 57}
    status, reason, message = condition(world, ConditionType.DEGRADED)
    assert (status, reason) == ("True", "PartitionRolledBack")
    assert f"partition 1 on word-counts-1 cannot be opened: {SWAPPED}" in message
    way, _, last_resort = message.partition(". Only if the right volume or directory is gone")
    assert "Bring the newer volume back, or accept the loss" in way
    assert way.endswith("accept-data-loss=2@1"), "the advice is for the other partition alone"
    assert "gives up all rows of partition 1, which begins empty" in last_resort
    assert last_resort.endswith("accept-data-loss=1@1")
    world.pods[2].behind = {}
    assert "or accept the loss" not in condition(world, ConditionType.DEGRADED)[2]


def test_partitions_of_one_pod_that_lack_for_one_reason_share_a_sentence() -> None:
    world = World(resource=resource_of(spec_of(partitions=6, replicas=3)))
    world.settle()
    world.pods[1].lost, world.pods[1].misplaced = {1: SWAPPED, 4: SWAPPED}, {1, 4}
    message = condition(world, ConditionType.DEGRADED)[2]
    assert message.startswith(f"partition 1, 4 on word-counts-1 cannot be opened: {SWAPPED}. Only")


def test_an_emptied_volume_waits_for_learners_before_it_begins_empty() -> None:
    """A learner that has not answered yet may have all but the last rows."""
    world = emptied_store()
    observation = world.observation()
    status = observation.resource.status
    assert status is not None
    (entry,) = [one for one in status.assignment or () if one.partition == 1]
    learner = structs.replace(entry, replicas=(*entry.replicas, Ordinal(2)))
    assert not may_have_fuller_learner(observation, entry)
    silent = {pod: one for pod, one in observation.reports.items() if pod != 2}
    assert may_have_fuller_learner(replace(observation, reports=silent), learner)
    away = replace(observation, reports=silent, silent_s={Ordinal(2): 30.0})
    assert not may_have_fuller_learner(away, learner)
    opening = structs.replace(observation.reports[Ordinal(2)], ready=False, replicas=())
    reports = {**observation.reports, Ordinal(2): opening}
    assert may_have_fuller_learner(replace(observation, reports=reports), learner)
    for seen in (structs.replace(opening, ready=True), structs.replace(opening, store_id=None)):
        told = {**reports, Ordinal(2): seen}
        assert not may_have_fuller_learner(replace(observation, reports=told), learner)


def test_a_loss_is_accepted_where_every_volume_of_a_store_with_standbys_is_gone() -> None:
    """Each pod learns a partition whose only replica in sync waits on another such pod."""
    world = World(resource=resource_of(spec_of(partitions=2, replicas=2, standbys=1)))
    world.settle()
    for pod in world.pods:
        pod.store_id, pod.held = None, ()
    world.sent.clear()
    world.settle()
    assert {one.in_sync for one in assignment_of(world)} == {(0,), (1,)}
    accepting(world, ",".join(f"{one.partition}@{one.epoch}" for one in assignment_of(world)))
    world.settle(50)
    assert condition(world, ConditionType.DEGRADED)[1] == "DataLost"
    assert condition(world, ConditionType.READY)[0] == "True"


def with_learner(world: World, partition: int) -> PartitionConfiguration:
    """Gives a partition of a store that runs a learner with rows, on another pod."""
    status = world.resource.status
    assert status is not None
    (entry,) = [one for one in status.assignment or () if one.partition == partition]
    other = next(pod.ordinal for pod in world.pods if pod.ordinal != entry.active)
    learns = structs.replace(entry, epoch=Epoch(2), replicas=(entry.active, other))
    entries = [learns if one == entry else one for one in status.assignment or ()]
    world.resource = replace(
        world.resource, status=structs.replace(status, assignment=tuple(entries))
    )
    for pod in world.pods:
        pod.held = tuple(one for one in entries if one.role_of(pod.ordinal) is not None)
    return learns


@pytest.mark.parametrize("completed", [1, 2])
def test_a_learner_goes_on_after_a_loss_where_it_has_all_that_was_completed(completed: int) -> None:
    """The pod in sync would begin empty where its database does not open, and copy that to it."""
    world = running_store()
    entry = with_learner(world, 1)
    learner = entry.replicas[1]
    world.pods[0].coordinated = completed
    world.pods[entry.active].lost = {1: "the manifest is missing"}
    message = condition(world, ConditionType.DEGRADED)[2]
    steps = plan(accepting(world, "1@2").observation())
    published = [step.partitions[1] for step in steps if isinstance(step, PublishAssignment)]
    accepted = [step.ordinal for step in steps if isinstance(step, AcceptLoss)]
    if completed == 1:
        assert "may be all rows" not in message
        assert f"After an accepted loss partition 1 goes on with word-counts-{learner}" in message
        after = structs.replace(entry, epoch=Epoch(3), active=learner, in_sync=(learner,))
        assert (published, accepted) == ([after], [])
    else:
        assert "(of partition 1 it may be all rows)" in message
        assert f"the rows of partition 1 on word-counts-{learner}, which has sequence 1" in message
        assert "are given up (to go on with them instead, make that pod the partition's" in message
        assert [one for one in published if one != entry] == []
        assert accepted == [entry.active]


def test_a_learner_goes_on_where_the_files_of_another_pod_are_in_the_place_of_the_rows() -> None:
    """An accepted loss begins nothing empty then, whatever was completed."""
    world = running_store()
    entry = with_learner(world, 1)
    world.pods[0].coordinated = 57
    world.pods[entry.active].lost, world.pods[entry.active].misplaced = {1: SWAPPED}, {1}
    message = condition(world, ConditionType.DEGRADED)[2]
    assert "begins empty" not in message
    assert "Only if the right volume is gone for good, accept the loss: " in message
    assert f"partition 1 goes on with word-counts-{entry.replicas[1]}" in message
    steps = plan(accepting(world, "1@2").observation())
    (after,) = [step.partitions[1] for step in steps if isinstance(step, PublishAssignment)]
    assert after.active == entry.replicas[1]


@pytest.mark.parametrize("has_database", [True, False])
def test_no_learner_goes_on_where_the_pod_in_sync_lost_its_assignment_alone(
    *, has_database: bool
) -> None:
    """Its database has every batch, and the pod opens it with the acceptance."""
    world = running_store()
    entry = with_learner(world, 1)
    emptied, learner = world.pods[entry.active], entry.replicas[1]
    emptied.store_id, emptied.held = None, ()
    emptied.unassigned = {1} if has_database else set()
    world.sent.clear()
    assert ("goes on with" in condition(world, ConditionType.DEGRADED)[2]) != has_database
    steps = plan(accepting(world, "1@2").observation())
    published = [step.partitions[1] for step in steps if isinstance(step, PublishAssignment)]
    led = [one.active for one in published if one != entry]
    accepted = [step.ordinal for step in steps if isinstance(step, AcceptLoss)]
    assert (led, accepted) == (([], [entry.active]) if has_database else ([learner], []))


def test_a_standby_in_sync_that_is_away_is_told_before_a_loss_is_accepted() -> None:
    """It has all rows, and takes over when it is back."""
    world = World(resource=resource_of(spec_of(partitions=3, replicas=3, standbys=1)))
    world.settle()
    entry = next(one for one in assignment_of(world) if one.active == 1)
    (standby,) = {*entry.in_sync} - {entry.active}
    world.pods[1].lost = {entry.partition: "the manifest is missing"}
    assert "does not answer" not in condition(world, ConditionType.DEGRADED)[2]
    world.pods[standby].is_reachable = False
    told = f"all rows, is partition {entry.partition} on word-counts-{standby}, which does not"
    assert told in condition(world, ConditionType.DEGRADED)[2]


def test_a_loss_waits_for_a_learner_that_may_have_all_that_was_completed() -> None:
    world = running_store()
    entry = with_learner(world, 1)
    world.pods[entry.active].lost = {1: "the manifest is missing"}
    world.pods[entry.replicas[1]].is_reachable = False
    accepting(world, "1@2")
    assert not any(isinstance(step, AcceptLoss) for step in plan(world.observation()))
    world.silent_s = {entry.replicas[1]: 30.0}
    assert any(isinstance(step, AcceptLoss) for step in plan(world.observation()))


def test_the_cost_of_a_partition_that_cannot_be_opened_is_told() -> None:
    world = running_store()
    world.pods[1].lost = {1: "a block is damaged"}
    world.pods[2].behind = {2: 57}
    message = condition(world, ConditionType.DEGRADED)[2]
    assert "or accept the loss (of partition 1 it may be all rows): " in message


def test_an_empty_volume_beside_a_misplaced_one_is_not_told_to_accept_a_loss() -> None:
    """A volume is on the wrong pod, and the pod that it belongs to has begun a new volume."""
    world = emptied_store()
    world.pods[2].lost, world.pods[2].misplaced = {2: SWAPPED, 5: SWAPPED}, {2, 5}
    message = condition(world, ConditionType.DEGRADED)[2]
    assert message.count(f"word-counts-2: {SWAPPED}. Only if the right volume") == 1
    assert "or accept the loss" not in message


def test_a_partition_that_takes_no_batches_is_told_with_what_to_do() -> None:
    world = running_store()
    world.pods[1].damaged = {1}
    status, reason, message = condition(world, ConditionType.DEGRADED)
    assert (status, reason) == ("True", "NoInSyncReplica")
    assert "partition 1 on word-counts-1 takes no batches any more" in message
    assert "accept-data-loss=1@1" in message
    accepting(world, "1@1")
    world.settle()
    assert condition(world, ConditionType.DEGRADED)[1] == "DataLost"


@pytest.mark.parametrize("kind", ["behind", "lost"])
def test_an_accepted_loss_is_taken_once_and_gets_the_partition_its_next_epoch(kind: str) -> None:
    world = running_store()
    if kind == "behind":
        world.pods[1].behind = {1: 57}
    else:
        world.pods[1].lost = {1: "gone"}
    accepting(world, "1@1")
    steps = [step for step in plan(world.observation()) if isinstance(step, AcceptLoss)]
    assert [(step.ordinal, step.partition, step.epoch) for step in steps] == [(1, 1, 1)]
    world.settle()
    held = {entry.partition: entry.epoch for entry in world.pods[1].held}
    assert held[1] == 2  # type: ignore[index]
    status, reason, message = condition(world, ConditionType.DEGRADED)
    assert (status, reason) == ("True", "DataLost")
    assert "partition 1 lacks the batches of sequence 1" in message
    assert condition(world, ConditionType.READY)[0] == "True"
    world.pods[1].behind = {1: 60}  # The volume goes back again; the old annotation has no effect.
    assert plan(world.observation()) == []
    assert "accept-data-loss=1@2" in condition(world, ConditionType.DEGRADED)[2]
    world.pods[1].behind = {}
    world.pods[1].losses = {}  # A batch has replaced all rows.
    assert condition(world, ConditionType.DEGRADED)[0] == "False"


def test_a_pod_that_lost_a_partition_hears_of_the_partitions_next_epoch() -> None:
    """Else it refuses the loss that is accepted in that epoch, for good."""
    world = running_store()
    world.pods[1].lost = {1: "gone"}
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    raised = tuple(structs.replace(one, epoch=Epoch(one.epoch + 1)) for one in status.assignment)
    world.resource = replace(world.resource, status=structs.replace(status, assignment=raised))
    told = [step.ordinal for step in plan(world.observation()) if isinstance(step, SendAssignment)]
    assert 1 in told
    world.settle()
    assert plan(world.observation()) == [], "it is told once, and not in each round"


@pytest.mark.parametrize("text", ["1@2", "0@1", "1", "one@1", "1@1;2@1", ""])
def test_an_annotation_that_names_another_epoch_or_nothing_does_nothing_and_is_told(
    text: str,
) -> None:
    world = accepting(behind_store(), text)
    assert plan(world.observation()) == []
    assert f"(it says {text!r})" in condition(world, ConditionType.DEGRADED)[2]


def test_several_partitions_are_accepted_at_once() -> None:
    world = behind_store()
    world.pods[2].behind = {2: 57}
    accepting(world, "1@1, 2@1")
    steps = [step for step in plan(world.observation()) if isinstance(step, AcceptLoss)]
    assert [step.partition for step in steps] == [1, 2]


def test_a_volume_whose_partitions_others_hold_is_not_told_to_be_the_only_copy() -> None:
    world = World(resource=resource_of(spec_of(standbys=1)))
    world.settle(50)
    for pod in world.pods:
        pod.written = set(range(world.resource.spec.partitions))
    world.pods[1].store_id, world.pods[1].held = None, ()
    world.sent.clear()
    # All pods start, and the others have not answered yet.
    for number in (0, 2):
        world.pods[number].is_reachable = False
    told = condition(world, ConditionType.DEGRADED)[2]
    assert "word-counts-1: the volume is empty or incomplete; the other replicas" in told
    assert "accept" not in told
    world.silent_s = {Ordinal(0): 30.0, Ordinal(2): 30.0}
    assert "accept the loss" in condition(world, ConditionType.DEGRADED)[2]


def emptied_store() -> World:
    world = World(resource=resource_of(spec_of(partitions=6, replicas=3)))
    world.settle()
    for pod in world.pods:
        pod.written = set(range(6))
    world.pods[1].store_id, world.pods[1].held = None, ()
    world.sent.clear()
    return world


def test_a_pod_whose_volume_is_gone_goes_on_with_the_partitions_whose_loss_is_accepted() -> None:
    world = emptied_store()
    assert "accept-data-loss=1@1,4@1" in condition(world, ConditionType.DEGRADED)[2]
    accepting(world, "1@1")
    world.settle()
    assert world.pods[1].lost == {4: "gone"}
    assert "partition 4 on word-counts-1 cannot be" in condition(world, ConditionType.DEGRADED)[2]
    accepting(world, "1@1,4@1")
    world.settle()
    assert condition(world, ConditionType.DEGRADED)[1] == "DataLost"
    assert condition(world, ConditionType.READY)[0] == "True"


def test_what_was_complete_a_round_ago_is_missed_also_where_the_pods_do_not_say_so() -> None:
    world = running_store()
    observation = replace(world.observation(), completed=Sequence(1))
    assert plan(observation) == []
    older = replace(world.observation(), completed=Sequence(2))

    told = status_of(older, NOW).condition(ConditionType.DEGRADED)
    assert told is not None
    assert told.status is ConditionStatus.TRUE
    assert "holds sequence 1, and at least 2 was completed" in told.message


@pytest.mark.parametrize(
    "before",
    [
        lambda one: structs.replace(one, role=Role.STANDBY),
        lambda one: structs.replace(one, state="opening"),
    ],
    ids=["standby", "opening"],
)
def test_a_new_active_that_has_not_begun_its_epoch_did_not_go_back(
    before: Callable[[ReplicaReport], ReplicaReport],
) -> None:
    """A standby applies later than its active: the status advised to accept a loss meanwhile."""
    world = running_store()
    seen = replace(world.observation(), completed=Sequence(2))
    held = world.status().assignment
    assert held is not None
    assert lacking(seen, held), "actives in their epoch lack what was complete"
    reports = {
        pod: structs.replace(report, replicas=tuple(before(one) for one in report.replicas))
        for pod, report in seen.reports.items()
    }
    assert not lacking(replace(seen, reports=reports), held)
    newer = tuple(structs.replace(one, epoch=Epoch(one.epoch + 1)) for one in held)
    assert not lacking(seen, newer), "an active of an earlier epoch may have been left behind"
