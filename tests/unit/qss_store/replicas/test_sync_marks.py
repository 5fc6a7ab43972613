"""Marks of what was synced are kept, or kept later where a real volume refuses them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from qss_core.errors import NotReadyError
from qss_core.model import Offset, PartitionId, StoreId
from qss_store.replicas.group_sync import GroupSync
from qss_store.replicas.replica import Replica
from qss_store.replicas.volume.kept_files import SyncMark, Volume
from qss_store.replicas.volume.sync_marks import SyncMarks

ZERO, STORE_ID = PartitionId(0), StoreId("id")


class NoFiles:
    """An engine in memory: it has no files to tell of."""

    def mark(self) -> None:
        return None


@dataclass(slots=True)
class Log:
    """The parts of a replica, and of its changelog, that sync marks look at."""

    settled_end: int
    engine: Any = field(default_factory=NoFiles)

    @property
    def changelog(self) -> "Log":
        return self

    def digest(self, offset: Offset) -> int:
        return offset


@dataclass(slots=True)
class World:
    volume: Volume
    log: Log
    marks: SyncMarks
    gone_on: list[PartitionId]
    behind: list[object]

    def refuse(self) -> None:
        """No file can take the place of a directory."""
        (self.volume.path / "synced.json").unlink()
        (self.volume.path / "synced.json").mkdir()

    def refuse_and_keep(self) -> bytes:
        """As `refuse`; returns the file."""
        kept = (self.volume.path / "synced.json").read_bytes()
        self.refuse()
        return kept

    def take(self) -> None:
        (self.volume.path / "synced.json").rmdir()

    def take_with(self, kept: bytes) -> None:
        """As `take`, with the file as it was."""
        self.take()
        (self.volume.path / "synced.json").write_bytes(kept)

    @property
    def end(self) -> int:
        return self.volume.marks(STORE_ID)[ZERO].end


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The mark on the volume is beyond what the log holds: it lost its end."""
    volume, log, gone_on = Volume(tmp_path), Log(10), list[PartitionId]()
    volume.keep_marks(STORE_ID, {ZERO: SyncMark(end=Offset(99), digest=5)})
    behind = list[object]()
    replicas = {ZERO: cast(Replica, log)}
    marks = SyncMarks(volume, GroupSync(), replicas, gone_on.append, lambda one: one not in behind)
    marks.begin(volume.marks(STORE_ID))
    return World(volume, log, marks, gone_on, behind)


async def test_a_replica_that_is_behind_keeps_its_mark(world: World) -> None:
    world.behind.append(world.log)
    world.log.settled_end = 100
    await world.marks.round(STORE_ID)
    assert world.end == 99
    world.behind.clear()
    await world.marks.round(STORE_ID)
    assert world.end == 100


async def test_a_mark_that_the_volume_refused_is_kept_by_a_later_round(world: World) -> None:
    world.log.settled_end = 100
    world.refuse()
    await world.marks.round(STORE_ID)
    world.take()
    await world.marks.round(STORE_ID)
    assert world.end == 100


async def test_a_mark_whose_end_was_not_kept_is_forgotten_by_the_next_try(world: World) -> None:
    """Files without their mark are deleted next: a mark without files would mean lost data."""
    world.log.settled_end = 0
    kept = world.refuse_and_keep()
    with pytest.raises(NotReadyError):
        await world.marks.forget(STORE_ID, ZERO)
    world.take_with(kept)
    await world.marks.forget(STORE_ID, ZERO)
    assert world.volume.marks(STORE_ID) == {}


async def test_a_partition_goes_on_once_its_renewed_mark_is_kept_and_not_before(
    world: World,
) -> None:
    world.refuse()
    for _ in range(2):
        with pytest.raises(NotReadyError):
            await world.marks.renew(STORE_ID, ZERO)
    assert world.gone_on == []
    world.take()
    await world.marks.settle(STORE_ID, ZERO)
    assert (world.end, world.gone_on) == (10, [ZERO])
    await world.marks.settle(STORE_ID, ZERO)
    await world.marks.round(STORE_ID)
    assert world.gone_on == [ZERO]


async def test_a_round_goes_on_with_a_partition_whose_person_does_not_ask_again(
    world: World,
) -> None:
    world.refuse()
    with pytest.raises(NotReadyError):
        await world.marks.renew(STORE_ID, ZERO)
    world.take()
    await world.marks.close(STORE_ID)
    assert (world.end, world.gone_on) == (10, [ZERO])
