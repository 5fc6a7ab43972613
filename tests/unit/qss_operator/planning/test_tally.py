"""Failovers, handovers and moves are counted by what an assignment changes."""

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.membership.tally import Tally, tally_of

P0 = PartitionId(0)
A, B, C = Ordinal(0), Ordinal(1), Ordinal(2)
LED_BY_A = PartitionConfiguration(
    partition=P0, epoch=Epoch(4), active=A, in_sync=(A, B), replicas=(A, B)
)


def tally(*after: PartitionConfiguration) -> Tally:
    """The tally of a sequence of configurations of one partition, as the last one."""
    found, before = Tally(), LED_BY_A
    for entry in after:
        found = tally_of((before,), (entry,), found.joining)
        before = entry
    return found


def test_an_active_that_leaves_the_in_sync_set_was_failed_over() -> None:
    assert tally(replace(LED_BY_A, active=B, in_sync=(B,))) == Tally(failovers=1)


def test_an_active_that_stays_in_sync_was_handed_over() -> None:
    assert tally(replace(LED_BY_A, active=B)) == Tally(handovers=1)


def test_a_new_epoch_of_the_same_active_and_a_lost_standby_are_neither() -> None:
    assert tally(replace(LED_BY_A, epoch=Epoch(5))) == Tally()
    assert tally(replace(LED_BY_A, in_sync=(A,))) == Tally()


def test_a_move_is_done_when_its_replica_is_in_sync() -> None:
    learns = replace(LED_BY_A, replicas=(B, A, C))
    follows = replace(learns, in_sync=(A, B, C))
    assert tally(learns) == Tally(begun=1, joining=frozenset({(P0, C)}))
    assert tally(learns, follows) == Tally(done=1)
    assert tally(learns, follows, replace(follows, replicas=(A, C), in_sync=(A, C))) == Tally()


def test_a_move_is_cancelled_when_its_replica_leaves_before_it_is_in_sync() -> None:
    learns = replace(LED_BY_A, replicas=(B, A, C))
    assert tally(learns, LED_BY_A) == Tally(cancelled=1)


def test_a_standby_that_comes_back_into_sync_is_no_move() -> None:
    assert tally(replace(LED_BY_A, in_sync=(A,)), LED_BY_A) == Tally()


def test_partitions_are_counted_one_by_one() -> None:
    before = [replace(LED_BY_A, partition=PartitionId(number)) for number in range(3)]
    after = [replace(entry, active=B, in_sync=(B,)) for entry in before[:2]]
    assert tally_of(before, [*after, before[2]]) == Tally(failovers=2)


def test_the_first_assignment_of_a_store_changes_nothing() -> None:
    assert tally_of(None, (LED_BY_A,)) == Tally()
    assert tally_of((LED_BY_A,), None) == Tally()
