"""The position after a take-over, where several writers have set its components."""

from typing import Any

import pytest

from qss_core.model import Offset, Sequence, WriterEpoch
from qss_core.wire.messages import PartitionCommit
from qss_store.transactions.participant import Participant

STORED: dict[bytes, bytes] = {}


def commit(sequence: int, writer: str, **members: Any) -> PartitionCommit:
    told = {"generation": 1, "batch": 0, "replace": False, **members}
    epoch = WriterEpoch(sequence)
    return PartitionCommit(
        sequence=Sequence(sequence),
        writer=writer,
        writer_epoch=epoch,
        chunks=(),
        wall_time_ms=1,
        **told,
    )


def applied(participant: Participant, sequence: int, writer: str, **members: Any) -> None:
    plan = participant.apply_commit(Offset(sequence), commit(sequence, writer, **members))
    assert plan is not None
    STORED.update({key: value for key, value in plan.changes.items() if value is not None})
    for key in [key for key, value in plan.changes.items() if value is None]:
        STORED.pop(key, None)


@pytest.fixture(params=[False, True], ids=["running", "restarted"])
def two_readers(request: pytest.FixtureRequest) -> Participant:
    """Writers a and b read one topic each, and both read partition 1 of a third topic."""
    STORED.clear()
    participant = Participant()
    applied(participant, 1, "a", position={"flights": {"0": 100, "1": 40}, "mine": {"0": 1}})
    applied(participant, 2, "b", position={"flights": {"1": 50}, "yours": {"0": 2}})
    return Participant.load(STORED) if request.param else participant


def inputs_of(participant: Participant) -> dict[str, dict[str, int]]:
    position = participant.position.to_json()
    return {topic: of_it for topic, of_it in position.items() if not topic.startswith("@batch.")}


def test_a_take_over_keeps_what_another_writer_has_read(two_readers: Participant) -> None:
    applied(two_readers, 3, "b", generation=2, position={"flights": {"1": 3}})
    assert inputs_of(two_readers) == {"flights": {"0": 100, "1": 50}, "mine": {"0": 1}}


def test_a_take_over_drops_what_its_older_generation_alone_has_read(
    two_readers: Participant,
) -> None:
    applied(two_readers, 3, "a", generation=2, position={"flights": {"0": 7}})
    assert inputs_of(two_readers) == {"flights": {"0": 7, "1": 50}, "yours": {"0": 2}}


def test_a_second_take_over_drops_what_the_first_one_has_read(two_readers: Participant) -> None:
    applied(two_readers, 3, "a", generation=2, position={"other": {"0": 7}})
    applied(two_readers, 4, "a", generation=3, position={"flights": {"0": 1}})
    assert inputs_of(two_readers) == {"flights": {"0": 1, "1": 50}, "yours": {"0": 2}}


def test_rows_that_are_replaced_take_what_all_writers_have_read_with_them(
    two_readers: Participant,
) -> None:
    applied(two_readers, 3, "b", batch=1, replace=True, position={"yours": {"0": 9}})
    applied(two_readers, 4, "b", generation=2, position={"flights": {"1": 3}})
    assert inputs_of(two_readers) == {"flights": {"1": 3}}


def test_a_writer_of_an_older_version_is_taken_to_have_read_everything() -> None:
    STORED.clear()
    participant = Participant()
    applied(participant, 1, "a", position={"flights": {"0": 100}})
    applied(participant, 2, "b", position={"flights": {"1": 50}})
    older = {key: value for key, value in STORED.items() if not key.startswith(b"read/")}
    two = Participant.load(older)
    applied(two, 3, "b", generation=2, position={"flights": {"1": 3}})
    assert inputs_of(two) == {"flights": {"0": 100, "1": 50}}
    alone = Participant.load({key: one for key, one in older.items() if key != b"last/a"})
    applied(alone, 3, "b", generation=2, position={"flights": {"1": 3}})
    assert inputs_of(alone) == {"flights": {"1": 3}}
