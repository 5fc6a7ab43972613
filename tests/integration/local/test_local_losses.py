"""The volume of a real pod went back: the status reports the loss, and a person accepts it."""

import asyncio
import json
import os
import re
import shutil
import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from qss_client import Store
from qss_core.model import Ordinal
from qss_operator.local.run import running_stores
from qss_operator.planning.model import ConditionType
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.waiting import wait_until, wait_until_async
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

TIMEOUT_S = 60.0
KEYS = [f"k{number}" for number in range(20)]
ANNOTATION = "queryablestate.dev/accept-data-loss"


@pytest.fixture
def qss(tmp_path: Path) -> Qss:
    return Qss(tmp_path, REAL_POD)


@asynccontextmanager
async def started(
    qss: Qss, annotations: dict[str, str] | None = None, **spec: Any
) -> AsyncIterator[None]:
    text = manifest(annotations=annotations or {}, replicas=2, partitions=2, **spec)
    async with running_stores([qss.write(text)], qss.state, qss.pod_command):
        yield


async def is_ready(qss: Qss) -> str:
    """The store's URL, once every partition is served."""
    ready = lambda: told(qss, ConditionType.READY)[0] == "True"  # noqa: E731
    await wait_until_async(ready, TIMEOUT_S)
    status = qss.state.read_status(STORE)
    assert status is not None
    assert status.endpoints is not None
    assert status.endpoints.query is not None
    return status.endpoints.query


async def write(qss: Qss, value: int) -> None:
    url = await is_ready(qss)
    await asyncio.to_thread(write_values, url, STORE, dict.fromkeys(KEYS, value))


def values_at(url: str) -> set[object]:
    with Store(url, STORE) as store:
        rows = [store.get(key) for key in KEYS]
        return {row.value for row in rows if row is not None}


def keys_at(url: str) -> int:
    with Store(url, STORE) as store:
        return sum(store.get(key) is not None for key in KEYS)


def sequences_at(qss: Qss, ordinal: int) -> set[int]:
    """The sequences that the replicas of a pod have applied."""
    status = qss.state.read_status(STORE)
    assert status is not None
    assert status.endpoints is not None
    url = f"{status.endpoints.pods[ordinal].query}/state/lags/{STORE}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        found = json.load(answer)
    return {one["sequence"] for one in found["partitions"].values()}


def told(qss: Qss, kind: ConditionType) -> tuple[str, str, str]:
    """Status, reason and message of a condition; empty before it is published."""
    status = qss.state.read_status(STORE)
    found = status and status.condition(kind)
    return (found.status.value, found.reason, found.message) if found else ("", "", "")


def in_sync(qss: Qss) -> list[set[int]]:
    status = qss.state.read_status(STORE)
    return [{*one.in_sync} for one in (status and status.assignment) or ()]


async def degraded_by(qss: Qss, reason: str, words: str = "") -> str:
    """The message of the condition, once it has that reason and has the words in it.

    A message has more in it with each pod that answers.
    """

    def message() -> str | None:
        _, its_reason, its_message = told(qss, ConditionType.DEGRADED)
        return its_message if its_reason == reason and words in its_message else None

    found = await wait_until_async(message, TIMEOUT_S)
    assert found is not None
    return found


async def test_a_volume_that_went_back_is_told_and_its_loss_accepted(qss: Qss) -> None:
    volume = qss.state.data_directory(STORE, Ordinal(1))
    async with started(qss):
        await write(qss, 1)
    shutil.copytree(volume, qss.directory / "backup")
    async with started(qss):
        await write(qss, 2)
    shutil.rmtree(volume)
    (qss.directory / "backup").rename(volume)
    async with started(qss):
        message = await degraded_by(qss, "PartitionRolledBack")
        assert (
            "partition 1 on word-counts-1 holds sequence 1, and at least 2 was completed" in message
        )
        assert f'write {ANNOTATION}: "1@1" under metadata.annotations in the store' in message
        assert f"`qss apply FILE --state-dir {qss.state.path}`" in message
        assert "kubectl" not in message
    async with started(qss, {ANNOTATION: "1@1"}):
        url = await is_ready(qss)
        assert await asyncio.to_thread(values_at, url) == {1, 2}
        lost = await degraded_by(qss, "DataLost")
        assert "partition 1 lacks the batches of sequence 2, accepted in epoch 1" in lost
        await write(qss, 3)
        assert await asyncio.to_thread(values_at, url) == {3}


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_volume_that_is_gone_is_not_served_before_its_loss_is_accepted(
    qss: Qss, ordinal: int
) -> None:
    async with started(qss):
        await write(qss, 1)
    shutil.rmtree(qss.state.data_directory(STORE, Ordinal(ordinal)))
    async with started(qss):
        message = await degraded_by(qss, "NoInSyncReplica")
        assert f"word-counts-{ordinal}: the volume is empty or incomplete" in message
        assert f'{ANNOTATION}: "{ordinal}@1"' in message
    async with started(qss, {ANNOTATION: f"{ordinal}@1"}):
        url = await is_ready(qss)
        assert 0 < await asyncio.to_thread(keys_at, url) < len(KEYS)
        lost = await degraded_by(qss, "DataLost")
        assert f"partition {ordinal} lacks the batches of sequence 1, accepted in epoch 1" in lost
        await write(qss, 2)
        assert await asyncio.to_thread(values_at, url) == {2}
        assert await asyncio.to_thread(keys_at, url) == len(KEYS)


async def test_a_learner_goes_on_where_the_only_volume_in_sync_is_gone(qss: Qss) -> None:
    """It lacks the last batch; the emptied volume would begin without any row."""
    quick = {"leaseDuration": "1s", "failoverAfter": "2s", "replicaTimeout": "2s"}
    spec: dict[str, Any] = {"standbys": 1, "rebalance": quick}
    async with started(qss, **spec):
        await wait_until_async(lambda: in_sync(qss) == [{0, 1}, {0, 1}], TIMEOUT_S)
        await write(qss, 1)
        # A standby applies what it has logged a moment after the writer's answer.
        applied = lambda: sequences_at(qss, 1) == {1}  # noqa: E731
        await asyncio.to_thread(wait_until, applied, TIMEOUT_S)
        standby = qss.pod(1)
        assert standby is not None
        os.kill(standby.pid, signal.SIGSTOP)
        await wait_until_async(lambda: in_sync(qss) == [{0}, {0}], TIMEOUT_S)
        await write(qss, 2)
    shutil.rmtree(qss.state.data_directory(STORE, Ordinal(0)))
    async with started(qss, **spec):
        follows = "After an accepted loss partition 0, 1 goes on with word-counts-1, which has"
        message = await degraded_by(qss, "NoInSyncReplica", f"{follows} sequence 1")
        accepted = re.search(f'{ANNOTATION}: "([0-9@,]+)"', message)
        assert accepted is not None
    async with started(qss, {ANNOTATION: accepted[1]}, **spec):
        url = await is_ready(qss)
        assert await asyncio.to_thread(values_at, url) == {1}
        await wait_until_async(lambda: in_sync(qss) == [{0, 1}, {0, 1}], TIMEOUT_S)
        await write(qss, 3)
        assert await asyncio.to_thread(values_at, url) == {3}


@pytest.mark.parametrize("standbys", [0, 1])
async def test_without_a_status_a_replica_that_cannot_be_opened_does_not_hold_the_store_up(
    qss: Qss, standbys: int
) -> None:
    """Its pod tells the configuration: a copy takes its place, or a person accepts the loss."""
    async with started(qss, standbys=standbys):
        await write(qss, 1)
    status = qss.state.read_status(STORE)
    assert status is not None
    qss.state.write_status(STORE, replace(status, assignment=None))
    volume = qss.state.data_directory(STORE, Ordinal(1))
    (volume / "partitions" / "1" / "CURRENT").write_bytes(b"\xff\xfe\x00garbage")
    async with started(qss, standbys=standbys):
        if standbys == 0:
            assert "partition 1 on word-counts-1 cannot be opened" in (
                await degraded_by(qss, "NoInSyncReplica")
            )
            return
        await wait_until_async(lambda: in_sync(qss) == [{0, 1}, {0, 1}], TIMEOUT_S)
        url = await is_ready(qss)
        assert await asyncio.to_thread(keys_at, url) == len(KEYS)


async def test_up_says_what_it_waits_for_and_ends_where_only_a_person_can_help(qss: Qss) -> None:
    text = manifest(replicas=2, partitions=2)
    try:
        up = await asyncio.to_thread(qss.up, text)
        assert up.code == 0, up.err
        await write(qss, 1)
        await asyncio.to_thread(qss.down)
        shutil.rmtree(qss.state.data_directory(STORE, Ordinal(1)))
        # Longer than the command may run here, so it has to end by itself.
        up = await asyncio.to_thread(qss.up, text, timeout_s=3600.0)
        assert up.code == 4
        lines = up.err.splitlines()
        assert lines[0].startswith(f"waiting: {STORE}: ")
        errors = [line for line in lines if line.startswith("error: ")]
        assert errors[0].startswith(f"error: NOT_READY: {STORE}: NoInSyncReplica: {STORE}-1: the")
        assert f'write {ANNOTATION}: "1@1" under metadata.annotations' in errors[0]
        # `qss up` does not give up because of an accepted loss.
        await asyncio.to_thread(qss.down)
        accepted = manifest(annotations={ANNOTATION: "1@1"}, replicas=2, partitions=2)
        up = await asyncio.to_thread(qss.up, accepted)
        assert up.code == 0, up.err
    finally:
        await asyncio.to_thread(qss.down)
