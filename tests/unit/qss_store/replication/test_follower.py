"""A follower takes, refuses or cuts what an active sends."""

import zlib
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from qss_core.errors import CorruptionError, MalformedRequestError, StaleEpochError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, PartitionId
from qss_store.replication.digest import LogPoint, digest_after
from qss_store.replication.entries import Entry, Payload, encode_entry
from qss_store.replication.follower import Append, SentEntry, StepBack, Take, receive
from qss_store.replication.log import Log
from qss_testing.pods.one_replica import BEGINNING

A, B, C = Ordinal(0), Ordinal(1), Ordinal(2)
FIRST = Offset(0)


def configuration(epoch: int = 2, active: Ordinal = A) -> PartitionConfiguration:
    return PartitionConfiguration(
        partition=PartitionId(3),
        epoch=Epoch(epoch),
        active=active,
        in_sync=(active, B),
        replicas=(A, B, C),
    )


def entries(names: str, after: LogPoint = BEGINNING) -> tuple[list[SentEntry], list[LogPoint]]:
    """An entry for each letter, and the places before the first one and behind each of them."""
    made, points = [], [after]
    for name in names:
        here, payload = points[-1], name.encode() * 3
        entry = Entry(
            epoch=Epoch(1),
            wall_time_ms=0,
            bytes_before=0,
            kind=1,
            body=name.encode(),
            digest_before=here.digest,
            payload=Payload(len(payload), zlib.crc32(payload)),
        )
        made.append(SentEntry(encode_entry(entry), payload))
        digest = digest_after(made[-1].data)
        points.append(LogPoint(Offset(here.offset + 1), entry.epoch, digest))
    return made, points


class Follower:
    """Pod B with the entries `names`; those below `start` were cut."""

    def __init__(self, names: str, watermark: int = 0, start: int = 0) -> None:
        self.points = {point.offset: point for point in entries(names)[1] if point.offset >= start}
        self.log = Log(
            pod=B,
            configuration=configuration(),
            start=Offset(start),
            end=Offset(len(names)),
            applied=Offset(max(start, watermark)),
            watermark=Offset(max(start, watermark)),
        )

    def receive(self, append: Append) -> Take | StepBack:
        return receive(self.log, self.points.get, append)


def sent(names: str, first: int = 0, watermark: int = 0, epoch: int = 2) -> Append:
    """The entries of `names` from `first` on, as the active sends them."""
    made, points = entries(names)
    return Append(
        configuration=configuration(epoch),
        previous=points[first],
        entries=tuple(made[first:]),
        watermark=Offset(watermark),
    )


def taken(found: Take | StepBack) -> tuple[int | None, int, int, int, int]:
    assert isinstance(found, Take)
    return found.cut_from, found.first, len(found.entries), found.matched, found.watermark


@pytest.mark.parametrize(
    ("held", "append", "result"),
    [
        ("", sent("abc"), (None, 0, 3, 3, 0)),
        ("abc", sent("abcde", 3), (None, 3, 2, 5, 0)),
        ("abc", sent("abcde", 1), (None, 3, 2, 5, 0)),  # A repeat, and new ones.
        ("abc", sent("abc", 3, watermark=3), (None, 3, 0, 3, 3)),  # Nothing but the watermark.
    ],
)
def test_entries_behind_the_own_ones_are_taken(
    held: str, append: Append, result: tuple[int | None, int, int, int, int]
) -> None:
    assert taken(Follower(held).receive(append)) == result


def test_a_gap_is_answered_with_the_own_end() -> None:
    assert Follower("ab").receive(sent("abcde", 4)) == StepBack(Offset(2), Offset(4))


def test_another_entry_before_the_sent_ones_has_the_active_step_back_to_the_watermark() -> None:
    assert Follower("abX", watermark=1).receive(sent("abcde", 3)) == StepBack(Offset(1), Offset(3))


def test_own_entries_that_the_active_does_not_have_are_cut() -> None:
    assert taken(Follower("abXY", watermark=1).receive(sent("abcd", 1))) == (2, 2, 2, 4, 0)


def test_own_entries_behind_the_sent_ones_stay_and_are_not_acknowledged() -> None:
    """They may be those of an older active, which the next append shows."""
    assert taken(Follower("abXY").receive(sent("ab", watermark=4))) == (None, 2, 0, 2, 2)


@pytest.mark.parametrize("append", [sent("aXcd", 1), sent("aXcd", 2), sent("abXd", 2), sent("X")])
def test_no_entry_under_the_watermark_is_cut(append: Append) -> None:
    with pytest.raises(CorruptionError, match="were held by every in-sync replica"):
        Follower("abc", watermark=3).receive(append)


def test_the_watermark_never_covers_an_entry_that_was_not_compared() -> None:
    assert taken(Follower("abc").receive(sent("a", watermark=3)))[-1] == 1


@pytest.mark.parametrize("epoch", [1, 3])
def test_an_append_of_another_epoch_is_refused(epoch: int) -> None:
    with pytest.raises(StaleEpochError) as refused:
        Follower("ab").receive(sent("abc", 2, epoch=epoch))
    assert refused.value.details["epoch"] == 2


def test_an_append_of_the_same_epoch_from_another_pod_is_refused() -> None:
    with pytest.raises(StaleEpochError, match="by pod 2"):
        Follower("ab").receive(replace(sent("ab"), configuration=configuration(active=C)))


def test_an_active_takes_no_entries() -> None:
    follower = Follower("ab")
    held = configuration(active=B)
    follower.log = replace(follower.log, configuration=held)
    with pytest.raises(StaleEpochError):
        follower.receive(replace(sent("ab"), configuration=held))


def test_entries_that_were_cut_here_are_passed_over() -> None:
    follower = Follower("abcd", watermark=3, start=3)
    assert taken(follower.receive(sent("abcde", 1))) == (None, 4, 1, 5, 0)
    assert follower.receive(sent("ab")) == StepBack(Offset(3), Offset(0))


def damaged(change: Sequence[SentEntry]) -> Append:
    return replace(sent("abc"), entries=tuple(change))


ENTRIES = entries("abc")[0]


@pytest.mark.parametrize(
    ("append", "message"),
    [
        (damaged([ENTRIES[0], ENTRIES[2]]), "entry 1 does not continue the log"),
        (damaged([SentEntry(ENTRIES[0].data, b"aab")]), "the payload of entry 0 is damaged"),
        (damaged([SentEntry(ENTRIES[0].data, b"")]), "the payload of entry 0 is damaged"),
        (damaged([SentEntry(b"\x09" + ENTRIES[0].data[1:], b"aaa")]), "entry 0: .* version 9"),
        (damaged([SentEntry(b"", b"")]), "entry 0: "),
    ],
)
def test_damaged_entries_are_refused(append: Append, message: str) -> None:
    with pytest.raises(MalformedRequestError, match=message):
        Follower("").receive(append)


def test_equal_digests_mean_equal_entries_and_payloads() -> None:
    whole = entries("abc")[1]
    assert whole[:3] == entries("abX")[1][:3]
    assert whole[3] != entries("abX")[1][3]
    assert whole[3] != entries("Xbc")[1][3]
