"""The pod crashes, or meets a full disk, at each write while rows move.

After each batch of a story the format changes, to another format or back; some rows move before the
next batch, some after it. The process may end at each of these writes.
"""

import asyncio
from pathlib import Path

import msgspec
import pytest

from qss_core.spec.resource import formats_of
from qss_store.replicas.replica import Replica
from qss_testing.faults.crashed_stories import CrashedStories
from qss_testing.faults.faulty_engine import Faults, MemoryDisk, failing
from qss_testing.pods.stores import open_rocksdb
from qss_testing.reference.batch_story import Story
from qss_testing.reference.migrations import STEP_ROWS, check_places, sources_of
from qss_testing.reference.plots import DUPLICATES_PLOT, KEY_VALUE_PLOT, SESSION_PLOT

pytestmark = pytest.mark.long

PLOTS = {
    "KeyValue": KEY_VALUE_PLOT,
    "Window with duplicates": DUPLICATES_PLOT,
    "Session": SESSION_PLOT,
}
STEPS_BETWEEN = 3
STEPS_MAX = 600  # No story has more writes.


class MigratingStory(Story):
    """After each batch the format changes, and a few rows move."""

    @property
    def replicas(self) -> list[Replica]:
        """The replicas of the story's pod."""
        assert self.services is not None
        return list(self.services.pod.registry.replicas.values())

    async def happens_after(self, number: int) -> None:
        """Changes to the next format while rows of the format before are left."""
        assert self.services is not None
        formats = formats_of(self.plot.definition.type)
        target = formats[number % len(formats)]
        definition = msgspec.structs.replace(self.assignment.definition, format=target)
        self.assignment = msgspec.structs.replace(self.assignment, definition=definition)
        await self.services.pod.assign(self.assignment)
        for replica in self.replicas:
            for _ in range(STEPS_BETWEEN):
                await replica.format_change.move_rows(STEP_ROWS)

    async def happens_at_last(self) -> None:
        """Moves the remaining rows, as the pod does in the background."""
        for replica in self.replicas:
            while await replica.format_change.move_rows(STEP_ROWS):
                self.check_readers()

    def check_end(self) -> None:
        """There is one row for each key, in the store's format."""
        super().check_end()
        for replica in self.replicas:
            check_places(replica)
            assert sources_of(replica) == []


# Every write of the first plot, every third of the others; half as many without a loss of power.
@pytest.mark.parametrize(
    ("kind", "stride"), [("KeyValue", 1), ("Window with duplicates", 3), ("Session", 3)]
)
@pytest.mark.parametrize("power", ["kept", "lost"])
async def test_a_crash_at_any_write_of_a_migration_loses_no_row_and_shows_none_twice(
    power: str, kind: str, stride: int, tmp_path: Path
) -> None:
    loses_power = power == "lost"
    crashed = await CrashedStories.told(MigratingStory(tmp_path, PLOTS[kind], is_in_memory=True))
    assert 100 < crashed.steps < STEPS_MAX
    for crash_at in range(1, crashed.steps + 1, stride if loses_power else 2 * stride):
        story, disk = crashed.crashed_at(crash_at, loses_power=loses_power)
        await story.tell_after_a_crash(disk, 1 + crash_at % 17, loses_power=loses_power)


# In memory the test covers every write; with RocksDB, which is slow, some of them.
@pytest.mark.parametrize(("kind", "stride"), [("KeyValue", 7), ("Session", 23)])
async def test_a_crash_at_any_write_of_a_migration_is_survived_on_rocksdb(
    kind: str, stride: int, tmp_path: Path
) -> None:
    open_engine = open_rocksdb()
    came_through = False
    crash_at = 0
    while not came_through:
        crash_at += stride
        story = MigratingStory(tmp_path / str(crash_at), PLOTS[kind])
        came_through = await story.tell(open_engine, Faults(crash_at=crash_at, counts_syncs=False))
        if came_through:
            await story.stop()
        await story.tell_to_the_end(open_engine)
    assert crash_at > 70


@pytest.mark.parametrize("kind", PLOTS)
async def test_a_full_disk_at_any_write_of_a_migration_is_tried_again_and_nothing_is_lost(
    kind: str, tmp_path: Path
) -> None:
    async def run(full_at: int) -> bool:
        disk = MemoryDisk()
        story = MigratingStory(tmp_path / str(full_at), PLOTS[kind], is_in_memory=True)
        await story.start(disk.open, Faults())
        await story.stop()
        faults = Faults(look=story.check_readers)
        await story.start(failing(disk.open, faults), faults)
        faults.full_at, faults.full_times = faults.steps + full_at, 2
        faults.look_from = faults.full_at
        await story.drive()
        met = faults.steps >= faults.full_at
        story.check_end()
        await story.stop()
        await story.tell_to_the_end(disk.open)
        return met

    met = await asyncio.gather(*(run(full_at) for full_at in range(1, STEPS_MAX, 9)))
    assert not met[-1], "the disk was full at each write of the story"
