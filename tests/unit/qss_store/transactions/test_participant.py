"""A partition's rules for batches: which messages it accepts, refuses and drops."""

import json

import pytest

from qss_core.errors import (
    BatchClosedError,
    ChunkMismatchError,
    ChunkMissingError,
    OutOfOrderError,
)
from qss_core.model import Offset, Sequence, WriterEpoch
from qss_core.positions import PositionJson
from qss_core.wire.messages import ChunkReference, PartitionCommit
from qss_store.transactions.commands import Abort, Stage
from qss_store.transactions.commit_plan import Changes, CommitPlan
from qss_store.transactions.participant import ONE_OFFS_MAX, Participant

WRITER = "job"


def stage(
    chunk: str,
    batch: int = 0,
    *,
    generation: int = 1,
    checksum: str = "aa",
    latest: int | None = None,
    deletes: int = 0,
    undated: int = 0,
) -> Stage:
    epoch = int(chunk.split(".")[0])
    return Stage(
        writer=WRITER,
        generation=generation,
        batch=batch,
        writer_epoch=WriterEpoch(epoch),
        chunk=chunk,
        records=2,
        checksum=checksum,
        payload_bytes=100,
        latest=latest,
        deletes=deletes,
        undated=undated,
    )


def commit(
    sequence: int,
    *chunks: str,
    batch: int = 0,
    generation: int = 1,
    writer: str = WRITER,
    position: PositionJson | None = None,
    replace: bool = False,
    one_off: bool = False,
    forgotten: tuple[str, ...] = (),
) -> PartitionCommit:
    epoch = int(chunks[0].split(".")[0]) if chunks else 1
    return PartitionCommit(
        sequence=Sequence(sequence),
        writer=writer,
        generation=generation,
        batch=batch,
        writer_epoch=WriterEpoch(epoch),
        chunks=tuple(ChunkReference(id=one, records=2, checksum="aa") for one in chunks),
        position=position or {},
        wall_time_ms=1000,
        replace=replace,
        one_off=one_off,
        forgotten=forgotten,
    )


def applied(participant: Participant, one: PartitionCommit) -> CommitPlan:
    plan = participant.apply_commit(Offset(9), one)
    assert plan is not None
    return plan


@pytest.fixture
def participant() -> Participant:
    return Participant()


def test_only_the_listed_chunks_are_applied_and_the_others_of_the_batch_are_dropped(
    participant: Participant,
) -> None:
    for offset, chunk in enumerate(["1.a.0", "1.b.0", "1.c.0"]):
        participant.apply_stage(Offset(offset), 0, stage(chunk))
    plan = applied(participant, commit(1, "1.c.0", "1.a.0"))
    assert plan.payloads == (2, 0), "in the order of the decision"
    assert participant.staged.by_id == {}
    assert participant.sequence == 1


def test_a_commit_that_was_applied_is_told_so_and_changes_nothing(participant: Participant) -> None:
    applied(participant, commit(1))
    assert participant.apply_commit(Offset(9), commit(1)) is None
    assert participant.sequence == 1


def test_a_commit_before_its_turn_is_sent_back(participant: Participant) -> None:
    with pytest.raises(OutOfOrderError):
        participant.apply_commit(Offset(9), commit(2))
    assert participant.sequence == 0


@pytest.mark.parametrize(
    "held",
    [
        [],
        [stage("1.a.0", checksum="bb")],
        [stage("1.a.0", batch=1)],
        [stage("1.a.0", generation=2)],
    ],
)
def test_a_chunk_counts_only_as_the_commit_names_it(
    participant: Participant, held: list[Stage]
) -> None:
    for offset, one in enumerate(held):
        participant.apply_stage(Offset(offset), 0, one)
    with pytest.raises(ChunkMissingError):
        participant.apply_commit(Offset(9), commit(1, "1.a.0"))


def test_a_chunk_of_another_run_is_no_chunk_of_this_batch(participant: Participant) -> None:
    participant.apply_stage(Offset(0), 0, stage("1.a.0"))
    references = [ChunkReference(id="1.a.0", records=2, checksum="aa")]
    with pytest.raises(ChunkMissingError):
        participant.check_prepare(WRITER, (1, 0), WriterEpoch(2), references)


def test_the_same_chunk_again_is_a_no_op_and_other_rows_are_refused(
    participant: Participant,
) -> None:
    assert participant.check_stage(stage("1.a.0"))
    participant.apply_stage(Offset(0), 0, stage("1.a.0"))
    assert not participant.check_stage(stage("1.a.0"))
    assert participant.apply_stage(Offset(1), 0, stage("1.a.0")) == {}
    with pytest.raises(ChunkMismatchError):
        participant.check_stage(stage("1.a.0", checksum="bb"))
    with pytest.raises(ChunkMismatchError):
        participant.check_stage(stage("1.a.0", batch=1))


@pytest.mark.parametrize(("generation", "batch"), [(1, 4), (1, 5), (0, 9)])
def test_a_stage_at_or_below_the_last_applied_batch_is_closed(
    participant: Participant, generation: int, batch: int
) -> None:
    applied(participant, commit(1, batch=5))
    with pytest.raises(BatchClosedError):
        participant.check_stage(stage("1.a.0", batch, generation=generation))
    assert participant.check_stage(stage("1.a.0", 6))
    assert participant.check_stage(stage("2.a.0", 0, generation=2))


def test_an_abort_drops_nothing_of_a_younger_run_or_an_earlier_batch(
    participant: Participant,
) -> None:
    for offset, one in enumerate(
        [stage("1.a.0", 3), stage("1.b.0", 4), stage("2.a.0", 4), stage("1.c.0", 5)]
    ):
        participant.apply_stage(Offset(offset), 0, one)
    participant.apply_abort(
        Abort(writer=WRITER, generation=1, batch=4, writer_epoch=WriterEpoch(1))
    )
    assert {chunk for _, chunk in participant.staged.by_id} == {"1.a.0", "2.a.0"}


def test_a_sweep_drops_just_its_batch_of_its_run(participant: Participant) -> None:
    for offset, one in enumerate([stage("1.a.0", 3), stage("1.b.0", 4), stage("2.a.0", 3)]):
        participant.apply_stage(Offset(offset), 0, one)
    participant.apply_abort(
        Abort(
            writer=WRITER,
            generation=1,
            batch=3,
            writer_epoch=WriterEpoch(1),
            only_this_batch=True,
        )
    )
    assert {chunk for _, chunk in participant.staged.by_id} == {"1.b.0", "2.a.0"}


def test_what_was_staged_too_long_ago_is_named_once_a_run_and_batch(
    participant: Participant,
) -> None:
    for offset, (one, at) in enumerate(
        [(stage("1.a.0"), 0), (stage("1.b.0"), 10), (stage("1.c.0", 1), 10), (stage("2.a.0"), 99)]
    ):
        participant.apply_stage(Offset(offset), at, one)
    overdue = participant.overdue(now_ms=100, timeout_ms=50)
    assert sorted((one.writer_epoch, one.batch) for one in overdue) == [(1, 0), (1, 1)]


def test_the_position_moves_with_every_batch(participant: Participant) -> None:
    applied(participant, commit(1, position={"flights": {"0": 9}, "planes": {}}))
    applied(participant, commit(2, batch=1, position={"flights": {"0": 9, "1": 4}}))
    assert participant.position.to_json() == {
        "@batch.job": {"1": 1},
        "flights": {"0": 9, "1": 4},
        "planes": {},
    }


def test_a_new_generation_begins_with_the_position_that_it_has_read(
    participant: Participant,
) -> None:
    applied(participant, commit(1, batch=7, position={"flights": {"0": 900}}))
    applied(participant, commit(2, batch=0, generation=2, position={"flights": {"0": 3}}))
    assert participant.position.to_json() == {
        "@batch.job": {"1": 7, "2": 0},
        "flights": {"0": 3},
    }


def test_replacing_all_rows_takes_back_what_their_inputs_were(participant: Participant) -> None:
    applied(participant, commit(1, position={"flights": {"0": 900}}))
    plan = applied(participant, commit(2, writer="batch-1", replace=True))
    assert plan.replaces
    assert plan.data_generation == 1
    assert set(participant.position.to_json()) == {"@batch.job", "@batch.batch-1"}


def test_a_one_off_leaves_the_position_with_the_next_batch(participant: Participant) -> None:
    applied(participant, commit(1, position={"flights": {"0": 9}}))
    for number in range(2, ONE_OFFS_MAX + 5):
        name = f"batch-{number}"
        applied(participant, commit(number, writer=name, one_off=True))
        topics = {"@batch.job", f"@batch.{name}", "flights"}
        assert set(participant.position.to_json()) == topics, "the newest one is in it"
    one_offs = [name for name in participant.last if name.startswith("batch-")]
    assert len(one_offs) == ONE_OFFS_MAX, "late attempts of theirs are refused"
    applied(participant, commit(ONE_OFFS_MAX + 5, batch=1))
    assert set(participant.position.to_json()) == {"@batch.job", "flights"}


def test_a_writer_that_was_deleted_is_forgotten_with_the_next_batch(
    participant: Participant,
) -> None:
    applied(participant, commit(1, batch=7, writer="gone"))
    applied(participant, commit(2, batch=7, position={"flights": {"0": 9}}))
    gone = ("gone", "never seen")
    plan = applied(participant, commit(3, writer="other", forgotten=gone))
    assert plan.changes[b"last/gone"] is None
    assert set(participant.last) == {"job", "other"}
    assert set(participant.position.to_json()) == {"@batch.job", "@batch.other", "flights"}
    # The deleted writer has opened again under its name, and commits this batch itself.
    plan = applied(participant, commit(4, generation=2, forgotten=("job",)))
    assert plan.changes[b"last/job"] is not None
    assert participant.position.to_json()["@batch.job"] == {"2": 0}


def test_a_state_is_what_its_rows_say(participant: Participant) -> None:
    rows: dict[bytes, bytes] = {}

    def keep(changes: Changes) -> None:
        for key, value in changes.items():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    keep(participant.apply_stage(Offset(0), 5, stage("1.a.0")))
    keep(participant.apply_stage(Offset(1), 6, stage("1.b.0", 1)))
    keep(applied(participant, commit(1, "1.a.0", position={"flights": {"0": 1}})).changes)
    again = Participant.load(rows)
    assert again == participant


# --- Times


def test_stream_time_is_the_largest_time_of_what_was_committed() -> None:
    participant = Participant()
    for number, latest in enumerate((50, None, 70)):
        participant.apply_stage(Offset(number), 0, stage(f"1.t{number}.0", latest=latest))
    plan = applied(participant, commit(1, "1.t0.0", "1.t1.0"))
    assert (plan.stream_time, participant.stream_time) == (50, 50)


def test_stream_time_never_goes_back_but_where_all_rows_are_replaced() -> None:
    participant = Participant()
    times = []
    for number, (latest, replace) in enumerate([(50, False), (40, False), (30, True)]):
        chunk = f"1.t{number}.0"
        participant.apply_stage(Offset(number), 0, stage(chunk, number, latest=latest))
        plan = applied(participant, commit(number + 1, chunk, batch=number, replace=replace))
        times.append(plan.stream_time)
    assert times == [50, 50, 30]
    emptied = applied(participant, commit(4, batch=3, replace=True))
    assert emptied.stream_time == -1


def test_rows_without_a_time_of_their_own_move_stream_time_to_that_of_their_batch() -> None:
    participant = Participant()
    participant.apply_stage(Offset(0), 0, stage("1.t.0", latest=50, undated=1))
    committed = commit(1, "1.t.0")
    plan = applied(participant, committed)
    assert plan.stream_time == participant.stream_time == max(50, committed.wall_time_ms)


def test_a_batch_knows_the_stream_time_before_it_unless_it_replaces_all_rows() -> None:
    participant = Participant()
    before = []
    for number, replace in enumerate((False, False, True)):
        chunk = f"1.t{number}.0"
        participant.apply_stage(Offset(number), 0, stage(chunk, number, latest=10 + number))
        plan = applied(participant, commit(number + 1, chunk, batch=number, replace=replace))
        before.append(plan.stream_time_before)
    assert before == [-1, 10, -1]


def test_puts_are_counted_from_where_the_batch_before_ended_and_deletes_are_none() -> None:
    participant = Participant()
    before = []
    for number in range(3):
        chunk = f"1.t{number}.0"
        participant.apply_stage(Offset(number), 0, stage(chunk, number, latest=1, deletes=number))
        before.append(applied(participant, commit(number + 1, chunk, batch=number)).puts_before)
    assert before == [0, 2, 3]
    assert participant.puts == 3


def test_the_count_of_puts_goes_on_at_zero_after_the_largest_number() -> None:
    participant = Participant(puts=2**31 - 1)
    participant.apply_stage(Offset(0), 0, stage("1.t.0", latest=1))
    applied(participant, commit(1, "1.t.0"))
    assert participant.puts == 1


def test_stream_time_and_puts_are_what_a_restart_finds() -> None:
    participant = Participant()
    participant.apply_stage(Offset(0), 0, stage("1.t.0", latest=9))
    changes = applied(participant, commit(1, "1.t.0")).changes
    found = Participant.load({key: value for key, value in changes.items() if value is not None})
    assert (found.stream_time, found.puts) == (9, 2)


def test_staged_rows_keep_their_times_over_a_restart() -> None:
    participant = Participant()
    changes = participant.apply_stage(Offset(0), 0, stage("1.t.0", latest=9, deletes=1))
    found = Participant.load({key: value for key, value in changes.items() if value is not None})
    assert found.staged == participant.staged


def test_what_an_older_pod_has_kept_is_read() -> None:
    rows = Participant().apply_stage(Offset(0), 0, stage("1.t.0", 1))
    rows[b"participant"] = applied(Participant(), commit(1)).changes[b"participant"]
    kept = {}
    for key, value in rows.items():
        assert value is not None
        members = json.loads(value)
        older = members.keys() - {"puts", "latest", "deletes"}
        kept[key] = json.dumps({name: members[name] for name in older}).encode()
    found = Participant.load(kept)
    assert (found.sequence, found.puts) == (1, 0)
    assert [(chunk.latest, chunk.deletes) for chunk in found.staged.values()] == [(None, 0)]
