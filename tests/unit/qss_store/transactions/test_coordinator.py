"""The coordinator's rules: which batch may be decided, and the end of the others."""

import pytest

from qss_core.errors import (
    BatchGapError,
    BatchInProgressError,
    BatchMismatchError,
    OtherCheckpointError,
    StaleWriterError,
    TooManyWritersError,
    UnknownWriterError,
)
from qss_core.model import Epoch, Offset, Sequence, WriterEpoch
from qss_core.wire.messages import ChunkReference, Decision, OpenWriterRequest
from qss_store.transactions.commands import (
    CloseWriter,
    Complete,
    DeleteWriter,
    ForgetWriter,
    OpenWriter,
)
from qss_store.transactions.commit_plan import Changes
from qss_store.transactions.coordinator import (
    DELETED_MAX,
    FINGERPRINTS_MAX,
    WRITERS_MAX,
    Coordinator,
)
from qss_store.transactions.writers import ONE_OFF_RETENTION_MS, Writer, check_replay

EPOCH = Epoch(7)
CLOSED_AT_MS = 1000
Chunks = dict[str, tuple[ChunkReference, ...]]


def opened(
    coordinator: Coordinator,
    run: str,
    *,
    name: str = "job",
    query: str = "q",
    open_id: str | None = None,
    take_over: bool = False,
    one_off: bool = False,
) -> Writer:
    entry = OpenWriter(
        writer=name,
        query_id=query,
        run_id=run,
        open_id=open_id or f"open-{run}",
        take_over=take_over,
        one_off=one_off,
    )
    coordinator.apply_open(EPOCH, 0, entry)
    return coordinator.writer(name)


def close(coordinator: Coordinator, writer: Writer) -> Changes:
    entry = CloseWriter(writer=writer.name, writer_epoch=writer.writer_epoch)
    return coordinator.apply_close(CLOSED_AT_MS, entry)


def decide(
    coordinator: Coordinator, writer: Writer, batch: int, *, complete: bool = True, print_: str = ""
) -> Changes:
    decision = Decision(
        sequence=Sequence(coordinator.decided + 1),
        writer=writer.name,
        generation=writer.generation,
        batch=batch,
        writer_epoch=writer.writer_epoch,
        chunks={},
        position={},
        wall_time_ms=0,
        fingerprint=print_ or f"f{batch}",
        replace=False,
        forgotten=coordinator.forgotten_by(writer.name),
    )
    changes = coordinator.apply_decide(Offset(7), decision)
    if complete:
        coordinator.apply_complete(Complete(sequence=decision.sequence))
    return changes


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def request(run: str, query: str = "q", *, take_over: bool = False) -> OpenWriterRequest:
    return OpenWriterRequest(query_id=query, run_id=run, open_id=f"open-{run}", take_over=take_over)


def test_every_opening_gets_a_higher_epoch_and_fences_the_one_before(
    coordinator: Coordinator,
) -> None:
    first = opened(coordinator, "r1")
    second = opened(coordinator, "r2")
    assert second.writer_epoch > first.writer_epoch > EPOCH
    with pytest.raises(StaleWriterError):
        coordinator.check_run("job", first.writer_epoch, 1)
    with pytest.raises(StaleWriterError):
        decide(coordinator, first, 0)
    decide(coordinator, second, 0)


def test_the_same_opening_sent_twice_gets_the_same_epoch(coordinator: Coordinator) -> None:
    first = opened(coordinator, "r1")
    assert opened(coordinator, "r1") == first


def test_a_late_copy_of_an_old_opening_does_not_come_back_to_life(coordinator: Coordinator) -> None:
    opened(coordinator, "r1")
    opened(coordinator, "r1", open_id="again")
    opened(coordinator, "r2")
    for late in ("open-r1", "again", "new"):
        with pytest.raises(StaleWriterError):
            opened(coordinator, "r1", open_id=late)
    with pytest.raises(StaleWriterError):
        coordinator.check_open("job", request("r1"))


def test_another_checkpoint_is_refused_unless_it_takes_over(coordinator: Coordinator) -> None:
    decide(coordinator, opened(coordinator, "r1"), 4)
    with pytest.raises(OtherCheckpointError, match="takeOver"):
        coordinator.check_open("job", request("r2", "other"))
    taken = opened(coordinator, "r2", query="other", take_over=True)
    assert (taken.generation, taken.last_batch) == (2, None)
    decide(coordinator, taken, 0)
    with pytest.raises(StaleWriterError):
        coordinator.check_open("job", request("r3", "q", take_over=True))


def test_a_restart_goes_on_in_its_generation(coordinator: Coordinator) -> None:
    decide(coordinator, opened(coordinator, "r1"), 4)
    again = opened(coordinator, "r2", take_over=True)
    assert (again.generation, again.last_batch) == (1, 4)
    with pytest.raises(BatchGapError):
        decide(coordinator, again, 6)
    decide(coordinator, again, 5)


def test_any_batch_may_be_the_first_of_a_generation(coordinator: Coordinator) -> None:
    writer = opened(coordinator, "r1")
    decide(coordinator, writer, 57)
    assert coordinator.writer("job").last_batch == 57


def test_nothing_is_decided_while_the_last_decision_is_not_complete(
    coordinator: Coordinator,
) -> None:
    job = opened(coordinator, "r1")
    other = opened(coordinator, "r9", name="other")
    decide(coordinator, job, 0, complete=False)
    for writer, batch in ((job, 1), (other, 0)):
        with pytest.raises(BatchInProgressError):
            decide(coordinator, writer, batch)
    assert coordinator.unfinished is not None
    coordinator.apply_complete(Complete(sequence=Sequence(1)))
    decide(coordinator, other, 0)
    assert coordinator.decided == 2


def test_a_replay_is_known_by_its_fingerprint(coordinator: Coordinator) -> None:
    decide(coordinator, opened(coordinator, "r1"), 0)
    again = opened(coordinator, "r2")
    known = check_replay(again, 0, "f0", {})
    assert known is not None
    assert known.sequence == 1
    assert check_replay(again, 1, "f1", {}) is None
    with pytest.raises(BatchMismatchError):
        check_replay(again, 0, "other", {})


def test_the_deciding_run_may_not_ask_again_with_other_chunks(coordinator: Coordinator) -> None:
    writer = opened(coordinator, "r1")
    decide(coordinator, writer, 0)
    writer = coordinator.writer("job")
    chunks: Chunks = {"0": (ChunkReference(id="1.a.0", records=1, checksum="aa"),)}
    assert check_replay(writer, 0, "f0", {"3": ()}) is not None
    with pytest.raises(BatchMismatchError, match="two writer names"):
        check_replay(writer, 0, "f0", chunks)
    # A later run may have planned other tasks: the first commit counts.
    assert check_replay(opened(coordinator, "r2"), 0, "f0", chunks) is not None


def test_a_replay_older_than_what_is_remembered_is_refused(coordinator: Coordinator) -> None:
    writer = opened(coordinator, "r1")
    for batch in range(FINGERPRINTS_MAX + 1):
        decide(coordinator, writer, batch)
    writer = coordinator.writer("job")
    assert check_replay(writer, 1, "f1", {}) is not None
    with pytest.raises(BatchMismatchError):
        check_replay(writer, 0, "f0", {})


def test_a_closed_run_decides_nothing_more_until_it_opens_anew(coordinator: Coordinator) -> None:
    writer = opened(coordinator, "r1")
    close(coordinator, writer)
    with pytest.raises(StaleWriterError, match="closed"):
        decide(coordinator, writer, 0)
    decide(coordinator, opened(coordinator, "r1", open_id="again"), 0)


def test_closing_an_old_epoch_does_not_touch_the_young_one(coordinator: Coordinator) -> None:
    old = opened(coordinator, "r1")
    young = opened(coordinator, "r2")
    close(coordinator, old)
    decide(coordinator, young, 0)


def test_a_late_abort_is_told_that_the_batch_was_decided(coordinator: Coordinator) -> None:
    writer = opened(coordinator, "r1")
    decide(coordinator, writer, 0)
    assert coordinator.was_decided("job", writer.writer_epoch, 1, 0)
    assert not coordinator.was_decided("job", writer.writer_epoch, 1, 1)


def test_chunks_are_swept_only_when_they_can_never_be_decided(coordinator: Coordinator) -> None:
    writer = opened(coordinator, "r1")
    epoch = writer.writer_epoch
    assert coordinator.verdict("job", epoch, (1, 0)) == "open"
    decide(coordinator, writer, 0, complete=False)
    assert coordinator.verdict("job", epoch, (1, 0)) == "decided"
    coordinator.apply_complete(Complete(sequence=Sequence(1)))
    assert coordinator.verdict("job", epoch, (1, 0)) == "dropped"
    assert coordinator.verdict("job", epoch, (1, 1)) == "open"
    opened(coordinator, "r2")
    assert coordinator.verdict("job", epoch, (1, 1)) == "dropped"
    assert coordinator.verdict("nobody", epoch, (1, 1)) == "dropped"


def test_a_run_that_a_deposed_coordinator_does_not_know_yet_keeps_its_chunks(
    coordinator: Coordinator,
) -> None:
    newest = opened(coordinator, "r1").writer_epoch
    for name in ("job", "nobody"):
        assert coordinator.verdict(name, WriterEpoch(newest + 1), (1, 0)) == "open"


def test_one_off_writers_that_gave_up_make_room_after_those_that_are_done(
    coordinator: Coordinator,
) -> None:
    for name in ("open", "first", "second"):
        opened(coordinator, name, name=name, one_off=True)
    assert coordinator.oldest_done_one_off() is None
    for name in ("second", "first"):
        held = coordinator.writer(name)
        close(coordinator, held)
    assert coordinator.oldest_done_one_off() == "first"
    decide(coordinator, opened(coordinator, "done", name="done", one_off=True), 0)
    assert coordinator.oldest_done_one_off() == "done"


def test_one_off_writers_are_forgotten_and_others_are_not(coordinator: Coordinator) -> None:
    opened(coordinator, "r1")
    one_off = opened(coordinator, "r2", name="batch-1", one_off=True)
    decide(coordinator, one_off, 0)
    overdue_ms = CLOSED_AT_MS + ONE_OFF_RETENTION_MS + 1
    assert coordinator.expired_one_offs(overdue_ms) == [], "a run that is open is heard of"
    close(coordinator, one_off)
    assert coordinator.expired_one_offs(overdue_ms - 1) == []
    assert coordinator.expired_one_offs(overdue_ms) == ["batch-1"]
    assert coordinator.oldest_done_one_off() == "batch-1"
    for name in ("job", "batch-1"):
        coordinator.apply_forget(ForgetWriter(writer=name))
    assert list(coordinator.writers) == ["job"]
    with pytest.raises(UnknownWriterError):
        coordinator.writer("batch-1")


def delete(coordinator: Coordinator, writer: Writer) -> Changes:
    return coordinator.apply_delete(
        DeleteWriter(writer=writer.name, writer_epoch=writer.writer_epoch)
    )


def test_a_writer_that_was_deleted_begins_above_all_that_partitions_may_remember(
    coordinator: Coordinator,
) -> None:
    opened(coordinator, "r1")
    held = opened(coordinator, "r2", query="q2", take_over=True)
    decide(coordinator, held, 5)
    delete(coordinator, held)
    with pytest.raises(UnknownWriterError):
        coordinator.check_run("job", held.writer_epoch, held.generation)
    again = opened(coordinator, "r3")
    assert (again.generation, again.last_batch) == (held.generation + 1, None)
    assert again.writer_epoch > held.writer_epoch
    assert opened(coordinator, "r", name="other").generation == held.generation + 1


def test_the_next_decisions_have_the_partitions_forget_who_was_deleted(
    coordinator: Coordinator,
) -> None:
    for number in range(150):
        delete(coordinator, opened(coordinator, "r", name=f"job-{number:03}"))
    writer = opened(coordinator, "r")
    named = []
    for batch in range(3):
        named.append(coordinator.forgotten_by("job"))
        decide(coordinator, writer, batch)
    assert list(map(len, named)) == [100, 50, 0]
    assert {*named[0], *named[1]} == {f"job-{number:03}" for number in range(150)}


def test_who_came_back_is_not_forgotten_after_its_first_batch(coordinator: Coordinator) -> None:
    for number in range(150):
        delete(coordinator, opened(coordinator, "r", name=f"job-{number:03}"))
    back = opened(coordinator, "r2", name="job-149")
    assert coordinator.forgotten_by("job-149")[0] == "job-149"
    decide(coordinator, back, 0)
    assert "job-149" not in coordinator.deleted
    assert len(coordinator.deleted) == 50


def test_a_writer_is_not_deleted_in_the_middle_of_its_batch_nor_in_another_run(
    coordinator: Coordinator,
) -> None:
    held = opened(coordinator, "r1")
    decide(coordinator, held, 0, complete=False)
    with pytest.raises(BatchInProgressError):
        delete(coordinator, held)
    coordinator.apply_complete(Complete(sequence=coordinator.decided))
    opened(coordinator, "r2")
    with pytest.raises(StaleWriterError):
        delete(coordinator, held)
    assert list(coordinator.writers) == ["job"]


def test_there_is_a_limit_of_writers_to_be_forgotten(coordinator: Coordinator) -> None:
    for number in range(DELETED_MAX):
        delete(coordinator, opened(coordinator, "r", name=f"job-{number}"))
    with pytest.raises(TooManyWritersError, match="write a batch first"):
        delete(coordinator, opened(coordinator, "r"))
    delete(coordinator, opened(coordinator, "r2", name="job-0"))
    assert len(coordinator.deleted) == DELETED_MAX


def test_there_is_a_limit_of_writers(coordinator: Coordinator) -> None:
    for number in range(WRITERS_MAX):
        opened(coordinator, "r", name=f"job-{number}")
    with pytest.raises(TooManyWritersError):
        opened(coordinator, "r", name="one-more")
    opened(coordinator, "r2", name="job-0")


def test_a_state_is_what_its_rows_say(coordinator: Coordinator) -> None:
    rows: dict[bytes, bytes] = {}

    def keep(changes: Changes) -> None:
        for key, value in changes.items():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value

    entry = OpenWriter(
        writer="job", query_id="q", run_id="r", open_id="o", take_over=False, one_off=False
    )
    keep(coordinator.apply_open(EPOCH, 0, entry))
    keep(decide(coordinator, coordinator.writer("job"), 3, complete=False))
    assert Coordinator.load(rows) == coordinator
    keep(coordinator.apply_complete(Complete(sequence=Sequence(1))))
    keep(close(coordinator, coordinator.writer("job")))
    assert Coordinator.load(rows) == coordinator
