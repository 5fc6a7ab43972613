"""Pods and operators of the version before and of this one read each other's messages.

`before/messages.json` was recorded from the version before: its documents, and the schemas by which
it reads, which refuse unknown members. `before/record.py` made it.
"""

import dataclasses
from typing import Any

import msgspec
import pytest

from qss_core.errors import CorruptionError, MalformedRequestError
from qss_core.model import Epoch, Role, StoreAssignment, StoreSettings
from qss_core.version import MESSAGE_VERSION
from qss_core.wire import losses, messages, replica_reports
from qss_core.wire.losses import (
    AcceptLossRequest,
    BatchesHeld,
    LastBatch,
    LostReplica,
    SequencesAnswer,
    SequencesRequest,
)
from qss_core.wire.messages import PartitionsAnswer, StoreMetadata, decode, encode, metadata_of
from qss_core.wire.replica_reports import (
    CopyReport,
    FullVolume,
    ReplicaReport,
    ReplicasReport,
    UnlikeRows,
    VolumeUse,
)
from qss_core.wire.versions import VERSION_1, for_version, version_in
from qss_store.transactions.commands import AcceptLoss, LoggedCommand, command_of, entry_of
from qss_testing.messages_before import DOCUMENTS, refusal_before

KINDS: dict[str, type[Any]] = {
    name: kind
    for module in (losses, messages, replica_reports)
    for name, kind in vars(module).items()
    if name in DOCUMENTS
}
ASSIGNMENT = decode(encode(DOCUMENTS["StoreAssignment"]), StoreAssignment)
(CONFIGURATION,) = ASSIGNMENT.partitions
LAST = LastBatch(
    writer="job",
    generation=1,
    batch=6,
    sequence=7,  # type: ignore[arg-type]
    one_off=False,
    writer_epoch=2,  # type: ignore[arg-type]
    wall_time_ms=5,
)


def full(kind: type[Any], **given: Any) -> Any:
    """The recorded message of the kind, with all members that this version added."""
    return msgspec.structs.replace(decode(encode(DOCUMENTS[kind.__name__]), kind), **given)


def replica() -> ReplicaReport:
    recorded: ReplicaReport = full(ReplicasReport).replicas[0]
    return msgspec.structs.replace(
        recorded,
        role=Role.ACTIVE,
        answers=True,
        is_damaged=True,
        is_stopped=True,
        has_damage=True,
        detail="a row",
        asks_for_epoch=True,
        silent=(1,),
        caught_up=(1,),
        lacks_lease=True,
        misses_active=True,
        is_compared=True,
        waits_for_lease=True,
        unlike=UnlikeRows(pods=(0, 1), epoch=3, sequence=7, offset=9),  # type: ignore[arg-type]
    )


def newest_messages() -> dict[str, Any]:
    """Messages of this version that say all that they can say."""
    lost = LostReplica(
        partition=1,  # type: ignore[arg-type]
        error="damaged",
        is_misplaced=True,
        configuration=CONFIGURATION,
    )
    held = msgspec.structs.replace(
        full(SequencesAnswer).held, unfinished=LAST, inputs={"job": (("input", 0),)}, last=(LAST,)
    )
    settings = StoreSettings(lease_ms=1, replica_timeout_ms=2, snapshot_bytes_per_s=3)
    assignment = msgspec.structs.replace(
        ASSIGNMENT, settings=settings, resource_uid="u", incarnation="a1", generation=4
    )
    return {
        "ReplicasReport": full(
            ReplicasReport,
            replicas=(replica(),),
            lost=(lost,),
            volume=VolumeUse(room_bytes=1, data_bytes=2),
            full_volume=FullVolume(
                free_bytes=1,
                kept_back_bytes=2,
                size_bytes=3,
                copy_bytes=4,
                refused_copies=(1,),  # type: ignore[arg-type]
            ),
            copies=(CopyReport(partition=0, done_bytes=1, total_bytes=2),),  # type: ignore[arg-type]
            pods_kept=2,
            unassigned=(1,),
            is_leaving=True,
        ),
        "StoreAssignment": assignment,
        "AcceptLossRequest": full(AcceptLossRequest, assignment=assignment),
        "SequencesRequest": full(SequencesRequest, forgotten=3, writer_epoch=4),
        "SequencesAnswer": full(SequencesAnswer, forgotten=3, writer_epoch=4, held=held),
        "PartitionsAnswer": full(PartitionsAnswer, writer_epoch=4),
        "StoreMetadata": metadata_of(ASSIGNMENT),
    }


def refusal(name: str, message: object) -> str | None:
    """Why the version before refuses a message of this one; None where it reads it."""
    return refusal_before(name, encode(message))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_this_version_reads_what_the_one_before_says(name: str) -> None:
    kind = StoreAssignment if name == "StoreAssignment" else KINDS[name]
    message = decode(encode(DOCUMENTS[name]), kind)
    told = msgspec.to_builtins(message)
    assert {one: told[one] for one in DOCUMENTS[name] if one in told} == {
        one: said for one, said in told.items() if one in DOCUMENTS[name]
    }
    assert refusal(name, message) is None, "and what it says itself of the same"


@pytest.mark.parametrize("name", newest_messages())
def test_the_version_before_reads_what_is_made_for_it(name: str) -> None:
    assert refusal(name, for_version(newest_messages()[name], VERSION_1)) is None


@pytest.mark.parametrize("name", [one for one in newest_messages() if one != "StoreMetadata"])
def test_the_version_before_refuses_the_same_messages_as_this_version_says_them(name: str) -> None:
    newest = newest_messages()[name]
    assert "Additional properties are not allowed" in str(refusal(name, newest))
    assert for_version(newest, MESSAGE_VERSION) is newest


def test_what_is_made_for_the_version_before_keeps_all_that_it_knows() -> None:
    told = for_version(newest_messages()["ReplicasReport"], VERSION_1)
    assert msgspec.structs.replace(told, lost=()) == full(ReplicasReport, lost=())
    (lost,) = told.lost
    assert (lost.partition, lost.error) == (1, "damaged")
    answer = for_version(newest_messages()["SequencesAnswer"], VERSION_1)
    assert answer == full(SequencesAnswer)
    assert isinstance(answer.held, BatchesHeld)


def test_a_full_volume_of_the_version_before_names_no_refused_copies() -> None:
    told = {"freeBytes": 1, "keptBackBytes": 2, "sizeBytes": 3, "neededBytes": 0, "copyBytes": 4}
    report = decode(encode(told), FullVolume)
    assert (report.copy_bytes, report.refused_copies) == (4, ())
    assert encode(report) == encode({**told, "refusedCopies": []})


@pytest.mark.parametrize("name", ["ReplicasReport", "SequencesAnswer", "StoreMetadata"])
def test_unknown_members_of_answers_are_ignored(name: str) -> None:
    document = {**DOCUMENTS[name], "isOfTomorrow": True}
    assert decode(encode(document), KINDS[name]) == decode(encode(DOCUMENTS[name]), KINDS[name])


def test_unknown_members_of_an_assignment_are_refused_by_name() -> None:
    settings = {**DOCUMENTS["StoreAssignment"]["settings"], "ofTomorrow": 1}
    document = {**DOCUMENTS["StoreAssignment"], "settings": settings}
    with pytest.raises(MalformedRequestError, match="ofTomorrow"):
        decode(encode(document), StoreAssignment)


def test_unknown_members_of_what_a_log_keeps_of_an_answer_are_refused() -> None:
    """Each replica carries out the entry of an accepted loss: none may leave out a part of it."""
    held = DOCUMENTS["SequencesAnswer"]["held"]
    (last,) = held["last"]
    command = AcceptLoss(held=decode(encode(held), BatchesHeld))
    logged = entry_of(LoggedCommand(Epoch(1), 0, command), bytes_before=0)
    assert command_of(logged).command == command
    for newer in ({**held, "ofTomorrow": 1}, {**held, "last": [{**last, "ofTomorrow": 1}]}):
        body = encode({"held": newer})
        with pytest.raises(CorruptionError, match="ofTomorrow"):
            command_of(dataclasses.replace(logged, body=body))


@pytest.mark.parametrize(
    ("named", "version"),
    [({}, 1), ({"Qss-Message-Version": "2"}, 2), ({"Qss-Message-Version": "3"}, 3)]
    + [({"Qss-Message-Version": text}, 1) for text in ("", "x", "-2", "99999")],
)
def test_a_side_that_names_no_version_is_the_one_before(
    named: dict[str, str], version: int
) -> None:
    assert version_in(named) == version


def test_metadata_is_for_clients_of_both_versions() -> None:
    assert decode(encode(metadata_of(ASSIGNMENT)), StoreMetadata) == metadata_of(ASSIGNMENT)
