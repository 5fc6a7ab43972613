"""A pod that was told to stop serves on until other pods have taken over, within limits."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qss_client.clock import SystemClock
from qss_store.replicas.opening.leaving import Leaving
from qss_store.runtime.settings import Settings
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import WriteCluster, lead, replicated, write
from qss_testing.waiting import wait_until_async

_LONG_S = 60.0


def leaving_of(cluster: WriteCluster, pod: int, *, max_s: float, unheard_s: float) -> Leaving:
    held = cluster.pods[pod].pod
    settings = Settings(leave_max_s=max_s, leave_unheard_s=unheard_s)
    return Leaving(held.ordinal, held.registry.replicas, held.report_feed, SystemClock(), settings)


@asynccontextmanager
async def asked_all_the_time(cluster: WriteCluster, pod: int) -> AsyncIterator[None]:
    """Asks for the pod's report without a pause, as an operator does with one."""

    async def ask() -> None:
        while True:
            assert (await cluster.pods[pod].internal.get("/control/replicas")).status == 200

    asking = asyncio.create_task(ask())
    try:
        yield
    finally:
        asking.cancel()


async def test_the_pod_serves_until_its_partitions_are_handed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qss_store")
    async with replicated(tmp_path) as cluster, asked_all_the_time(cluster, 0):
        leaving = leaving_of(cluster, 0, max_s=_LONG_S, unheard_s=_LONG_S)
        assert leaving.counted() == ["0"]
        ends = asyncio.create_task(leaving.run(asyncio.Event()))
        pod = cluster.pods[0].pod
        assert not pod.report().is_leaving
        await wait_until_async(lambda: pod.report().is_leaving)

        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, {0: {b"a": b"1"}})
        await lead(cluster, 1, 3, standbys=[0])
        assert leaving.counted() == ["0"], "writers would still wait for it"
        assert not ends.done()
        await lead(cluster, 1, 4, learners=[0])
        await asyncio.wait_for(ends, 30.0)
    assert "no partition needs the pod any more" in caplog.text


async def test_a_pod_on_which_nothing_counts_ends_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qss_store")
    async with replicated(tmp_path) as cluster:
        await cluster.assign([configuration(0, 0, epoch=3)])
        await leaving_of(cluster, 0, max_s=_LONG_S, unheard_s=_LONG_S).run(asyncio.Event())
    assert "until others" not in caplog.text


async def test_a_pod_on_which_nothing_counts_takes_connections_for_a_while(tmp_path: Path) -> None:
    """The nodes learn a moment later that its Services have one pod less."""
    async with replicated(tmp_path) as cluster:
        await cluster.assign([configuration(0, 0, epoch=3)])
        held = cluster.pods[0].pod
        settings = Settings(leave_max_s=_LONG_S, leave_min_s=_LONG_S)
        leaving = Leaving(
            held.ordinal, held.registry.replicas, held.report_feed, SystemClock(), settings
        )
        assert leaving.counted() == []
        hurry = asyncio.Event()
        ends = asyncio.create_task(leaving.run(hurry))
        await cluster.pods[0].internal.get("/control/replicas")
        assert not ends.done()
        hurry.set()
        await asyncio.wait_for(ends, 30.0)


async def test_a_pod_without_the_setting_ends_at_once(tmp_path: Path) -> None:
    async with replicated(tmp_path) as cluster:
        leaving = leaving_of(cluster, 0, max_s=Settings().leave_max_s, unheard_s=_LONG_S)
        assert leaving.counted() == ["0"]
        await leaving.run(asyncio.Event())


async def test_a_pod_that_no_operator_asks_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicated(tmp_path) as cluster:
        await leaving_of(cluster, 0, max_s=_LONG_S, unheard_s=0.2).run(asyncio.Event())
    assert "the pod stops while partitions 0 need it" in caplog.text
    assert "the operator asked nothing for 0.2 s" in caplog.text


async def test_a_pod_ends_at_its_limit_also_where_an_operator_asks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicated(tmp_path) as cluster, asked_all_the_time(cluster, 0):
        await leaving_of(cluster, 0, max_s=0.5, unheard_s=_LONG_S).run(asyncio.Event())
    assert "the limit is 0.5 s" in caplog.text


async def test_a_second_signal_ends_the_pod_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qss_store")
    async with replicated(tmp_path) as cluster:
        hurry = asyncio.Event()
        ends = asyncio.create_task(
            leaving_of(cluster, 0, max_s=_LONG_S, unheard_s=_LONG_S).run(hurry)
        )
        await asyncio.sleep(0)
        assert not ends.done()
        hurry.set()
        await asyncio.wait_for(ends, 30.0)
    assert "the pod stops while partitions 0 need it: it was told to stop now" in caplog.text
    assert "no partition needs" not in caplog.text
