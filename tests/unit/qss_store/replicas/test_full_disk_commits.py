"""A disk that is full in the middle of a commit: readers see whole batches, and no row is lost."""

import asyncio

import pytest
from msgspec.structs import replace

from qss_core.errors import DiskFullError
from qss_store.replicas.replica import Replica
from qss_testing.faults.faulty_engine import Faults, FaultyEngine, JournaledEngine
from qss_testing.pods.one_replica import started_replica
from qss_testing.pods.stores import Put, commit_chunks, commit_rows, stage_rows
from qss_testing.waiting import wait_until_async

OLD = [Put(b"k%05d" % number, b"1", 5) for number in range(50)]
# Several slices.
NEW = [Put(b"n%05d" % number, b"2", 5) for number in range(2600)]
FOR_EVER = 1_000_000


def shown_keys(replica: Replica) -> list[bytes]:
    """The keys that readers see."""
    assert replica.view is not None
    return [key for key, _ in replica.view.rows.scan()]


async def take_format(replica: Replica) -> None:
    """Takes another format for the rows."""
    definition = replace(replica.definition, format="Plain")
    async with replica.format_change.redefining(definition):
        replica.format_change.redefine(definition)


@pytest.mark.parametrize("change", ["another format is taken", "rows move to another format"])
async def test_a_commit_that_waits_for_space_in_its_middle_is_not_shown(change: str) -> None:
    faults = Faults()
    async with started_replica(FaultyEngine(JournaledEngine(), faults)) as replica:
        await commit_rows(replica, OLD, batch=0, position={})
        moves = change.startswith("rows")
        if moves:
            await take_format(replica)
        chunk = await stage_rows(replica, NEW, batch=1, chunk="1.1.0")
        faults.full_at, faults.full_times = faults.steps + 5, 1
        commit = asyncio.create_task(commit_chunks(replica, (chunk,), batch=1, position={}))
        await wait_until_async(lambda: replica.failure)
        with pytest.raises(DiskFullError, match="a commit that is applied in part waits for space"):
            await (replica.format_change.move_rows(3) if moves else take_format(replica))
        assert len(shown_keys(replica)) == len(OLD)
        await commit
        assert len(shown_keys(replica)) == len(OLD) + len(NEW)
        if not moves:
            await take_format(replica)
        while await replica.format_change.move_rows(1000):
            pass
        assert len(shown_keys(replica)) == len(OLD) + len(NEW)


async def steps_of_a_replacing_commit() -> tuple[int, int]:
    """The steps before the commit and at its end."""
    faults = Faults()
    async with started_replica(FaultyEngine(JournaledEngine(), faults)) as replica:
        await commit_rows(replica, OLD, batch=0, position={})
        chunk = await stage_rows(replica, NEW, batch=1, chunk="1.1.0")
        before = faults.steps
        await commit_chunks(replica, (chunk,), batch=1, position={}, replace=True)
        return before, faults.steps


async def test_a_replacing_commit_keeps_its_rows_when_the_disk_is_full_at_its_end() -> None:
    before, end = await steps_of_a_replacing_commit()
    steps = range(1, end - before + 1)
    taken = await asyncio.gather(
        *(replaces_on_a_disk_full_at(before, before + step) for step in steps)
    )
    assert sum(taken) > 4, "the disk was full at steps behind the entry of the commit"


async def replaces_on_a_disk_full_at(before: int, full_at: int) -> bool:
    """The disk is full at a step, and again in the next try; then the process starts again.

    Returns whether the commit was appended.
    """
    faults, disk = Faults(), JournaledEngine()
    async with started_replica(FaultyEngine(disk, faults)) as replica:
        await commit_rows(replica, OLD, batch=0, position={})
        chunk = await stage_rows(replica, NEW, batch=1, chunk="1.1.0")
        assert faults.steps == before
        faults.full_at, faults.full_times = full_at, 1
        commit = asyncio.create_task(
            commit_chunks(replica, (chunk,), batch=1, position={}, replace=True)
        )
        await wait_until_async(lambda: commit.done() or replica.failure)
        # The next try comes as far as its first step, which may drop a family.
        faults.full_at, faults.full_times = faults.steps + 2, FOR_EVER
        await wait_until_async(lambda: commit.done() or faults.steps >= faults.full_at)
        is_refused = commit.done() and commit.exception() is not None
        left = disk.crashed_at(disk.written(), loses_power=False)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        faults.full_at = 0
    async with started_replica(left) as replica:
        sequence, rows = (1, OLD) if is_refused else (2, NEW)
        await wait_until_async(lambda: replica.view and replica.view.sequence == sequence)
        assert len(shown_keys(replica)) == len(rows), f"full at step {full_at - before}"
    return not is_refused
