"""The loop of the simulation: nodes take turns, crash and pause; threads' work; clocks."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from random import Random  # noqa: TID251 each test has its seed.
from typing import Any

import pytest

from qss_core.errors import UnreachableError
from qss_simulation.parts.disk import SimulatedDisk
from qss_simulation.parts.network import Network, Request
from qss_simulation.parts.seeded_loop import SeededLoop, current_node
from qss_simulation.parts.trace import Trace
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.engine import META


def run(loop: SeededLoop, work: Coroutine[Any, Any, object]) -> None:
    try:
        loop.run_until_complete(work)
    finally:
        loop.bury()
        loop.close()


def test_a_dead_node_runs_nothing_more_not_even_a_finally() -> None:
    loop, ran = SeededLoop(Random(1)), list[str]()

    async def process() -> None:
        try:
            ran.append("begun")
            await asyncio.sleep(1)
        finally:
            ran.append("finally")

    async def story() -> None:
        loop.start("pod-0#1", process())
        await asyncio.sleep(0.5)
        loop.kill("pod-0#1")
        await asyncio.sleep(10)
        assert ran == ["begun"]

    run(loop, story())


def test_a_paused_node_finds_its_timers_when_it_goes_on() -> None:
    loop, woken_s = SeededLoop(Random(1)), list[float]()

    async def process() -> None:
        await asyncio.sleep(1)
        woken_s.append(loop.now_s)

    async def story() -> None:
        loop.start("pod-0#1", process())
        await asyncio.sleep(0.5)
        loop.pause("pod-0#1")
        await asyncio.sleep(30)
        assert woken_s == []
        loop.resume("pod-0#1")
        await asyncio.sleep(1)

    run(loop, story())
    assert 30 < woken_s[0] < 32


def test_a_clock_that_is_too_quick_wakes_its_node_early() -> None:
    loop, woken_s = SeededLoop(Random(1)), dict[str, float]()
    loop.rates["quick"] = 1.05

    async def process() -> None:
        await asyncio.sleep(100)
        woken_s[current_node()] = loop.now_s

    async def story() -> None:
        await asyncio.gather(loop.start("quick", process()), loop.start("right", process()))

    run(loop, story())
    assert woken_s["quick"] == pytest.approx(100 / 1.05, abs=0.1)
    assert woken_s["right"] == pytest.approx(100, abs=0.1)


def test_timers_fire_in_the_middle_of_work() -> None:
    """A timer interrupts a task that never waits, between two of its awaits."""
    loop, order = SeededLoop(Random(1)), list[str]()

    async def busy() -> None:
        for _ in range(1000):
            await asyncio.sleep(0)
        order.append("busy")

    async def story() -> None:
        loop.call_later(0.01, order.append, "timer")
        await loop.start("pod-0#1", busy())

    run(loop, story())
    assert order == ["timer", "busy"]


def test_a_sync_covers_what_was_written_before_it_began_and_counts_when_it_ends(
    tmp_path: Path,
) -> None:
    loop = SeededLoop(Random(1))
    disk = SimulatedDisk(loop, Random(1), Trace(loop))
    loop.work_s["pod-0"] = 0.1

    def write(number: int) -> None:
        batch = engine.batch()
        batch.put(META, b"%d" % number, b"v")
        engine.write(batch)

    def sync() -> None:
        engine.sync()
        begun.set()

    engine, begun = disk.open(tmp_path / "0"), asyncio.Event()

    async def process() -> None:
        write(1)
        syncing = asyncio.ensure_future(run_blocking(sync))
        await begun.wait()
        write(2)
        copy = disk.synced_copy("0")
        assert copy.log == [], "the sync has not ended"
        await syncing
        assert len(disk.synced_copy("0").log) == 1, "the second write came later"

    run(loop, wrapped(loop, process()))


async def wrapped(loop: SeededLoop, work: Coroutine[Any, Any, object]) -> None:
    await loop.start("pod-0#1", work)


def test_a_power_loss_leaves_what_was_synced_and_any_beginning_of_the_rest(
    tmp_path: Path,
) -> None:
    left = set()
    for seed in range(40):
        loop = SeededLoop(Random(1))
        disk = SimulatedDisk(loop, Random(seed), Trace(loop))
        engine = disk.open(tmp_path / str(seed))
        for number in range(6):
            batch = engine.batch()
            batch.put(META, b"%d" % number, b"v")
            engine.write(batch)
            if number == 2:
                engine.sync()
        disk.lose_power(holes=False)
        keys = [key for key, _ in disk.open(tmp_path / str(seed)).scan(META)]
        assert keys == [b"%d" % number for number in range(len(keys))]
        left.add(len(keys))
        loop.close()
    assert left == {3, 4, 5, 6}


def test_a_way_that_is_cut_carries_requests_and_no_answers() -> None:
    loop, served = SeededLoop(Random(1)), list[str]()
    network = Network(loop, Random(1), Trace(loop), lambda error: served.append(str(error)))

    async def handle(request: Request) -> bytes:
        served.append(request.path)
        return b"answer"

    async def listen() -> None:
        network.listen("pod-1", handle)

    async def ask() -> bytes:
        return await network.exchange("http://pod-1/x", b"", timeout_s=1.0)

    async def story() -> None:
        await loop.start("pod-1#1", listen())
        assert await loop.start("pod-0#1", ask()) == b"answer"
        network.faults.cut.add(("pod-1", "pod-0"))
        with pytest.raises(UnreachableError):
            await loop.start("pod-0#1", ask())
        assert served == ["x", "x"]

    run(loop, story())
