"""The steps from an opened database to a replica that serves."""

import asyncio
from itertools import pairwise

import pytest

from qss_store.replicas.apply.replica_recovery import Found, RecoveryStep, plan_recovery
from qss_store.replicas.replica import Replica
from qss_testing.faults.faulty_engine import Faults, FaultyEngine, JournaledEngine
from qss_testing.pods.one_replica import started_replica
from qss_testing.pods.stores import Put, commit_rows
from qss_testing.waiting import wait_until_async

ROWS = [Put(b"k%d" % number, b"1", 5) for number in range(3)]


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("is_unfinished", [True, False])
def test_the_steps_of_every_plan_are_in_one_order(*, is_kept: bool, is_unfinished: bool) -> None:
    plan = plan_recovery(Found(is_configuration_kept=is_kept, is_commit_unfinished=is_unfinished))
    first = [
        plan.index(step)
        for step in RecoveryStep
        if step in plan and step is not RecoveryStep.SHOW_STATE
    ]
    assert all(one < other for one, other in pairwise(first))
    assert plan.index(RecoveryStep.SYNC) < plan.index(RecoveryStep.DROP_LEFTOVERS)
    assert plan[-2:] == (RecoveryStep.APPLY_TAIL, RecoveryStep.SHOW_STATE)
    assert (RecoveryStep.KEEP_CONFIGURATION in plan) != is_kept


def test_nothing_is_shown_before_an_unfinished_commit_is_applied() -> None:
    unfinished = plan_recovery(Found(is_configuration_kept=True, is_commit_unfinished=True))
    whole = plan_recovery(Found(is_configuration_kept=True, is_commit_unfinished=False))
    assert unfinished.index(RecoveryStep.SHOW_STATE) > unfinished.index(RecoveryStep.APPLY_TAIL)
    assert whole.index(RecoveryStep.SHOW_STATE) < whole.index(RecoveryStep.APPLY_TAIL)


async def test_a_recovery_that_a_full_disk_cuts_short_ends_with_the_same_rows() -> None:
    steps = await steps_of_a_recovery()
    assert steps > 2

    async def cut_at(step: int) -> None:
        engine = await crashed_engine()
        faults = Faults(full_at=step, full_times=1)
        async with started_replica(FaultyEngine(engine, faults)) as replica:
            await wait_until_async(lambda: replica.is_recovered)
            check(replica)
            assert replica.failure is None

    await asyncio.gather(*(cut_at(step) for step in range(1, steps + 1)))


async def steps_of_a_recovery() -> int:
    faults = Faults()
    async with started_replica(FaultyEngine(await crashed_engine(), faults)) as replica:
        check(replica)
    return faults.steps


async def crashed_engine() -> JournaledEngine:
    """Holds two batches in its log, the second one synced and not applied."""
    engine = JournaledEngine()
    faults = Faults()
    async with started_replica(FaultyEngine(engine, faults)) as replica:
        await commit_rows(replica, ROWS[:1], batch=0, position={})
        before = len(engine.journal)
        await commit_rows(replica, ROWS[1:], batch=1, position={})
    # A stage, its outcome, a commit; the rows of the commit are lost.
    return JournaledEngine(engine.journal[: before + 3])


def check(replica: Replica) -> None:
    assert replica.view is not None
    assert replica.view.applied == replica.log.applied == replica.log.end
    keys = [key for key, _ in replica.view.rows.scan()]
    assert keys == [row.key for row in ROWS]
