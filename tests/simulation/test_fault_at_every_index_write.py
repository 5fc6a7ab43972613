"""The pod crashes at each write while it builds indexes anew."""

from pathlib import Path

import pytest

from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.faults.faulty_engine import Crash, Faults, MemoryDisk, failing
from qss_testing.reference.batch_story import Story
from qss_testing.reference.own_stores import NEXT_BY_VALUE, check_index
from qss_testing.reference.plots import INDEXED_PLOT
from qss_testing.waiting import wait_until_async

pytestmark = pytest.mark.long

STEPS_MIN, STEPS_MAX = 8, 30


async def upgrade(story: Story, open_engine: OpenEngine, crash_at: int) -> bool:
    """Starts the pod with the type's next version; whether all partitions are served."""
    faults = Faults(crash_at=crash_at)
    story.extensions = NEXT_BY_VALUE
    try:
        await story.start(failing(open_engine, faults), faults)
        assert story.services is not None
        pod = story.services.pod
        await wait_until_async(lambda: pod.is_ready or faults.is_dead)
    except Crash:
        return False
    if not faults.is_dead:
        check(story)
    return not faults.is_dead


def check(story: Story) -> None:
    """The rows are the rows at the plot's end, and the index fits them."""
    story.check_end()
    assert story.services is not None
    for replica in story.services.pod.registry.replicas.values():
        assert replica.view is not None
        check_index(replica.view, story.services.pod.indexing)


async def told(directory: Path, open_engine: OpenEngine) -> Story:
    """A story after its last batch."""
    story = Story(directory, INDEXED_PLOT)
    await story.start(open_engine, Faults())
    await story.drive()
    await story.stop()
    return story


@pytest.mark.parametrize("power", ["kept", "lost"])
async def test_a_crash_at_any_write_leaves_an_index_that_can_be_made(
    power: str, tmp_path: Path
) -> None:
    crash_at = 0
    came_through = False
    while not came_through:
        crash_at += 1
        disk = MemoryDisk()
        story = await told(tmp_path / str(crash_at), disk.open)
        came_through = await upgrade(story, disk.open, crash_at)
        await story.stop()
        if power == "lost":
            disk.lose_power()
        # A second crash during recovery, then no more faults.
        await upgrade(story, disk.open, 1 + crash_at % 5)
        await story.stop()
        assert await upgrade(story, disk.open, 0)
        await story.stop()
    assert STEPS_MIN < crash_at < STEPS_MAX


async def test_a_crash_at_any_write_is_survived_on_rocksdb(tmp_path: Path) -> None:
    budget = MemoryBudget.of(cache_bytes=8 * 1024 * 1024, write_buffer_bytes=16 * 1024 * 1024)
    for crash_at in range(1, STEPS_MAX, 2):
        directory = tmp_path / str(crash_at)
        story = await told(directory, lambda path: RocksDbEngine(path, budget))
        await upgrade(story, lambda path: RocksDbEngine(path, budget), crash_at)
        await story.stop()
        assert await upgrade(story, lambda path: RocksDbEngine(path, budget), 0)
        await story.stop()
