"""A pod tells the status of all pods of a store, its writers and its newest batches."""

import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from qss_core.errors import (
    MalformedRequestError,
    PathNotFoundError,
    StoreError,
    WrongStoreError,
)
from qss_core.model import Epoch, Ordinal
from qss_core.wire.discovery import StoreStatus
from qss_core.wire.messages import decode, encode, problem_of
from qss_testing.clients.http import Api
from qss_testing.fakes.strange_pods import Serve
from qss_testing.pods.guarded import get_json
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.stores import Cluster, configuration
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
PLACED = [configuration(0, active=0, standbys=[1]), configuration(1, active=1)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    """Two pods, and one writer with two batches."""
    with PodCluster(tmp_path_factory.mktemp("pods"), pods=2, partitions=2) as cluster:
        with Writer(cluster.url, cluster.store, "job") as job:
            job.write([Record("a", 1), Record("b", 2)])
            job.write([Record("c", 3)])
        yield cluster


async def test_any_pod_tells_the_replicas_of_all_pods(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitions=2, configurations=PLACED)
    await cluster.until_level()
    await cluster.put_values({"a": 1, "b": 2, "c": 3})
    await cluster.until_level()
    for ordinal in (0, 1):
        answer = await api(cluster, ordinal).get("/state/status/words")
        status = decode(answer.body, StoreStatus)
        assert status.silent == {}
        roles = {
            name: {number: one.role.value for number, one in pod.replicas.items()}
            for name, pod in status.pods.items()
        }
        assert roles == {"words-0": {"0": "active"}, "words-1": {"0": "standby", "1": "active"}}
        for pod in status.pods.values():
            for replica in pod.replicas.values():
                assert (replica.state, replica.error) == ("serving", None)
                assert replica.data_bytes > 0
    alone = (await api(cluster, 1).get("/state/status/words?scope=local")).json()
    assert list(alone["pods"]) == ["words-1"]


async def test_a_pod_that_is_away_is_named_with_the_reason(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory", partitions=2, configurations=PLACED)
    await cluster.stop_pod(1)
    status = (await api(cluster, 0).get("/state/status/words")).json()
    assert list(status["pods"]) == ["words-0"]
    assert "words-1 did not answer" in status["silent"]["words-1"]
    answer = await api(cluster, 0).get("/state/status/birds")
    answer.problem(404, "STORE_NOT_FOUND")


async def test_a_pod_of_a_version_without_status_is_named(
    start_cluster: StartCluster, api: MakeApi, serve: Serve
) -> None:
    problem = problem_of(PathNotFoundError("there is no such path"))

    async def older(_: web.Request) -> web.Response:
        return web.Response(
            status=404, body=encode(problem), content_type="application/problem+json"
        )

    cluster = await start_cluster(2, engine="memory", partitions=2, configurations=PLACED)
    await cluster.stop_pod(1)
    cluster.ports[1] = int((await serve(older)).rpartition(":")[2])
    await cluster.assign(PLACED)
    status = (await api(cluster, 0).get("/state/status/words")).json()
    assert status["silent"] == {"words-1": "pod words-1 has no status that this version reads"}


def test_any_pod_tells_the_conditions_that_one_of_them_was_told(written: PodCluster) -> None:
    urls = [f"{pod.query}/state/status/{written.store}" for pod in written.pods]
    assert [get_json(url)["conditions"] for url in urls] == [None, None]
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Serving",
        "message": "all 2 partitions are served",
        "lastTransitionTime": "2026-11-27T12:00:00Z",
    }
    store_id = written.assignment.definition.store_id
    later = {"storeId": store_id, "conditions": [ready], "ofALaterVersion": 1}
    assert written.pods[0].put("conditions", later).ready
    for url in urls:
        found = get_json(url)["conditions"]
        assert found["conditions"] == [ready]
        assert 0 <= found["operatorSilentS"] <= found["toldAgoS"] < 60
    with pytest.raises(WrongStoreError):
        written.pods[1].put("conditions", {"storeId": "another", "conditions": []})
    with pytest.raises(MalformedRequestError):
        written.pods[1].put("conditions", {"storeId": store_id, "conditions": [{"type": 5}]})
    assert get_json(f"{urls[1]}?scope=local")["conditions"] is None
    newer = {**ready, "status": "Unknown", "message": "the operator has just begun"}
    written.tell_conditions(written.pods[1], newer)
    assert [get_json(url)["conditions"]["conditions"] for url in urls] == [[newer], [newer]]


def test_any_pod_tells_the_writers_and_batches(written: PodCluster) -> None:
    for pod in written.pods:
        url = f"{pod.query}/state/batches/{written.store}"
        found = get_json(url)
        assert [one["name"] for one in found["writers"]] == ["job"]
        told = [(one["sequence"], one["writer"], one["rows"]) for one in found["batches"]]
        assert told == [(1, "job", 2), (2, "job", 1)]
        assert all(one["latencyMs"] > 0 for one in found["batches"])
        assert [one["sequence"] for one in get_json(f"{url}?after=1")["batches"]] == [2]


async def test_batches_are_asked_of_the_coordinator_once(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory", partitions=2, configurations=PLACED)
    await cluster.until_level()
    found = (await api(cluster, 1).get("/state/batches/words")).json()
    assert found == {"writers": [], "batches": [], "earlier": []}
    there = await api(cluster, 1).get("/state/batches/words?scope=local")
    there.problem(409, "NOT_ACTIVE")
    bad = await api(cluster, 1).get("/state/batches/words?after=-1")
    assert "after is a sequence" in bad.problem(400, "MALFORMED_REQUEST")["detail"]


def test_a_coordinator_tells_the_batches_from_before_it_began(tmp_path: Path) -> None:
    with PodCluster(tmp_path, pods=2, standbys=1, partitions=2) as cluster:
        with Writer(cluster.url, cluster.store, "job") as job:
            job.write([Record("a", 1), Record("b", 2)])
            job.write([Record("c", 3)])
        url = f"{cluster.pods[1].query}/state/batches/{cluster.store}"
        before = get_json(url)
        assert before["earlier"] == []
        cluster.pods[0].kill()
        lead(cluster, 1, Epoch(2))
        found = get_json(url)
        assert found["batches"] == []
        without = [{k: v for k, v in one.items() if k != "latencyMs"} for one in before["batches"]]
        assert found["earlier"] == without
        with Writer(cluster.pods[1].query, cluster.store, "next") as job:
            job.write([Record("d", 4)])
        assert told(get_json(url)) == ([3], [1, 2])
        assert told(get_json(f"{url}?after=1")) == ([3], [2])
        cluster.pods[0].start()
        cluster.pods[1].kill()
        cluster.pods[1].start()
        lead(cluster, 1, Epoch(3))
        assert told(get_json(url)) == ([], [1, 2, 3])
        assert told(get_json(f"{url}?after=2")) == ([], [3])


def told(found: dict[str, Any]) -> tuple[list[int], ...]:
    """The sequences of an answer: those that the coordinator saw, and those of its log."""
    return tuple([one["sequence"] for one in found[name]] for name in ("batches", "earlier"))


def lead(cluster: PodCluster, pod: int, epoch: Epoch) -> None:
    """Makes a pod the active of all partitions, alone, and waits until it serves."""
    alone = (Ordinal(pod),)
    only = {"epoch": epoch, "active": alone[0], "in_sync": alone, "replicas": alone}
    newer = tuple(replace(one, **only) for one in cluster.assignment.partitions)
    cluster.assignment = replace(cluster.assignment, partitions=newer)
    cluster.assign(cluster.pods[pod])

    def serves() -> bool:
        try:
            get_json(f"{cluster.pods[pod].query}/state/batches/{cluster.store}")
        except StoreError:
            return False
        return True

    wait_until(serves, 30.0)


def test_a_pod_says_its_version_and_whether_it_is_ready(written: PodCluster) -> None:
    status = get_json(f"{written.url}/state/status/{written.store}")
    for pod in status["pods"].values():
        assert pod["ready"]
        assert pod["version"]


def test_a_request_of_a_proxy_names_the_whole_url(written: PodCluster) -> None:
    for pod in written.pods:
        with closing(http.client.HTTPConnection("127.0.0.1", pod.ports[0], timeout=30)) as proxy:
            for what, member, found in (("status", "pods", 2), ("batches", "batches", 2)):
                proxy.request("GET", f"http://127.0.0.1:1/state/{what}/words")
                answer = proxy.getresponse()
                document = json.loads(answer.read())
                assert (answer.status, len(document.get(member, ()))) == (200, found), document
