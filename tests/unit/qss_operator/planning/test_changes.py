"""Failovers, handovers, moves and in-sync replicas are told by what an assignment changes."""

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.membership.changes import Changes, Led, changes_of

P0 = PartitionId(0)
A, B, C = Ordinal(0), Ordinal(1), Ordinal(2)
TO_B = Led(partition=P0, by=B, before=A)
ON_B, ON_C = frozenset({(P0, B)}), frozenset({(P0, C)})
LED_BY_A = PartitionConfiguration(
    partition=P0, epoch=Epoch(4), active=A, in_sync=(A, B), replicas=(A, B)
)


def changes(*after: PartitionConfiguration) -> Changes:
    """The changes of a sequence of configurations of one partition, as the last one."""
    found, before = Changes(), LED_BY_A
    for entry in after:
        found = changes_of((before,), (entry,), found.joining)
        before = entry
    return found


def test_an_active_that_leaves_the_in_sync_set_was_failed_over() -> None:
    assert changes(replace(LED_BY_A, active=B, in_sync=(B,))) == Changes(failovers=(TO_B,))


def test_an_active_that_stays_in_sync_was_handed_over() -> None:
    assert changes(replace(LED_BY_A, active=B)) == Changes(handovers=(TO_B,))


def test_a_new_epoch_of_the_same_active_and_a_lost_standby_are_neither() -> None:
    assert changes(replace(LED_BY_A, epoch=Epoch(5))) == Changes()
    assert changes(replace(LED_BY_A, in_sync=(A,))) == Changes(left_sync=ON_B)


def test_a_move_is_done_when_its_replica_is_in_sync() -> None:
    learns = replace(LED_BY_A, replicas=(B, A, C))
    follows = replace(learns, in_sync=(A, B, C))
    assert changes(learns) == Changes(begun=ON_C, joining=ON_C)
    assert changes(learns, follows) == Changes(done=ON_C)
    assert changes(learns, follows, replace(follows, replicas=(A, C), in_sync=(A, C))) == Changes(
        removed=ON_B
    )


def test_a_move_is_cancelled_when_its_replica_leaves_before_it_is_in_sync() -> None:
    learns = replace(LED_BY_A, replicas=(B, A, C))
    assert changes(learns, LED_BY_A) == Changes(cancelled=ON_C)


def test_a_standby_that_comes_back_into_sync_is_no_move() -> None:
    assert changes(replace(LED_BY_A, in_sync=(A,)), LED_BY_A) == Changes(rejoined=ON_B)


def test_partitions_are_counted_one_by_one() -> None:
    before = [replace(LED_BY_A, partition=PartitionId(number)) for number in range(3)]
    after = [replace(entry, active=B, in_sync=(B,)) for entry in before[:2]]
    found = changes_of(before, [*after, before[2]])
    assert [one.partition for one in found.failovers] == [0, 1]


def test_the_first_assignment_of_a_store_changes_nothing() -> None:
    assert changes_of(None, (LED_BY_A,)) == Changes()
    assert changes_of((LED_BY_A,), None) == Changes()
