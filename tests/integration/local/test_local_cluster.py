"""Stores as real child processes: their start, their restarts, and their end."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
from jsonschema import Draft202012Validator

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_client.processes import ProcessId, identify, is_alive
from qss_core.errors import StoreError
from qss_core.model import Epoch, Ordinal, StoreAssignment, StoreName
from qss_core.wire.messages import decode
from qss_operator.errors import AlreadyRunningError, StartFailedError
from qss_operator.local.cluster import end_leftovers
from qss_operator.local.run import RunningStores, running_stores, wait_until_ready
from qss_operator.local.stop import stop_stores
from qss_operator.planning.model import ConditionType, Endpoints, StoreStatus
from qss_operator.resources.crd import json_schema, resource_schema
from qss_testing.clients.qss_command import FAKE_POD, REAL_POD, STORE, Qss, manifest
from qss_testing.waiting import wait_until_async
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

TIMEOUT_S = 60.0


@pytest.fixture
def qss(request: pytest.FixtureRequest, tmp_path: Path) -> Qss:
    return Qss(tmp_path, getattr(request, "param", FAKE_POD))


# Of rules that the fake pod could keep by luck.
with_real_pods = pytest.mark.parametrize("qss", [REAL_POD], indirect=True, ids=["real"])


@asynccontextmanager
async def ready_stores(qss: Qss, *manifests: str) -> AsyncIterator[RunningStores]:
    """Stores that are Ready; after they were stopped, no pod runs."""
    files = [qss.write(*manifests or (manifest(),))]
    async with running_stores(files, qss.state, qss.pod_command) as running:
        await wait_until_ready(running.statuses, TIMEOUT_S)
        yield running
    assert qss.living_pods() == []


def status_of(qss: Qss, store: StoreName = STORE) -> StoreStatus:
    status = qss.state.read_status(store)
    assert status is not None
    return status


def endpoints_of(qss: Qss, store: StoreName = STORE) -> Endpoints:
    endpoints = status_of(qss, store).endpoints
    assert endpoints is not None
    return endpoints


def is_whole(qss: Qss) -> Callable[[], bool]:
    def check() -> bool:
        status = status_of(qss)
        return (status.ready, status.assigned) == ("2/2", "6/6")

    return check


def ready_reason(qss: Qss) -> str:
    condition = status_of(qss).condition(ConditionType.READY)
    assert condition is not None
    return condition.reason


# --- The published status.


@with_real_pods
async def test_a_running_store_publishes_a_status_of_the_shape_of_the_crd(qss: Qss) -> None:
    async with ready_stores(qss):
        status = status_of(qss)
        assert len(qss.living_pods()) == 2
    schema = json_schema(resource_schema()["properties"]["status"])
    Draft202012Validator(schema).validate(msgspec.json.decode(msgspec.json.encode(status)))
    resource = qss.state.read_resource(STORE)
    assert resource is not None
    assert (status.assigned, status.store_id) == ("6/6", resource["metadata"]["uid"])
    assert status.observed_generation == resource["metadata"]["generation"] == 1
    assert [entry.epoch for entry in status.assignment or ()] == [1] * 6
    assert ready_reason(qss) == "Stopped"


async def test_pods_listen_on_the_loopback_address_only(qss: Qss) -> None:
    async with ready_stores(qss):
        endpoints = endpoints_of(qss)
    assert endpoints.query == endpoints.pods[0].query
    addresses = [url for pod in endpoints.pods for url in (pod.query, pod.changelog)]
    assert all(url.startswith("http://127.0.0.1:") for url in addresses)
    assert len(set(addresses)) == 4


async def test_several_stores_share_one_cluster(qss: Qss) -> None:
    words, letters = StoreName("words"), StoreName("letters")
    manifests = manifest(words, replicas=1), manifest(letters, replicas=1)
    async with ready_stores(qss, *manifests) as running:
        assert running.names == (words, letters)
        assert endpoints_of(qss, words).query != endpoints_of(qss, letters).query


# --- Data that stays.


@with_real_pods
async def test_a_store_goes_on_with_its_data_and_its_addresses(qss: Qss) -> None:
    async with ready_stores(qss):
        before = status_of(qss)
    async with ready_stores(qss):
        after = status_of(qss)
    assert after.store_id == before.store_id
    assert after.assignment == before.assignment
    assert after.endpoints == before.endpoints


@with_real_pods
async def test_a_lost_status_comes_back_from_the_pods(qss: Qss) -> None:
    async with ready_stores(qss):
        before = status_of(qss)
    (qss.state.path / STORE / "status.yaml").unlink()
    async with ready_stores(qss):
        after = status_of(qss)
    assert (after.store_id, after.assignment) == (before.store_id, before.assignment)


def refusal(url: str) -> str:
    """The code with which a pod refuses a read; "" where it answers."""
    try:
        SyncHttp().request("GET", f"{url}/state/stores/{STORE}/any-key")
    except StoreError as error:
        return error.code
    return ""


@with_real_pods
async def test_volumes_of_a_forgotten_store_are_found_and_taken_over_when_told(qss: Qss) -> None:
    async with ready_stores(qss):
        old = status_of(qss).store_id
    for name in ("resource.yaml", "status.yaml"):
        (qss.state.path / STORE / name).unlink()
    with pytest.raises(StartFailedError, match="RetainedVolumesFound") as caught:
        async with ready_stores(qss):
            pass
    assert f'queryablestate.dev/adopt-volumes: "{old}"' in caught.value.message
    # Until then nobody reads the rows of the deleted store under the name of the new one.
    async with running_stores([qss.write(manifest())], qss.state, qss.pod_command):
        await wait_until_async(lambda: ready_reason(qss) == "RetainedVolumesFound")
        endpoints = status_of(qss).endpoints
        assert endpoints is not None
        for pod in endpoints.pods or ():
            await wait_until_async(lambda url=pod.query: refusal(url) == "NOT_READY")  # type: ignore[misc]
    async with ready_stores(qss, manifest(annotations={"queryablestate.dev/adopt-volumes": old})):
        assert status_of(qss).store_id == old


@with_real_pods
async def test_a_deleted_volume_is_missed_and_not_replaced_by_an_empty_one(qss: Qss) -> None:
    async with ready_stores(qss):
        pass
    shutil.rmtree(qss.state.data_directory(STORE, Ordinal(1)))
    async with running_stores([qss.write(manifest())], qss.state, qss.pod_command):
        await wait_until_async(lambda: ready_reason(qss) == "NoInSyncReplica")
        # The other pod may still be opening its partitions.
        await wait_until_async(lambda: status_of(qss).assigned == "3/6")
        assert ready_reason(qss) == "NoInSyncReplica"


@pytest.mark.parametrize("qss", [REAL_POD], indirect=True)
async def test_a_partition_whose_data_the_status_leaves_behind_holds_up_itself_alone(
    qss: Qss,
) -> None:
    async with ready_stores(qss):
        url = endpoints_of(qss).query
        assert url is not None
        await asyncio.to_thread(write_values, url, STORE, {f"k{one}": one for one in range(30)})
        status = status_of(qss)
    first, *others = status.assignment or ()
    assert first.active == Ordinal(0)
    there = (Ordinal(1),)
    moved = msgspec.structs.replace(
        first, epoch=Epoch(2), active=Ordinal(1), in_sync=there, replicas=there
    )
    qss.state.write_status(STORE, msgspec.structs.replace(status, assignment=(moved, *others)))
    newer = qss.write(manifest(changelog={"retention": "1h"}))
    async with running_stores([newer], qss.state, qss.pod_command):
        await wait_until_async(lambda: ready_reason(qss) == "AssignmentUnknown", 2 * TIMEOUT_S)
        await wait_until_async(lambda: status_of(qss).assigned == "5/6", 2 * TIMEOUT_S)
        await wait_until_async(lambda: retentions_ms(qss) == [3_600_000, 3_600_000], 2 * TIMEOUT_S)
        assert ready_reason(qss) == "AssignmentUnknown"
        # The pod serves the data from its volume, and no empty partition stands in its place.
        assert await asyncio.to_thread(count_rows, endpoints_of(qss).query) == 30
        assert not (qss.state.data_directory(STORE, Ordinal(1)) / "partitions" / "0").exists()


def retentions_ms(qss: Qss) -> list[int]:
    """The changelog retention that each pod was told last."""
    files = [qss.state.data_directory(STORE, Ordinal(pod)) / "assignment.json" for pod in (0, 1)]
    kept = [decode(file.read_bytes(), StoreAssignment) for file in files]
    return [assignment.settings.changelog_retention_ms for assignment in kept]


def count_rows(url: str | None) -> int:
    assert url is not None
    with Store(url, STORE) as store:
        return len(list(store.range()))


@with_real_pods
async def test_a_store_that_is_started_with_another_number_of_pods_moves_its_partitions(
    qss: Qss,
) -> None:
    async with ready_stores(qss):
        pass
    for replicas in (3, 1):
        async with ready_stores(qss, manifest(replicas=replicas)):
            await wait_until_async(partial(is_spread_over, qss, replicas))


def is_spread_over(qss: Qss, replicas: int) -> bool:
    """Whether that many pods run, and each has an active."""
    status = status_of(qss)
    actives = {one.active for one in status.assignment or ()}
    return actives == set(range(replicas)) and status.ready == f"{replicas}/{replicas}"


# --- Failures.


@with_real_pods
async def test_a_killed_pod_is_started_again_at_its_address(qss: Qss) -> None:
    async with ready_stores(qss):
        before, killed = endpoints_of(qss), qss.pod(1)
        assert killed is not None
        os.kill(killed.pid, signal.SIGKILL)
        await wait_until_async(lambda: qss.pod(1) not in (None, killed))
        await wait_until_async(lambda: answers(before.pods[1].changelog))
        await wait_until_async(is_whole(qss))
        assert endpoints_of(qss) == before


async def test_a_pod_that_cannot_start_is_explained_and_tried_again(tmp_path: Path) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    qss = Qss(tmp_path, (*FAKE_POD, "--fail-while", str(obstacle)))
    async with running_stores([qss.write(manifest())], qss.state, qss.pod_command):
        await wait_until_async(lambda: ready_reason(qss) == "PodsFailing")
        condition = status_of(qss).condition(ConditionType.DEGRADED)
        assert condition is not None
        assert "ended with exit code 3" in condition.message
        assert "it said last: the disk is on fire" in condition.message
        obstacle.unlink()
        await wait_until_async(is_whole(qss))


async def test_a_pod_program_that_does_not_exist_is_explained(tmp_path: Path) -> None:
    qss = Qss(tmp_path, ("/nowhere/qss-store",))
    async with running_stores([qss.write(manifest())], qss.state, qss.pod_command):
        await wait_until_async(lambda: ready_reason(qss) == "PodsFailing")
        condition = status_of(qss).condition(ConditionType.READY)
        assert condition is not None
        reason = "cannot be started: No such file or directory: /nowhere/qss-store, restarting"
        assert reason in condition.message


async def test_a_state_directory_is_run_by_one_at_a_time(qss: Qss) -> None:
    async with ready_stores(qss):
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} runs the stores"):
            async with ready_stores(qss):
                pass
        assert is_whole(qss)(), "the first one goes on"


# --- Processes that are left.


async def test_a_pod_that_was_left_behind_is_ended_by_its_recorded_process(qss: Qss) -> None:
    left = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    process = identify(left.pid)
    assert process is not None
    remember(qss, process)
    assert await end_leftovers(qss.state) == 1
    assert await left.wait() == -signal.SIGTERM


async def test_a_process_that_got_the_pid_of_a_pod_is_never_signalled(qss: Qss) -> None:
    innocent = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
    remember(qss, ProcessId(pid=innocent.pid, started="another-boot:1"))
    assert await end_leftovers(qss.state) == 0
    assert innocent.returncode is None
    await innocent.communicate(b"\n")


async def test_stopping_where_nothing_runs_does_nothing(qss: Qss) -> None:
    assert await stop_stores(qss.state) == 0
    assert not qss.state.path.exists()


def test_a_process_is_told_from_its_remains() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = identify(child.pid)
    assert process is not None
    assert is_alive(process)
    child.communicate(b"\n", timeout=TIMEOUT_S)
    assert not is_alive(process)
    assert identify(os.getpid()) == identify(os.getpid()) is not None


def remember(qss: Qss, process: ProcessId) -> None:
    qss.state.pod_directory(STORE, Ordinal(0)).mkdir(parents=True)
    qss.state.write_process(STORE, Ordinal(0), process)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/control/replicas", timeout=1) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.mark.parametrize("qss", [REAL_POD], indirect=True, ids=["real"])
async def test_a_frozen_pod_is_told_of_and_the_other_pods_are_asked_meanwhile(qss: Qss) -> None:
    async with ready_stores(qss):
        write_values(endpoints_of(qss).query or "", STORE, {f"k{n}": n for n in range(20)})
        frozen = qss.pod(0)
        assert frozen is not None
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            await wait_until_async(lambda: degraded(qss) == "PodsFailing", TIMEOUT_S)
            condition = status_of(qss).condition(ConditionType.DEGRADED)
            assert condition is not None
            assert condition.message.startswith(f"{STORE}-0 runs and has not answered for 10 s")
            urls = [pod.query for pod in endpoints_of(qss).pods if pod.query]
            served = await asyncio.to_thread(values_of_pod_1, urls)
            assert served  # Although the first address is the frozen pod's.
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        await wait_until_async(lambda: degraded(qss) == "Healthy", TIMEOUT_S)


def degraded(qss: Qss) -> str | None:
    """The reason of the condition."""
    condition = status_of(qss).condition(ConditionType.DEGRADED)
    return None if condition is None else condition.reason


def values_of_pod_1(urls: list[str]) -> list[object]:
    """The values in partitions of pod 1."""
    with Store(urls, STORE) as store:
        return [row.value for row in store.range(partitions=[1, 3, 5])]
