"""The changes of an assignment become events, at most one of a reason in a minute."""

from qss_core.model import Ordinal, PartitionId, StoreName
from qss_operator.kubernetes.events.change_events import ChangeEvents
from qss_operator.kubernetes.events.event_limits import EventType
from qss_operator.planning.membership.changes import Changes, Led


def led(number: int, before: int, by: int) -> Led:
    return Led(partition=PartitionId(number), by=Ordinal(by), before=Ordinal(before))


def on(pod: int, *numbers: int) -> frozenset[tuple[PartitionId, Ordinal]]:
    return frozenset((PartitionId(number), Ordinal(pod)) for number in numbers)


def change_events() -> ChangeEvents:
    return ChangeEvents(StoreName("words"))


def test_a_failover_is_a_warning_and_names_who_leads_what() -> None:
    changes = Changes(failovers=(led(0, 1, 2), led(3, 1, 2), led(1, 1, 0)))
    (told,) = change_events().of(changes, 0.0)
    assert (told.type, told.reason) == (EventType.WARNING, "FailedOver")
    assert told.message == (
        "words-1 does not act, words-2 leads: partitions 0, 3; "
        "words-1 does not act, words-0 leads: partition 1"
    )


def test_each_kind_of_change_has_its_reason() -> None:
    changes = Changes(
        handovers=(led(0, 1, 2),),
        begun=on(3, 1, 2),
        done=on(3, 0),
        cancelled=on(4, 5),
        removed=on(1, 0),
        left_sync=on(1, 7),
        rejoined=on(1, 8),
    )
    told = {one.reason: (one.type, one.message) for one in change_events().of(changes, 0.0)}
    normal, warning = EventType.NORMAL, EventType.WARNING
    assert told == {
        "HandedOver": (normal, "words-1 handed over to words-2: partition 0"),
        "LeftInSync": (warning, "no longer in sync on words-1: partition 7"),
        "MoveBegun": (normal, "a new replica on words-3: partitions 1, 2"),
        "MoveDone": (normal, "in sync on words-3: partition 0"),
        "MoveCancelled": (normal, "no new replica on words-4: partition 5"),
        "Rejoined": (normal, "in sync again on words-1: partition 8"),
        "ReplicaRemoved": (normal, "no replica any more on words-1: partition 0"),
    }


def test_changes_of_one_minute_are_told_by_one_event() -> None:
    events = change_events()
    (first,) = events.of(Changes(done=on(3, 4)), 0.0)
    (second,) = events.of(Changes(done=on(3, 2)), 59.0)
    (third,) = events.of(Changes(done=on(3, 5)), 60.0)
    assert (first.group, second.message) == (
        second.group,
        "in sync on words-3: partitions 2, 4",
    )
    assert third.group != first.group
    assert third.message == "in sync on words-3: partition 5"
    assert events.of(Changes(), 61.0) == []


def test_a_long_list_of_partitions_is_cut() -> None:
    (told,) = change_events().of(Changes(begun=on(1, *range(20))), 0.0)
    assert told.message.endswith("9, 10, 11 and 8 more")
