"""The staged slices that readers of uncommitted rows see."""

from qss_core.model import Offset, Sequence, WriterEpoch
from qss_core.wire.messages import ChunkReference, PartitionCommit
from qss_store.transactions.commands import Abort, Stage
from qss_store.transactions.participant import Participant
from qss_store.transactions.staged import Clocks, StagedChunk, visible_chunks

_NOBODY: dict[str, WriterEpoch] = {}


def chunk(
    offset: int, name: str, *, writer: str = "w", generation: int = 1, batch: int = 0
) -> StagedChunk:
    return StagedChunk(
        offset=Offset(offset),
        writer=writer,
        generation=generation,
        batch=batch,
        writer_epoch=WriterEpoch(int(name.split(".")[0])),
        chunk=name,
        records=3,
        checksum="aa",
        payload_bytes=10,
        wall_time_ms=5,
        deletes=1,
        latest=70,
    )


def seen(*chunks: StagedChunk, committed: dict[str, WriterEpoch] = _NOBODY) -> list[int]:
    return [one.offset for one in visible_chunks(chunks, committed)]


def test_what_is_staged_is_seen_in_the_order_of_the_log() -> None:
    assert seen(chunk(9, "1.t1a4-0.0"), chunk(2, "1.t0a3-0.0"), chunk(4, "1.t0a3-0.1")) == [2, 4, 9]
    assert seen() == []


def test_only_the_newest_attempt_of_a_task_is_seen() -> None:
    first = [chunk(1, "1.t7a3-0.0"), chunk(2, "1.t7a3-1.0")]
    retried = [chunk(4, "1.t7a10-0.0"), chunk(5, "1.t8a4-0.0")]
    late = chunk(6, "1.t7a3-2.0")
    assert seen(*first, *retried, late) == [4, 5]


def test_an_id_without_an_attempt_hides_nothing() -> None:
    assert seen(chunk(1, "1.driver5-0.0"), chunk(2, "1.driver5-1.0"), chunk(3, "1.b.0")) == [
        1,
        2,
        3,
    ]


def test_a_run_that_a_younger_one_has_fenced_is_not_seen() -> None:
    assert seen(chunk(1, "1.a.0"), chunk(2, "2.b.0"), chunk(3, "1.c.0")) == [2]


def test_a_run_that_is_older_than_the_last_commit_is_not_seen() -> None:
    late = chunk(9, "1.a.0", batch=4)
    assert seen(late, committed={"w": WriterEpoch(2)}) == []
    assert seen(late, committed={"w": WriterEpoch(1), "x": WriterEpoch(5)}) == [9]


def test_only_the_newest_batch_of_a_run_is_seen() -> None:
    assert seen(chunk(1, "1.a.0", batch=3), chunk(2, "1.b.0", batch=4)) == [2]
    assert seen(chunk(1, "1.a.0", batch=9), chunk(2, "1.b.0", generation=2, batch=0)) == [2]


def test_each_writer_has_an_open_batch_of_its_own() -> None:
    chunks = chunk(1, "5.a.0", writer="v", batch=8), chunk(2, "2.a.0"), chunk(3, "1.b.0")
    assert seen(*chunks) == [1, 2]


def test_the_participant_remembers_the_run_of_the_last_commit_also_from_its_rows() -> None:
    participant = Participant()
    stage = {"writer": "w", "generation": 1, "records": 1, "checksum": "aa", "payload_bytes": 9}
    rows: dict[bytes, bytes | None] = {}
    epoch = WriterEpoch(2)
    first = Stage(batch=0, writer_epoch=epoch, chunk="2.a.0", **stage)  # type: ignore[arg-type]
    rows |= participant.apply_stage(Offset(1), 5, first)
    assert [one.offset for one in participant.uncommitted().chunks] == [1]
    commit = PartitionCommit(
        sequence=Sequence(1),
        writer="w",
        generation=1,
        batch=0,
        writer_epoch=epoch,
        chunks=(ChunkReference(id="2.a.0", records=1, checksum="aa"),),
        position={},
        wall_time_ms=5,
        replace=False,
    )
    plan = participant.apply_commit(Offset(9), commit)
    assert plan is not None
    rows |= plan.changes
    assert participant.uncommitted().chunks == ()
    late = Stage(batch=1, writer_epoch=WriterEpoch(1), chunk="1.z.0", **stage)  # type: ignore[arg-type]
    rows |= participant.apply_stage(Offset(3), 5, late)
    assert participant.uncommitted().chunks == ()
    again = Participant.load({key: row for key, row in rows.items() if row is not None})
    assert again.uncommitted().chunks == ()
    assert again == participant


def test_what_an_abort_drops_is_not_seen_any_more() -> None:
    participant = Participant()
    for name in ("2.a.0", "2.b.0"):
        one = chunk(1, name)
        participant.staged.by_id["w", name] = one
    participant.apply_abort(Abort(writer="w", generation=1, batch=0, writer_epoch=WriterEpoch(2)))
    assert participant.uncommitted().chunks == ()


def test_clocks_go_on_behind_a_chunk() -> None:
    assert Clocks(100, 2**31 - 1).after(chunk(1, "1.a.0"), 5) == Clocks(100, 1)
    assert Clocks(50, 0).after(chunk(1, "1.a.0"), 500) == Clocks(70, 2)
