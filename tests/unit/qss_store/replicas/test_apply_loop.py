"""The task of a replica: an entry is applied behind its sync, and tells its outcome then."""

import asyncio

import pytest

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_core.model import PartitionId, StoreSettings, WriterEpoch
from qss_store.replicas.replica import Replica
from qss_store.transactions.commands import Abort, Barrier
from qss_testing.faults.faulty_engine import Faults, FaultyEngine, JournaledEngine, SpoiltWhenTold
from qss_testing.faults.slow_sync import SlowSyncEngine
from qss_testing.pods.one_replica import started_replica
from qss_testing.pods.stores import Put, commit_chunks, commit_rows, stage_rows
from qss_testing.waiting import wait_until_async

ROW = Put(b"k", b"1", 5)
ABORT = Abort(writer="w", generation=1, batch=0, writer_epoch=WriterEpoch(0))


def keys(replica: Replica) -> list[bytes]:
    assert replica.view is not None
    return [key for key, _ in replica.view.rows.scan()]


async def test_an_entry_is_applied_once_it_is_durable() -> None:
    engine = SlowSyncEngine()
    async with started_replica(engine) as replica:
        applied = replica.log.applied
        engine.slow_down()
        outcome = replica.append(ABORT)
        await wait_until_async(lambda: engine.begun)
        assert not outcome.done()
        assert replica.log.applied == applied
        engine.speed_up()
        assert (await outcome).failure is None
        assert replica.log.applied == replica.log.end > applied


async def test_readers_and_the_state_machine_see_a_commit_behind_the_sync_of_its_rows() -> None:
    engine = SlowSyncEngine()
    async with started_replica(engine) as replica:
        chunk = await stage_rows(replica, [ROW], batch=0, chunk="1.0.0")
        engine.slow_down()
        commit = asyncio.create_task(commit_chunks(replica, (chunk,), batch=0, position={}))
        await wait_until_async(lambda: engine.begun)
        assert keys(replica) == []
        assert replica.machine.participant.sequence == 0
        assert not commit.done()
        engine.speed_up()
        await commit
        assert keys(replica) == [ROW.key]
        assert replica.machine.participant.sequence == 1


async def test_a_full_disk_holds_entries_up_and_loses_none() -> None:
    faults = Faults()
    async with started_replica(FaultyEngine(JournaledEngine(), faults)) as replica:
        await commit_rows(replica, [ROW], batch=0, position={})
        chunk = await stage_rows(replica, [Put(b"m", b"2", 5)], batch=1, chunk="1.1.0")
        faults.full_at, faults.full_times = faults.steps + 2, 1  # The rows of the commit.
        commit = asyncio.create_task(commit_chunks(replica, (chunk,), batch=1, position={}))
        await wait_until_async(lambda: replica.failure)
        with pytest.raises(DiskFullError):
            replica.append(ABORT)
        assert keys(replica) == [b"k"]
        await commit
        assert replica.failure is None
        assert keys(replica) == [b"k", b"m"]


async def test_damage_ends_the_loop_and_is_told_to_all_that_wait() -> None:
    taken_out: list[PartitionId] = []
    engine = SlowSyncEngine()
    spoilt = SpoiltWhenTold(engine, Faults())
    async with started_replica(spoilt, take_out=taken_out.append) as replica:
        engine.slow_down()
        waiting = [replica.append(ABORT), replica.append(ABORT)]
        await wait_until_async(lambda: engine.begun)
        spoilt.is_spoilt = True
        engine.speed_up()
        for outcome in waiting:
            with pytest.raises(CorruptionError, match="a block is damaged"):
                await outcome
        with pytest.raises(CorruptionError, match="a block is damaged"):
            replica.append(ABORT)
        assert replica.view is not None, "readers keep what is whole"
        assert taken_out == []


class Broken(FaultyEngine):
    """Fails in a way that nobody has thought of."""

    is_broken = False

    def sync(self) -> None:
        """Fails when it is told to."""
        if self.is_broken:
            raise ValueError("this is no StoreError")
        super().sync()


async def test_an_unexpected_failure_names_the_log_and_no_detail() -> None:
    engine = Broken(JournaledEngine(), Faults())
    async with started_replica(engine) as replica:
        engine.is_broken = True
        with pytest.raises(StoreError, match="the replica failed: see its log"):
            await replica.append(ABORT)


async def test_the_log_is_cut_behind_the_entries_that_are_applied() -> None:
    settings = StoreSettings(changelog_retention_bytes=0)
    async with started_replica(JournaledEngine(), settings) as replica:
        for _ in range(3):
            await replica.append(Barrier())
        assert replica.log.start == 0
        replica.apply_loop.cut_soon()
        await wait_until_async(lambda: replica.log.start == replica.log.end)
