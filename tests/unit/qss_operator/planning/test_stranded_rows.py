"""Rows that only replicas outside of the in-sync set have are not given up without a person."""

from dataclasses import replace

import msgspec
import pytest

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.assignment_state import NO_IN_SYNC_REPLICA, KnownAssignment, assess
from qss_operator.planning.model import AcceptLoss, ConditionType, SendAssignment
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, published, resource_of, say, spec_of

P0 = PartitionId(0)


def test_an_empty_partition_is_not_stranded_by_a_learner_that_cannot_be_opened() -> None:
    """Nobody knows whether the files have entries: the in-sync replicas say what there is."""
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2, standbys=1)))
    world.settle()
    before = published(world)
    entry = msgspec.structs.replace(before, in_sync=(Ordinal(0),), epoch=2)
    say(world, entry)
    world.pods[0].held, world.pods[1].held = (entry,), (before,)
    world.pods[1].lost = {0: "its files are damaged"}
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert known.unclear == {}


@pytest.mark.parametrize("is_told", [True, False])
def test_data_of_a_learner_is_not_stranded_where_the_replica_in_sync_cannot_be_opened(
    is_told: bool,
) -> None:
    """The configuration is right, as the pod in sync holds it: a person may accept the loss.

    So it is where that pod ended before it was told the last epoch, and is in sync before it, too.
    """
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2, standbys=1)))
    world.settle()
    active = published(world).active
    entry = msgspec.structs.replace(published(world), in_sync=(active,), epoch=2)
    say(world, entry)
    for pod in world.pods:
        pod.held, pod.written = (entry,), {0}
    if not is_told:
        world.pods[active].held = (msgspec.structs.replace(entry, epoch=1),)
    world.pods[active].lost = {0: "the write-ahead log has a hole"}
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert known.unclear == {}
    condition = world.status().condition(ConditionType.DEGRADED)
    assert condition is not None
    assert condition.reason == NO_IN_SYNC_REPLICA
    assert "cannot be opened: the write-ahead log has a hole" in condition.message
    assert "accept-data-loss=0@2" in condition.message
    steps = plan(world.observation())
    assert any(isinstance(step, SendAssignment) and step.ordinal == active for step in steps)


@pytest.mark.parametrize(("epoch", "has_applied"), [(1, False), (2, False), (2, True)])
def test_an_entry_that_only_a_learner_has_does_not_strand_an_active_without_entries(
    epoch: int, *, has_applied: bool
) -> None:
    """The active ended before its own sync, so nobody was told that the entry is durable.

    An empty active of an older epoch was not told who leads: its volume may have been put back. So
    was that of an active whose learner has applied an entry; the active heard the epoch since then.
    """
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2, standbys=1)))
    world.settle()
    active = published(world).active
    entry = msgspec.structs.replace(published(world), in_sync=(active,), epoch=2)
    say(world, entry)
    for pod in world.pods:
        pod.held, pod.written = (entry,), {0} if has_applied else set()
        pod.logged = {0}
    world.pods[active].held = (msgspec.structs.replace(entry, epoch=epoch),)
    world.pods[active].written, world.pods[active].logged = set(), set()
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert {*known.unclear} == ({P0} if epoch == 1 or has_applied else set())


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_standby_without_entries_takes_over_from_no_lost_active_whose_learner_has_rows(
    epoch: int,
) -> None:
    """The volume of the standby was put back: every replica in sync had what a learner applied."""
    world = World(resource=resource_of(spec_of(partitions=1, replicas=3, standbys=2)))
    world.settle()
    before = published(world)
    learner = before.replicas[-1 if before.replicas[-1] != before.active else 0]
    in_sync = tuple(pod for pod in before.replicas if pod != learner)
    entry = msgspec.structs.replace(before, in_sync=in_sync, epoch=2)
    say(world, entry)
    for pod in world.pods:
        pod.held = (entry,)
    (standby,) = set(in_sync) - {entry.active}
    world.pods[standby].held = (entry if epoch == entry.epoch else before,)
    world.pods[learner].written = {0}
    world.pods[entry.active].lost = {0: "the write-ahead log has a hole"}
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert known.partitions == (entry,)
    assert f"its data is on word-counts-{learner}," in known.unclear[P0]


def test_data_of_a_pod_that_was_left_out_is_stranded_where_the_replica_in_sync_is_lost() -> None:
    """After an accepted loss its whole copy would be deleted, since its role has ended."""
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2)))
    world.settle()
    entry = msgspec.structs.replace(published(world), epoch=2)
    say(world, entry)
    (other,) = {0, 1} - {entry.active}
    for pod in world.pods:
        pod.held, pod.written = (entry,), {0}
    world.pods[entry.active].lost = {0: "the write-ahead log has a hole"}
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    assert f"its data is on word-counts-{other}," in known.unclear[P0]
    assert "with a pod that holds the data as the active in epoch 3" in known.unclear[P0]
    world.resource = replace(world.resource, accept_data_loss="0@2")
    assert not any(isinstance(step, AcceptLoss) for step in plan(world.observation()))


def test_a_learner_waits_for_another_one_that_may_have_more_rows() -> None:
    """The learner with the longest log goes on; a pod that starts has not told its log yet."""
    world = World(resource=resource_of(spec_of(partitions=1, replicas=3, standbys=2)))
    world.settle()
    before = published(world)
    entry = msgspec.structs.replace(before, in_sync=(before.active,), epoch=2)
    say(world, entry)
    for pod in world.pods:
        pod.held, pod.written = (entry,), {0}
    emptied = world.pods[entry.active]
    emptied.store_id, emptied.held = None, ()
    learner, other = sorted({*entry.replicas} - {entry.active})
    world.pods[other].is_reachable = False
    world.resource = replace(world.resource, accept_data_loss="0@2")
    for silent_s, active in ((0.0, entry.active), (30.0, learner)):
        world.silent_s = {other: silent_s}
        known = assess(world.observation())
        assert isinstance(known, KnownAssignment)
        assert [one.active for one in known.partitions] == [active]


def with_a_learner() -> tuple[World, PartitionConfiguration]:
    """A store of two pods, whose partition 1 has one replica in sync and a learner."""
    world = World(resource=resource_of(spec_of(partitions=2, replicas=2, standbys=1)))
    world.settle()
    before = published(world, PartitionId(1))
    entry = msgspec.structs.replace(before, in_sync=(before.active,), epoch=2)
    say(world, entry)
    for pod in world.pods:
        pod.held = tuple(entry if one == before else one for one in pod.held)
    return world, entry


@pytest.mark.parametrize("completed", [1, 2])
def test_a_learner_with_every_batch_goes_on_where_the_replica_in_sync_takes_no_writes(
    completed: int,
) -> None:
    """The files in sync would be put aside, and an empty partition copied over the learner's."""
    world, entry = with_a_learner()
    for pod in world.pods:
        pod.written = {0, 1}
    (learner,) = {*entry.replicas} - {entry.active}
    world.lagging = {learner}
    world.pods[entry.active].damaged = {1}
    world.pods[published(world).active].coordinated = completed
    condition = world.status().condition(ConditionType.DEGRADED)
    assert condition is not None
    assert "takes no batches any more" in condition.message
    assert ("write its rows again" in condition.message) == (completed == 2)
    world.resource = replace(world.resource, accept_data_loss="1@2")
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    accepted = [one.ordinal for one in plan(world.observation()) if isinstance(one, AcceptLoss)]
    goes_on = (learner, []) if completed == 1 else (entry.active, [entry.active])
    assert (known.partitions[1].active, accepted) == goes_on


@pytest.mark.parametrize("is_applied", [False, True])
def test_a_learner_gives_way_where_it_lacks_a_batch_that_all_others_have_applied(
    *, is_applied: bool
) -> None:
    """Its writer was answered before the log of partition 0 said that the batch is complete."""
    world, entry = with_a_learner()
    for pod in world.pods:
        pod.written = {0} if is_applied else set()
        pod.logged = {1}
    (learner,) = {*entry.replicas} - {entry.active}
    world.lagging = {learner}
    world.pods[entry.active].lost = {1: "the write-ahead log has a hole"}
    world.pods[published(world).active].coordinated = 0
    world.resource = replace(world.resource, accept_data_loss="1@2")
    known = assess(world.observation())
    assert isinstance(known, KnownAssignment)
    accepted = [one.ordinal for one in plan(world.observation()) if isinstance(one, AcceptLoss)]
    goes_on = (entry.active, [entry.active]) if is_applied else (learner, [])
    assert (known.partitions[1].active, accepted) == goes_on
