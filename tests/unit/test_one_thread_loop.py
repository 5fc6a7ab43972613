"""The event loop of simulations has no other threads."""

import asyncio
import threading

import pytest

from qss_testing.fakes.one_thread_loop import OneThreadLoop


def test_others_have_a_turn_before_the_work_and_one_before_its_result() -> None:
    order: list[str] = []

    def work() -> str:
        assert threading.current_thread() is threading.main_thread()
        order.append("work")
        return "result"

    async def wait() -> None:
        order.append(await asyncio.to_thread(work))

    async def take_turns() -> None:
        waiting = asyncio.create_task(wait())
        while not waiting.done():
            order.append("turn")
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=OneThreadLoop) as runner:
        runner.run(take_turns())
    before, after = order.index("work"), order.index("result")
    assert order[:before].count("turn") >= 2
    assert order[before:after].count("turn") >= 1


def test_a_failure_reaches_the_task_that_waits_and_no_other() -> None:
    def fail() -> None:
        raise ValueError("of the work")

    async def wait() -> None:
        abandoned = asyncio.create_task(asyncio.to_thread(fail))
        await asyncio.sleep(0)
        abandoned.cancel()
        with pytest.raises(ValueError, match="of the work"):
            await asyncio.to_thread(fail)
        with pytest.raises(asyncio.CancelledError):
            await abandoned

    with asyncio.Runner(loop_factory=OneThreadLoop) as runner:
        runner.run(wait())
