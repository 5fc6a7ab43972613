"""The log of partition 0 tells its batches by the decisions that were taken."""

from qss_core.model import Epoch, PartitionId, Sequence, WriterEpoch
from qss_core.wire.messages import ChunkReference, Decision, partition_commit
from qss_store.http.status.earlier_batches import BatchReading
from qss_store.replication.entries import encode_entry
from qss_store.transactions.commands import (
    Command,
    Commit,
    Complete,
    Decide,
    LoggedCommand,
    entry_of,
)


def decision(sequence: int, writer: str = "job", epoch: int = 1, rows: int = 2) -> Decision:
    chunk = ChunkReference(id="c", records=rows, checksum="0")
    return Decision(
        sequence=Sequence(sequence),
        writer=writer,
        generation=1,
        batch=sequence,
        writer_epoch=WriterEpoch(epoch),
        chunks={"0": (chunk,), "1": (chunk, chunk)},
        position={},
        wall_time_ms=1000 * sequence,
        fingerprint="f",
        replace=False,
    )


def batch(taken: Decision) -> list[Command]:
    """The entries of a complete batch."""
    commit = Commit(commit=partition_commit(taken, PartitionId(0)))
    return [Decide(decision=taken), commit, Complete(sequence=taken.sequence)]


def read(commands: list[Command], missing: set[int]) -> BatchReading:
    """Reads a log from its end."""
    reading = BatchReading(missing)
    logged = [LoggedCommand(Epoch(1), 5, command) for command in commands]
    reading.read([encode_entry(entry_of(one, 0)) for one in reversed(logged)])
    return reading


def test_the_missing_batches_are_found_with_their_rows() -> None:
    log = [command for number in range(1, 5) for command in batch(decision(number))]
    reading = read(log, {2, 3})
    told = {number: (one.writer, one.rows) for number, one in reading.found.items()}
    assert told == {2: ("job", 6), 3: ("job", 6)}
    assert reading.found[3].committed_at_ms == 3000
    assert reading.is_done
    assert not read(batch(decision(2)), {2, 1}).is_done


def test_a_decision_that_was_refused_tells_nothing() -> None:
    taken = decision(1, "younger", epoch=2, rows=1)
    fenced, late = Decide(decision=decision(1)), Decide(decision=decision(1, "late", epoch=3))
    reading = read([fenced, *batch(taken), late], {1})
    assert {number: one.writer for number, one in reading.found.items()} == {1: "younger"}
    assert read([fenced], {1}).found == {}
