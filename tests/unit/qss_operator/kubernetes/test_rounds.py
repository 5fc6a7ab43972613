"""The operator's slots for rounds: no namespace gets all of them."""

import asyncio

import pytest

from qss_operator.kubernetes.leadership.health import Health, HealthLimits
from qss_operator.kubernetes.rounds import Rounds, RoundTooLongError, within
from qss_testing.fakes.virtual_time import SetClock


async def turn() -> None:
    """Lets every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_slow_pods_of_one_namespace_hold_up_no_other_one_nor_end_the_operator() -> None:
    clock = SetClock(0.0)
    health = Health(HealthLimits(round_s=300.0, loop_lag_s=1000.0), clock=clock)
    rounds, begun, may_end = Rounds(4, health), list[str](), asyncio.Event()

    async def slow(title: str) -> None:
        health.due(title, clock.monotonic_s())
        async with rounds.of("evil", title):
            with health.round_of(title):
                begun.append(title)
                await may_end.wait()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(slow(f"evil/{number}"))
        await turn()
        assert len(begun) == 2, "half of the slots"
        clock.now_s = 299.0
        for _ in range(2):
            async with rounds.of("good", "good/words"), rounds.of("good", "good/birds"):
                pass
        clock.now_s = 301.0
        told = health.problems()
        assert len(told) == 2, "rounds that run are told; those that wait for their own are not"
        assert all("runs for 301 s" in one for one in told)
        may_end.set()
    assert len(begun) == 9
    assert rounds.namespaces == {}


async def test_a_store_that_waits_for_a_free_slot_is_told() -> None:
    clock = SetClock(0.0)
    health = Health(HealthLimits(round_s=300.0, loop_lag_s=1000.0), clock=clock)
    rounds = Rounds(1, health)
    async with rounds.of("one", "one/words"):
        health.is_over("one/words")
        waiting = asyncio.create_task(rounds.of("other", "other/words").__aenter__())
        await turn()
        clock.now_s = 301.0
        assert health.problems() == ["a round of other/words should have begun 301 s ago"]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_round_ends_in_time_and_other_timeouts_are_what_they_were() -> None:
    with pytest.raises(RoundTooLongError, match="ended after 0 s: pods or API server"):
        async with within(0.01):
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError, match="another"):
        async with within(60.0):
            raise TimeoutError("another")
