"""Pods and operators that name no version of their messages are told only what they can read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from qss_client.clock import SystemClock
from qss_core.errors import MalformedRequestError, PathNotFoundError
from qss_core.model import (
    PartitionId,
    Sequence,
    StoreAssignment,
    StoreId,
    StoreSettings,
)
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import SequencesRequest
from qss_core.wire.messages import PrepareRequest, decode, encode, problem_of
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.versions import OWN_VERSION
from qss_operator.http_pods import HttpPods
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_store.writes.sequence_comparison import Comparison
from qss_testing.fakes.strange_pods import address_of, pod_that
from qss_testing.messages_before import DOCUMENTS, refusal_before
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import HOST, WriteCluster, write_cluster

_HEADERS = {"Content-Type": "application/json"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    """One pod with one partition and a writer."""
    async with write_cluster(tmp_path, pods=1, partitions=1) as made:
        await made.assign([configuration(0, 0)])
        await made.until_led()
        await made.writer().epoch("run-1")
        yield made


async def ask(
    cluster: WriteCluster, method: str, path: str, message: object = None, *, is_new: bool = False
) -> bytes:
    """The answer of pod 0 to a side that names no version, or to one of this version."""
    url = f"http://{HOST}:{cluster.ports[0]}{path}"
    body = None if message is None else encode(message)
    headers = {**_HEADERS, **(OWN_VERSION if is_new else {})}
    async with cluster.session.request(method, url, data=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        return await response.read()


async def test_an_older_operator_reads_the_reports_of_a_pod(cluster: WriteCluster) -> None:
    asked = [("GET", "/control/replicas", None), ("PUT", "/control/assignment", cluster.assignment)]
    for method, path, message in asked:
        older = await ask(cluster, method, path, message)
        assert refusal_before("ReplicasReport", older) is None
        newer = await ask(cluster, method, path, message, is_new=True)
        assert "'answers' was unexpected" in str(refusal_before("ReplicasReport", newer))
        told = decode(older, ReplicasReport)
        assert told.replicas[0].state == "serving"
        assert replace(decode(newer, ReplicasReport), replicas=()) == replace(told, replicas=())


async def test_an_older_pod_reads_what_pods_answer_each_other(cluster: WriteCluster) -> None:
    store_id = cluster.definition.store_id
    prepare = PrepareRequest(
        store_id=store_id,
        epochs={"0": cluster.configurations[0].epoch},
        writer="",
        generation=0,
        batch=0,
        writer_epoch=cluster.pods[0].pod.registry.completion.writer_epoch,
        chunks={},
    )
    sequences = SequencesRequest(
        store_id=store_id,
        sequences={},
        completed=Sequence(0),
        partition=PartitionId(0),
    )
    for path, message, answer in (
        ("/transactions/prepare", prepare, "PartitionsAnswer"),
        ("/transactions/sequences", sequences, "SequencesAnswer"),
    ):
        assert refusal_before(answer, await ask(cluster, "POST", path, message)) is None
        newer = await ask(cluster, "POST", path, message, is_new=True)
        assert "'writerEpoch' was unexpected" in str(refusal_before(answer, newer))


@asynccontextmanager
async def pod_before(took: dict[str, bytes]) -> AsyncIterator[str]:
    """A pod of the version before, which refuses unknown members; yields its URL."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        name, answers = {
            "/control/replicas": ("", "ReplicasReport"),
            "/control/assignment": ("StoreAssignment", "ReplicasReport"),
            "/transactions/sequences": ("SequencesRequest", "SequencesAnswer"),
        }[request.path]
        if name and (why := refusal_before(name, body)):
            error = MalformedRequestError(why)
            return web.Response(body=encode(problem_of(error)), status=error.http_status)
        took[request.path] = body
        return web.Response(body=encode(DOCUMENTS[answers]), content_type="application/json")

    async with pod_that(answer) as url:
        yield url


async def test_the_operator_sends_an_older_pod_the_settings_that_it_knows() -> None:
    settings = StoreSettings(changelog_retention_ms=7, lease_ms=9000)
    recorded = decode(encode(DOCUMENTS["StoreAssignment"]), StoreAssignment)
    assignment = replace(recorded, settings=settings, resource_uid="u", generation=3)
    took: dict[str, bytes] = {}
    async with pod_before(took) as url, aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SystemClock())
        with pytest.raises(MalformedRequestError, match="leaseMs"):
            await pods.assign(address_of(url), assignment)
        report = await pods.report(address_of(url))
        assert report is not None
        assert not report.replicates
        assert not (await pods.assign(address_of(url), assignment)).replicates
    kept = decode(took["/control/assignment"], StoreAssignment)
    assert kept == replace(recorded, settings=replace(settings, lease_ms=5000))


async def test_an_older_pod_refuses_conditions_by_the_path() -> None:
    problem = problem_of(PathNotFoundError("there is no PUT /control/conditions"))

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=encode(problem), status=404, content_type="application/json")

    async with pod_that(answer) as url, aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SystemClock())
        told = TellConditionsRequest(store_id=StoreId("s"), conditions=())
        with pytest.raises(PathNotFoundError):
            await pods.tell_conditions(address_of(url), told)


async def test_the_operator_knows_a_pod_of_this_version(cluster: WriteCluster) -> None:
    pod = address_of(f"http://{HOST}:{cluster.ports[0]}")
    report = await HttpPods(cluster.session, clock=SystemClock()).report(pod)
    assert report == cluster.pods[0].pod.report()
    assert report.replicates


async def test_a_pod_compares_its_sequences_with_an_older_one(cluster: WriteCluster) -> None:
    took: dict[str, bytes] = {}
    held = cluster.pods[0]
    async with pod_before(took) as url, PeerSession() as session:
        comparison = Comparison(held.pod, Peers(session), cluster.settings)
        async with asyncio.timeout(10):
            answer = await comparison.ask(address_of(url), PartitionId(0))
    assert answer.sequences == DOCUMENTS["SequencesAnswer"]["sequences"]
    assert answer.held is not None
    assert decode(took["/transactions/sequences"], SequencesRequest).writer_epoch == 0
