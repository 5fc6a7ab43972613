"""One changelog over its engine: what is cut, and what an empty log still knows."""

from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    StoreSettings,
    WriterEpoch,
)
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.group_sync import GroupSync
from qss_store.replicas.views.decoded_rows import DecodedEntries, DecodedRows
from qss_store.replication.digest import digest_after
from qss_store.replication.entries import EntryHead, decode_head, encode_offset
from qss_store.storage.commit_rows.commit_writer import APPLIED
from qss_store.storage.database_files import make_directory
from qss_store.storage.engine import CHANGELOG, META, Engine
from qss_store.transactions.commands import Abort
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.memory_engine import MemoryEngine

POD = Ordinal(0)
ABORT = Abort(writer="w", generation=1, batch=0, writer_epoch=WriterEpoch(0))
NOTHING = StoreSettings(changelog_retention_bytes=0)


def changelog(engine: Engine, epoch: int = 1) -> Changelog:
    configuration = PartitionConfiguration(
        partition=PartitionId(0), epoch=Epoch(epoch), active=POD, in_sync=(POD,), replicas=(POD,)
    )
    return Changelog(engine, POD, configuration, dict(engine.scan(META)), SetClock(), GroupSync())


async def apply_all(engine: Engine, log: Changelog) -> None:
    await log.sync()
    for offset in range(log.log.applied, log.log.end):
        log.applied(Offset(offset))
    batch = engine.batch()
    batch.put(META, APPLIED, encode_offset(log.log.applied))
    engine.write(batch)


def cut_all(log: Changelog) -> None:
    while log.cut(NOTHING, None):
        pass


async def test_an_empty_log_knows_its_end_its_bytes_and_the_epoch_of_its_last_entry() -> None:
    engine = MemoryEngine()
    before = changelog(engine)
    for _ in range(3):
        before.append(ABORT, b"")
    await apply_all(engine, before)
    cut_all(before)
    assert not list(engine.scan(CHANGELOG))
    after = changelog(engine)
    assert (after.log.start, after.log.end) == (3, 3)
    offset, _ = after.append(ABORT, b"")
    assert offset == 3
    bytes_before = head_of(engine, offset).bytes_before
    assert bytes_before > 0
    assert bytes_before == head_of(engine, before.append(ABORT, b"")[0]).bytes_before


@pytest.mark.parametrize(("replicas", "version"), [((POD,), 1), ((POD, Ordinal(1)), 2)])
def test_entries_have_a_digest_where_another_replica_compares_it(
    replicas: tuple[Ordinal, ...], version: int
) -> None:
    """A program of the version before reads the entries of a sole replica."""
    engine = MemoryEngine()
    configuration = PartitionConfiguration(
        partition=PartitionId(0), epoch=Epoch(1), active=POD, in_sync=(POD,), replicas=replicas
    )
    log = Changelog(engine, POD, configuration, {}, SetClock(), GroupSync())
    for _ in range(2):
        log.append(ABORT, b"")
    first, last = (data for _, data in engine.scan(CHANGELOG))
    assert (first[0], last[0]) == (version, version)
    assert decode_head(last).digest_before == (digest_after(first) if version == 2 else None)
    found = log.point_at(Offset(2))
    assert found is not None
    assert found.digest == digest_after(last)


def head_of(engine: MemoryEngine, offset: Offset) -> EntryHead:
    data = engine.get(CHANGELOG, encode_offset(offset))
    assert data is not None
    return decode_head(data)


async def test_an_empty_log_owes_a_barrier_in_a_newer_epoch_alone() -> None:
    engine = MemoryEngine()
    log = changelog(engine, epoch=2)
    log.append(ABORT, b"")
    await apply_all(engine, log)
    cut_all(log)
    assert not changelog(engine, epoch=2).owes_barrier
    assert changelog(engine, epoch=3).owes_barrier


@pytest.mark.parametrize("entries", [10, 1700])
async def test_a_log_is_cut_in_turns_and_a_turn_is_short(entries: int) -> None:
    engine = MemoryEngine()
    log = changelog(engine)
    for _ in range(entries):
        log.append(ABORT, b"")
    await apply_all(engine, log)
    turns = 1
    while log.cut(NOTHING, None):
        turns += 1
        assert log.log.start <= 500 * turns
    assert log.log.start == entries
    assert turns == 1 + entries // 500


async def test_a_cut_is_owed_while_an_entry_is_applied() -> None:
    engine = MemoryEngine()
    log = changelog(engine)
    log.append(ABORT, b"")
    await apply_all(engine, log)
    log.append(ABORT, b"")
    await log.sync()
    assert not log.cut(NOTHING, None)
    assert log.log.start == 0
    assert log.is_due_to_cut
    log.applied(Offset(1))
    cut_all(log)
    assert log.log.start == 2
    assert not log.is_due_to_cut


@pytest.mark.parametrize("gone", [range(2), range(1, 4)])
def test_entries_that_are_missing_though_they_were_not_applied_are_damage(gone: range) -> None:
    engine = MemoryEngine()
    log = changelog(engine)
    for _ in range(4):
        log.append(ABORT, b"")
    batch = engine.batch()
    batch.put(META, APPLIED, encode_offset(1 if gone.start == 0 else 3))
    for offset in gone:
        batch.delete(CHANGELOG, encode_offset(offset))
    engine.write(batch)
    with pytest.raises(CorruptionError, match="entries are missing"):
        changelog(engine)


def test_rows_that_are_kept_in_memory_are_those_of_one_opening_of_a_log() -> None:
    """Offsets of a log that is opened again may be those of other entries."""
    recent = DecodedRows(1024)
    before, after = DecodedEntries(recent), DecodedEntries(recent)
    before.keep(Offset(3), (object(),))
    assert before.peek(Offset(3)) is not None
    assert after.peek(Offset(3)) is None
    assert after.take(Offset(3)) is None


def test_a_directory_is_made_durable_in_each_one_above_it(tmp_path: Path) -> None:
    synced: list[Path] = []
    make_directory(tmp_path / "partitions" / "7", synced.append)
    assert synced == [tmp_path, tmp_path / "partitions"]
    make_directory(tmp_path / "partitions" / "7", synced.append)
    assert len(synced) == 2
