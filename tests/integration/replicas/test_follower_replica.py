"""A replica that follows: it takes, applies, cuts and refuses what its active sends."""

import asyncio
import zlib

import msgspec
import pyarrow as pa
import pytest

from qss_client.chunks.chunk import Slice, encode_slice
from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    MalformedRequestError,
    NotActiveError,
    NotReadyError,
    StaleEpochError,
    WrongStoreError,
)
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    Sequence,
    WriterEpoch,
)
from qss_core.wire.messages import ChunkReference, PartitionCommit
from qss_store.replicas.replica import Replica
from qss_store.replication.digest import LogPoint, digest_after
from qss_store.replication.entries import Payload, decode_entry, encode_entry
from qss_store.replication.follower import Append, SentEntry, StepBack
from qss_store.storage.commit_rows.commit_writer import APPLYING
from qss_store.storage.engine import META, Batch, PassingError
from qss_store.transactions.commands import (
    Abort,
    Command,
    Commit,
    LoggedCommand,
    Stage,
    command_of,
    entry_of,
)
from qss_store.transactions.machine import Outcome
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.one_replica import BEGINNING, started_replica
from qss_testing.pods.stores import configuration
from qss_testing.waiting import wait_until_async

FOLLOWS = configuration(0, 0, standbys=[1])
LEADS = configuration(0, 1, standbys=[0], epoch=2)


def abort(batch: int) -> Abort:
    return Abort(writer="w", generation=1, batch=batch, writer_epoch=WriterEpoch(1))


class Log:
    """The log of the active, made by hand."""

    def __init__(self, held: PartitionConfiguration = FOLLOWS) -> None:
        self.held = held
        self.entries: list[SentEntry] = []
        self.points: list[LogPoint] = [BEGINNING]

    def add(self, command: Command, payload: bytes = b"") -> None:
        logged = LoggedCommand(self.held.epoch, 0, command)
        payload_of = Payload(len(payload), zlib.crc32(payload))
        data = encode_entry(entry_of(logged, 0, self.points[-1].digest, payload_of))
        self.entries.append(SentEntry(data, payload))
        end = Offset(len(self.entries))
        self.points.append(LogPoint(end, logged.epoch, digest_after(data)))

    def append(self, first: int = 0, watermark: int = 0) -> Append:
        return Append(
            configuration=self.held,
            previous=self.points[first],
            entries=tuple(self.entries[first:]),
            watermark=Offset(watermark),
        )


def chunk_of(rows: dict[bytes, bytes]) -> Slice:
    table = pa.table({"key": pa.array([*rows]), "value": pa.array([*rows.values()])})
    return encode_slice(0, table)


def with_batch(log: Log, rows: dict[bytes, bytes], sequence: int) -> None:
    """A chunk of rows, and its commit."""
    chunk = chunk_of(rows)
    name = f"1.{sequence}"
    stage = Stage(
        writer="w",
        generation=1,
        batch=sequence,
        writer_epoch=WriterEpoch(1),
        chunk=name,
        records=chunk.records,
        checksum=chunk.checksum,
        payload_bytes=len(chunk.data),
    )
    log.add(stage, bytes(chunk.data))
    reference = ChunkReference(id=name, records=chunk.records, checksum=chunk.checksum)
    log.add(
        Commit(
            commit=PartitionCommit(
                sequence=Sequence(sequence),
                writer="w",
                generation=1,
                batch=sequence,
                writer_epoch=WriterEpoch(1),
                chunks=(reference,),
                position={},
                wall_time_ms=sequence,
                replace=False,
            )
        )
    )


def rows_of(replica: Replica) -> list[bytes]:
    assert replica.view is not None
    return [key for key, _ in replica.view.rows.scan()]


async def test_a_follower_applies_under_the_watermark_alone_and_after_a_restart_too() -> None:
    engine, log = MemoryEngine(), Log()
    with_batch(log, {b"a": b"1"}, 1)
    with_batch(log, {b"b": b"2"}, 2)
    async with started_replica(engine, pod=1, held=FOLLOWS) as replica:
        assert await replica.following.receive(log.append()) == 4
        assert (replica.log.end, replica.log.applied) == (4, 0)
        assert await replica.following.receive(log.append(4, watermark=2)) == 4
        await wait_until_async(lambda: replica.view and replica.view.sequence == 1)
        assert rows_of(replica) == [b"a"]
        assert (replica.changelog.durable_end, replica.changelog.settled_end) == (4, 2)
        said = replica.hello
        assert said.database
    async with started_replica(engine, pod=1, held=FOLLOWS) as replica:
        assert (replica.log.end, replica.log.watermark) == (4, 2)
        assert replica.hello == said, "the database is the same"
        assert rows_of(replica) == [b"a"], "what it applied before is no proof for the rest"
        assert await replica.following.receive(log.append(4, watermark=4)) == 4
        await wait_until_async(lambda: rows_of(replica) == [b"a", b"b"])


async def test_a_gap_is_answered_with_the_end() -> None:
    log = Log()
    for batch in range(3):
        log.add(abort(batch))
    async with started_replica(MemoryEngine(), pod=1, held=FOLLOWS) as replica:
        assert await replica.following.receive(log.append(2)) == StepBack(Offset(0), Offset(2))


async def test_whoever_waits_for_an_entry_that_is_cut_hears_where_the_active_is() -> None:
    """The old active comes back as a follower; its own rows at that offset are forgotten."""
    log = Log(LEADS)
    with_batch(log, {b"new": b"1"}, 1)
    async with started_replica(MemoryEngine(), held=FOLLOWS) as replica:
        _, waits = staged_by_the_old_active(replica)
        assert replica.log.end == 1
        assert await replica.following.receive(log.append()) == 2
        with pytest.raises(NotActiveError) as refused:
            await waits
        assert refused.value.details["active"] == 1
        assert await replica.following.receive(log.append(2, watermark=2)) == 2
        await wait_until_async(lambda: rows_of(replica) == [b"new"])


def staged_by_the_old_active(replica: Replica) -> tuple[Stage, "asyncio.Future[Outcome]"]:
    """Appends rows that no follower has, and keeps them in memory; returns the outcome to come."""
    chunk = chunk_of({b"old": b"1"})
    stage = Stage(
        writer="w",
        generation=1,
        batch=1,
        writer_epoch=WriterEpoch(1),
        chunk="old",
        records=1,
        checksum=chunk.checksum,
        payload_bytes=len(chunk.data),
    )
    decoded = tuple(pa.ipc.open_stream(chunk.data).iter_batches_with_custom_metadata())
    other = msgspec.structs.replace(replica.hello, ordinal=Ordinal(1), database="other")
    replica.followers.greeted(Ordinal(1), FOLLOWS.epoch, other, BEGINNING)
    rows = tuple(batch.batch for batch in decoded)
    return stage, replica.pending.append(stage, chunk.data, rows)


async def test_a_cut_entry_does_not_answer_for_another_entry_at_its_offset() -> None:
    """Neither its rows in memory nor its outcome: a repeat of it is an entry of its own."""
    log = Log(LEADS)
    with_batch(log, {b"new": b"1"}, 1)
    async with started_replica(MemoryEngine(), held=FOLLOWS) as replica:
        stage, cut = staged_by_the_old_active(replica)
        assert replica.pending.copy_of(stage) is cut
        assert await replica.following.receive(log.append()) == 2
        assert cut.done()
        assert replica.pending.entry(Offset(0)) is None
        assert replica.pending.copy_of(stage) is None
        assert await replica.following.receive(log.append(2, watermark=2)) == 2
        await wait_until_async(lambda: replica.log.applied == 2)
        assert rows_of(replica) == [b"new"]


async def test_a_newer_configuration_is_kept_before_it_is_answered() -> None:
    engine, log = MemoryEngine(), Log(LEADS)
    async with started_replica(engine, held=FOLLOWS) as replica:
        await replica.following.receive(log.append())
        assert replica.log.configuration == LEADS
    async with started_replica(engine, held=FOLLOWS) as replica:
        assert replica.log.configuration == LEADS
        with pytest.raises(StaleEpochError):
            await replica.following.receive(Log(configuration(0, 1, standbys=[0])).append())


async def test_a_log_that_differs_under_the_watermark_fails_the_replica() -> None:
    log, other = Log(), Log()
    log.add(abort(1))
    other.add(abort(2))
    async with started_replica(MemoryEngine(), pod=1, held=FOLLOWS) as replica:
        await replica.following.receive(log.append(watermark=1))
        with pytest.raises(CorruptionError, match="differs from the active"):
            await replica.following.receive(other.append())
        assert isinstance(replica.failure, CorruptionError)
        with pytest.raises(CorruptionError):
            await replica.following.receive(log.append())


async def test_an_acknowledgement_is_not_given_in_an_epoch_that_ended_meanwhile() -> None:
    log, later = Log(), Log(configuration(0, 0, standbys=[1], epoch=3))
    log.add(abort(1))
    async with started_replica(MemoryEngine(), pod=1, held=FOLLOWS) as replica:
        older = asyncio.create_task(replica.following.receive(log.append()))
        newer = asyncio.create_task(replica.following.receive(later.append()))
        assert await newer == 0
        with pytest.raises(StaleEpochError):
            await older
        assert replica.log.configuration.epoch == Epoch(3)


class Volume(MemoryEngine):
    """Refuses writes with an error, and copies itself in the middle of a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.in_a_commit: list[MemoryEngine] = []

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        if self.error is not None:
            raise self.error
        super().write(batch, makes_room=makes_room)
        if self.get(META, APPLYING) is not None:
            self.in_a_commit.append(self.copy())

    def copy(self) -> MemoryEngine:
        """The database after a crash of the process."""
        made = MemoryEngine()
        for family in self.families():
            made.create_family(family)
            batch = made.batch()
            for key, value in self.scan(family):
                batch.put(family, key, value)
            made.write(batch)
        return made


async def test_a_sync_that_began_before_a_cut_makes_no_entry_durable_that_was_cut() -> None:
    """Else a follower that becomes the sole active takes entries that it lacks for applied."""
    log, newer = Log(), Log(configuration(0, 0, standbys=[1], epoch=2))
    for batch in range(5):
        log.add(abort(batch))
    newer.add(abort(100))
    clock = SetClock()
    async with started_replica(MemoryEngine(), pod=1, held=FOLLOWS, clock=clock) as replica:
        assert await replica.following.receive(log.append()) == 5
        assert await replica.following.receive(newer.append()) == 1
        # The apply loop has synced, too.
        assert await replica.following.receive(newer.append(1)) == 1
        assert replica.changelog.durable_end == 1
        sole = configuration(0, 1, learners=[0], epoch=3)
        replica.epochs.take(sole)
        await wait_until_async(lambda: replica.log.applied == 1)
        with pytest.raises(NotReadyError, match="lease"):
            replica.acting.check()
        clock.now_s += 5.6
        await wait_until_async(lambda: replica.log.applied == 2)  # The entry, and the Barrier.
        replica.acting.check()
        assert replica.failure is None


async def test_no_entry_is_acknowledged_in_an_epoch_that_a_full_disk_did_not_take() -> None:
    engine, log = Volume(), Log(configuration(0, 0, standbys=[1], epoch=2))
    log.add(abort(1))
    async with started_replica(engine, pod=1, held=FOLLOWS) as replica:
        engine.error = DiskFullError("the volume is full")
        with pytest.raises(DiskFullError):
            await replica.following.receive(log.append())
        engine.error = None
        assert await replica.following.receive(log.append()) == 1
        left = engine.copy()
    deposed = Log()
    deposed.add(abort(50))
    async with started_replica(left, pod=1, held=FOLLOWS) as replica:
        with pytest.raises(StaleEpochError):
            await replica.following.receive(deposed.append())


async def test_a_commit_that_a_crash_cut_short_is_finished_before_it_is_shown() -> None:
    engine, log = Volume(), Log()
    with_batch(log, {b"%06d" % number: b"1" for number in range(2000)}, 1)
    async with started_replica(engine, pod=1, held=FOLLOWS) as replica:
        await replica.following.receive(log.append(watermark=2))
        await wait_until_async(lambda: replica.view and replica.view.sequence == 1)
    assert len(engine.in_a_commit) > 2
    for left in engine.in_a_commit:
        async with started_replica(left, pod=1, held=FOLLOWS) as replica:
            assert len(rows_of(replica)) == 2000


async def test_a_database_that_takes_no_writes_any_more_is_opened_again() -> None:
    engine, log = Volume(), Log()
    log.add(abort(1))
    taken_out: list[int] = []
    async with started_replica(engine, take_out=taken_out.append, pod=1, held=FOLLOWS) as replica:
        engine.error = PassingError("an earlier write failed")
        with pytest.raises(PassingError):
            await replica.following.receive(log.append())
        assert taken_out == [0]
        engine.error = None


async def test_entries_of_another_partition_are_refused() -> None:
    engine = MemoryEngine()
    async with started_replica(engine, pod=1, held=FOLLOWS) as replica:
        with pytest.raises(WrongStoreError):
            await replica.following.receive(
                Log(configuration(3, 0, standbys=[1], epoch=2)).append()
            )
        assert replica.log.configuration == FOLLOWS


@pytest.mark.parametrize("is_missing", [True, False])
async def test_rows_of_an_older_entry_that_are_not_whole_are_refused(is_missing: bool) -> None:
    """Entries of version 1 have no checksum in their head: the chunk has one."""
    log = Log()
    with_batch(log, {b"a": b"1"}, 1)
    staged = command_of(decode_entry(log.entries[0].data))
    payload = b"" if is_missing else log.entries[0].payload[:-1] + b"?"
    sent = SentEntry(encode_entry(entry_of(staged, 0)), payload)
    append = Append(configuration=FOLLOWS, previous=BEGINNING, entries=(sent,))
    async with started_replica(MemoryEngine(), pod=1, held=FOLLOWS) as replica:
        with pytest.raises(MalformedRequestError, match="missing or damaged"):
            await replica.following.receive(append)
        assert replica.failure is None, "another copy of the message may be whole"
