"""The pod crashes, or meets a full disk, at each write and each sync."""

import asyncio
from pathlib import Path

import pytest

from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.faults.crashed_stories import CrashedStories
from qss_testing.faults.faulty_engine import Faults, MemoryDisk, failing
from qss_testing.reference.batch_story import Story
from qss_testing.reference.plots import (
    CARRIED_PLOT,
    DUPLICATES_PLOT,
    INDEXED_PLOT,
    KEY_VALUE_PLOT,
    SESSION_PLOT,
    VERSIONED_PLOT,
)

pytestmark = pytest.mark.long

# At least and at most so many writes in a story; half with RocksDB, where syncs do not count.
STEPS = {
    "KeyValue": (KEY_VALUE_PLOT, 60, 130),
    "Small batches": (CARRIED_PLOT, 50, 130),
    "Window with duplicates": (DUPLICATES_PLOT, 90, 190),
    "Session": (SESSION_PLOT, 90, 190),
    "Versioned": (VERSIONED_PLOT, 90, 220),
    "Indexed": (INDEXED_PLOT, 60, 140),
}
FULL_TIMES = 2  # The number of consecutive writes and syncs that meet a full disk.
PLOTS = pytest.mark.parametrize("kind", STEPS)


# If only the process ends, the disk keeps more than after a loss of power: half of the writes do.
@PLOTS
@pytest.mark.parametrize(("power", "stride"), [("kept", 2), ("lost", 1)])
async def test_a_crash_at_any_write_loses_nothing_and_shows_no_half_batch(
    power: str, stride: int, kind: str, tmp_path: Path
) -> None:
    plot, steps_min, steps_max = STEPS[kind]
    loses_power = power == "lost"
    crashed = await CrashedStories.told(Story(tmp_path, plot, is_in_memory=True))
    assert crashed.story.uncommitted_seen > 0
    assert steps_min < crashed.steps < steps_max
    for crash_at in range(1, crashed.steps + 1, stride):
        story, disk = crashed.crashed_at(crash_at, loses_power=loses_power)
        await story.tell_after_a_crash(disk, 1 + crash_at % 13, loses_power=loses_power)


@pytest.fixture
def open_engine() -> OpenEngine:
    budget = MemoryBudget.of(cache_bytes=8 * 1024 * 1024, write_buffer_bytes=16 * 1024 * 1024)
    return lambda path: RocksDbEngine(path, budget)


# In memory the test covers every write of each plot; with RocksDB, which is slow, some of them.
@pytest.mark.parametrize(
    ("kind", "stride"),
    [
        ("KeyValue", 2),
        ("Small batches", 3),
        ("Window with duplicates", 5),
        ("Versioned", 5),
        ("Indexed", 5),
    ],
)
async def test_a_crash_at_any_write_is_survived_on_rocksdb(
    kind: str, stride: int, open_engine: OpenEngine, tmp_path: Path
) -> None:
    plot, steps_min, _ = STEPS[kind]
    crash_at = 0
    came_through = False
    while not came_through:
        crash_at += stride
        story = Story(tmp_path / str(crash_at), plot)
        faults = Faults(crash_at=crash_at, counts_syncs=False)
        came_through = await story.tell(open_engine, faults, is_watched=False)
        if not came_through:
            await story.tell(open_engine, Faults(), is_watched=False)
        story.check_end()
        await story.stop()
    assert crash_at > steps_min / 2


@PLOTS
async def test_readers_see_no_half_batch_at_any_write_on_rocksdb(
    kind: str, open_engine: OpenEngine, tmp_path: Path
) -> None:
    story = Story(tmp_path, STEPS[kind][0])
    assert await story.tell(open_engine, Faults())
    story.check_end()
    await story.stop()


@PLOTS
async def test_a_full_disk_at_any_write_is_waited_for_and_nothing_is_lost(
    kind: str, tmp_path: Path
) -> None:
    plot, _, steps_max = STEPS[kind]

    async def run(full_at: int) -> bool:
        disk = MemoryDisk()
        story = Story(tmp_path / str(full_at), plot, is_in_memory=True)
        await story.start(disk.open, Faults())
        await story.stop()
        faults = Faults(look=story.check_readers)
        await story.start(failing(disk.open, faults), faults)
        faults.full_at, faults.full_times = faults.steps + full_at, FULL_TIMES
        faults.look_from = faults.full_at
        await story.drive()
        met = faults.steps >= faults.full_at
        story.check_end()
        await story.stop()
        await story.start(disk.open, Faults())
        story.check_end()
        await story.stop()
        return met

    met = await asyncio.gather(*(run(full_at) for full_at in range(1, steps_max, FULL_TIMES)))
    assert not met[-1], "the disk was full at each write of the story"
