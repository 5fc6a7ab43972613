"""Heavy work on the event loop takes turns with other requests."""

import asyncio

import pytest

from qss_store.runtime.heavy_turns import HeavyTurns
from qss_testing.fakes.virtual_time import SetClock


async def rounds_of(turns: HeavyTurns, clock: SetClock, works: int, takes_s: float) -> list[int]:
    """The rounds of the event loop in which these works began."""
    began, current, is_over = list[int](), 0, False

    async def work() -> None:
        async with turns:
            began.append(current)
            clock.now_s += takes_s

    async def count_rounds() -> None:
        nonlocal current
        while not is_over:
            await asyncio.sleep(0)
            current += 1

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(work() for _ in range(works)))
    is_over = True
    await counting
    return began


async def test_short_work_is_done_in_one_round() -> None:
    clock = SetClock()
    assert len({*await rounds_of(HeavyTurns(clock), clock, 5, 0.0001)}) == 1


async def test_of_long_work_one_piece_is_done_in_each_round() -> None:
    clock = SetClock()
    began = await rounds_of(HeavyTurns(clock), clock, 5, 0.005)
    assert began == sorted({*began})


async def test_work_that_no_longer_waits_gives_its_turn_to_the_next() -> None:
    clock = SetClock()
    turns, done = HeavyTurns(clock), list[str]()

    async def work(name: str) -> None:
        async with turns:
            clock.now_s += 1
            done.append(name)

    first, gone, second = (asyncio.create_task(work(one)) for one in ("first", "gone", "second"))
    await first
    assert turns.is_spent
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await second
    assert done == ["first", "second"]


async def test_work_that_fails_has_had_its_turn() -> None:
    clock = SetClock()
    turns = HeavyTurns(clock)

    async def fail() -> None:
        async with turns:
            clock.now_s += 1
            raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        await fail()
    assert turns.is_spent
    async with turns:
        pass
    assert not turns.is_spent


async def test_work_that_had_its_turn_and_does_nothing_holds_up_nobody() -> None:
    clock = SetClock()
    turns, waited = HeavyTurns(clock), 0
    async with turns:
        clock.now_s += 1

    async def wait() -> None:
        nonlocal waited
        await turns.wait()
        waited += 1

    waiting = [asyncio.create_task(wait()) for _ in range(3)]
    async with asyncio.timeout(5):
        await asyncio.gather(*waiting)
    assert waited == 3


async def test_who_gives_way_goes_on_one_in_a_round() -> None:
    turns, order, rounds = HeavyTurns(SetClock()), list[int](), list[int]()
    current, is_over = 0, False

    async def many(number: int) -> None:
        await turns.give_way()
        order.append(number)
        rounds.append(current)

    async def count_rounds() -> None:
        nonlocal current
        while not is_over:
            await asyncio.sleep(0)
            current += 1

    counting = asyncio.create_task(count_rounds())
    await asyncio.gather(*(many(number) for number in range(5)))
    is_over = True
    await counting
    assert order == [0, 1, 2, 3, 4]
    assert len({*rounds}) == 5
