"""Standbys on the local cluster: real pods are killed or lose their data while a job writes."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from qss_client import ReadOptions, Store
from qss_client.http.sync_http import SyncHttp
from qss_client.processes import is_alive
from qss_core.model import Ordinal
from qss_operator.local.changes import ask_for_restart
from qss_operator.local.run import RunningStores, running_stores, wait_until_ready
from qss_operator.planning.model import ConditionType, PodEndpoints, StoreStatus
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.waiting import wait_until, wait_until_async
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

TIMEOUT_S = 60.0
# Shorter than by default, so that a failover takes a second.
QUICK = {"leaseDuration": "1s", "failoverAfter": "2s", "replicaTimeout": "2s"}
BATCHES = 40


@pytest.fixture
def qss(tmp_path: Path) -> Qss:
    return Qss(tmp_path, REAL_POD)


@asynccontextmanager
async def replicated(qss: Qss, rebalance: dict[str, str] = QUICK) -> AsyncIterator[RunningStores]:
    """Three pods, three partitions, one standby each."""
    store = manifest(partitions=3, replicas=3, standbys=1, rebalance=rebalance)
    async with running_stores([qss.write(store)], qss.state, qss.pod_command) as running:
        await wait_until_ready(running.statuses, TIMEOUT_S)
        yield running


def status_of(qss: Qss) -> StoreStatus:
    status = qss.state.read_status(STORE)
    assert status is not None
    return status


def url_of(qss: Qss) -> str:
    endpoints = status_of(qss).endpoints
    assert endpoints is not None
    assert endpoints.query is not None
    return endpoints.query


def is_redundant(qss: Qss) -> bool:
    """Whether every replica is in sync, and the status says so."""
    status = status_of(qss)
    degraded = status.condition(ConditionType.DEGRADED)
    is_healthy = degraded is not None and degraded.reason == "Healthy"
    return is_healthy and all(
        set(one.in_sync) == set(one.replicas) for one in status.assignment or ()
    )


def write_batches(url: str) -> list[int]:
    """Writes batches with the same keys; returns the numbers that were acknowledged."""
    acknowledged = []
    with Writer(url, STORE) as writer:
        for number in range(BATCHES):
            writer.write([Record(f"k{key}", number) for key in range(20)])
            acknowledged.append(number)
    return acknowledged


def values_of(url: str | list[str]) -> set[int]:
    with Store(url, STORE) as store:
        return {row.value for row in store.range()}


async def test_a_killed_pod_costs_no_acknowledged_batch_and_no_read(qss: Qss) -> None:
    async with replicated(qss):
        url = url_of(qss)
        writing = asyncio.create_task(asyncio.to_thread(write_batches, url))
        for ordinal in (0, 1, 2):
            await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
            killed = kill(qss, ordinal)
            with Store([one.query for one in _pods(qss)], STORE) as store:
                for key in range(20):
                    await asyncio.to_thread(store.get, f"k{key}")
            await until_another(qss, ordinal, killed)
        assert await writing == list(range(BATCHES))
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
        assert await asyncio.to_thread(values_of, url_of(qss)) == {BATCHES - 1}


async def test_a_store_restarts_pod_by_pod_while_a_job_writes(qss: Qss) -> None:
    """A pod that ended as an active, or in sync, would hold the job up for two minutes."""
    slow = {"leaseDuration": "2s", "failoverAfter": "120s", "replicaTimeout": "120s"}
    async with replicated(qss, slow):
        url = url_of(qss)
        before = [pid_of(qss, ordinal) for ordinal in range(3)]
        writing = asyncio.create_task(asyncio.to_thread(write_until_new, qss, before, url))
        await ask_for_restart(qss.state, STORE)
        batches = await writing
        assert len(batches) > 10
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
        assert await asyncio.to_thread(values_of, url) == {batches[-1]}


def pid_of(qss: Qss, ordinal: int) -> int | None:
    process = qss.pod(ordinal)
    return None if process is None else process.pid


def write_until_new(qss: Qss, before: list[int | None], url: str) -> list[int]:
    """Writes and reads until every pod is another process; returns the acknowledged batches."""
    acknowledged: list[int] = []
    seen = 0
    ends_s = time.monotonic() + 4 * TIMEOUT_S
    with Writer(url, STORE) as writer, Store([one.query for one in _pods(qss)], STORE) as store:
        while any(pid_of(qss, one) in (before[one], None) for one in range(3)):
            assert time.monotonic() < ends_s, "the pods are not restarted in time"
            writer.write([Record(f"k{key}", len(acknowledged)) for key in range(20)])
            acknowledged.append(len(acknowledged))
            row = store.get("k7")
            assert row is not None
            assert seen <= row.value <= acknowledged[-1], "a read went back"
            seen = row.value
    return acknowledged


async def test_a_standby_takes_over_from_a_frozen_pod(qss: Qss) -> None:
    async with replicated(qss):
        url = url_of(qss)
        frozen = qss.pod(1)
        assert frozen is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            assert await asyncio.to_thread(write_batches, url) == list(range(BATCHES))
            assert is_led_by_others(qss, 1)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
        assert await asyncio.to_thread(values_of, url) == {BATCHES - 1}


@pytest.mark.parametrize("direct", [True, False])
async def test_no_read_fails_while_a_pod_stands_still(qss: Qss, direct: bool) -> None:
    """Its partitions are still its own: no lease has run out. The reads have two seconds each."""
    async with replicated(qss, {}):
        urls = [one.query for one in _pods(qss)]
        await asyncio.to_thread(write_batches, urls[0])
        await wait_until_async(lambda: is_everywhere(urls), TIMEOUT_S)
        with Store(urls, STORE, direct=direct) as store:
            frozen = qss.pod(1)
            assert frozen is not None
            os.kill(frozen.pid, signal.SIGSTOP)
            try:
                assert await asyncio.to_thread(read_all, store) == {BATCHES - 1}
            finally:
                os.kill(frozen.pid, signal.SIGCONT)


def is_everywhere(urls: list[str]) -> bool:
    """Whether each replica, standbys among them, shows the last batch."""
    with closing(SyncHttp()) as http:
        answers = [http.get(f"{url}/state/stores/{STORE}?scope=local", dict) for url in urls]
    values = [row["value"] for answer in answers for row in answer["rows"]]
    return values == [BATCHES - 1] * 40


def read_all(store: Store) -> set[int]:
    """The values that single reads, a batch get and scans see."""
    options = ReadOptions(timeout_s=10.0)
    keys = [f"k{key}" for key in range(20)]
    rows = [store.get(key, options) for key in keys]
    rows += store.get_many(keys, options)
    for _ in range(3):
        rows += store.range(options=options)
    return {-1 if row is None else row.value for row in rows}


async def test_a_pod_that_lost_its_volume_is_made_anew_without_hands(qss: Qss) -> None:
    async with replicated(qss):
        await asyncio.to_thread(write_batches, url_of(qss))
        shutil.rmtree(qss.state.path / STORE / "pod-2" / "data")
        kill(qss, 2)
        await wait_until_async(lambda: not is_redundant(qss), TIMEOUT_S)
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
        # Now the new replicas have to answer.
        frozen = qss.pod(0)
        assert frozen is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            await wait_until_async(lambda: is_led_by_others(qss, 0), TIMEOUT_S)
            urls = [one.query for one in _pods(qss)]
            assert await asyncio.to_thread(values_of, urls) == {BATCHES - 1}
        finally:
            os.kill(frozen.pid, signal.SIGCONT)


async def test_the_status_says_how_far_the_standbys_are(qss: Qss) -> None:
    async with replicated(qss):

        def names_no_learners() -> bool:
            return "learners" not in qss.run("status", STORE).out

        # The assignment is published before the pods have taken it.
        await asyncio.to_thread(wait_until, names_no_learners, TIMEOUT_S)
        shown = await asyncio.to_thread(qss.run, "status", STORE)
        assert "standbys: every entry applied, at most" in shown.out


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_volume_that_vanishes_under_its_pod_costs_no_batch_and_no_read(
    qss: Qss, ordinal: int
) -> None:
    async with replicated(qss):
        url = url_of(qss)
        await asyncio.to_thread(write_batches, url)
        writing = asyncio.create_task(asyncio.to_thread(write_batches, url))
        shutil.rmtree(qss.state.path / STORE / f"pod-{ordinal}" / "data")
        urls = [one.query for one in _pods(qss)]
        while not writing.done():
            assert await asyncio.to_thread(values_of, urls) <= {*range(BATCHES)}
        assert await writing == list(range(BATCHES))
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
        assert await asyncio.to_thread(values_of, urls) == {BATCHES - 1}


def kill(qss: Qss, ordinal: int) -> int:
    """Kills a pod; returns its process."""
    pod = qss.pod(ordinal)
    assert pod is not None
    os.kill(pod.pid, signal.SIGKILL)
    return pod.pid


async def until_another(qss: Qss, ordinal: int, pid: int) -> None:
    """Waits until a pod was started again."""

    def is_another() -> bool:
        pod = qss.pod(ordinal)
        return pod is not None and pod.pid != pid

    await wait_until_async(is_another, TIMEOUT_S)


def is_led_by_others(qss: Qss, ordinal: int) -> bool:
    """Whether the status has no active on a pod."""
    return all(one.active != ordinal for one in status_of(qss).assignment or ())


def _pods(qss: Qss) -> list[PodEndpoints]:
    endpoints = status_of(qss).endpoints
    assert endpoints is not None
    return list(endpoints.pods)


async def test_a_pod_that_is_told_to_stop_hands_over_what_it_has(tmp_path: Path) -> None:
    """As on Kubernetes, where `qss` stops no pod."""
    qss = Qss(tmp_path, ("env", "QSS_LEAVE_MAX_S=120", "QSS_LEAVE_UNHEARD_S=60", *REAL_POD))
    async with replicated(qss, {**QUICK, "failoverAfter": "1m", "leaseDuration": "1m"}):
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
        stopping = qss.pod(1)
        assert stopping is not None
        log = qss.state.log_file(STORE, Ordinal(1))
        writing = asyncio.create_task(asyncio.to_thread(write_batches, url_of(qss)))
        os.kill(stopping.pid, signal.SIGTERM)
        await wait_until_async(lambda: not is_alive(stopping), TIMEOUT_S)
        assert await writing == list(range(BATCHES)), "no failover was possible for a minute"
        told = log.read_text()
        assert "no partition needs the pod any more" in told
        assert "pod word-counts-1 stops" in told
        await wait_until_async(lambda: is_redundant(qss), TIMEOUT_S)
