"""Bounds on what the answers of pods with a foreign program cost the operator of all stores."""

import asyncio
import resource
import zlib

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from qss_client.clock import SystemClock
from qss_core.errors import StoreError
from qss_core.model import Ordinal, PartitionId, PodName, StoreId, StoreName
from qss_core.wire.losses import LostReplica
from qss_core.wire.messages import Problem, encode
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator import http_pods
from qss_operator.http_pods import HttpPods
from qss_operator.pod_answers import REPORT_BYTES_MAX, STORE_BYTES_MAX, TEXT_CHARS_MAX
from qss_testing.fakes.strange_pods import Handler, address_of, pod_that

MIB = 1024 * 1024
REPORT = ReplicasReport(
    store=StoreName("words"),
    store_id=None,
    pod=PodName("words-0"),
    ordinal=Ordinal(0),
    incarnation="1",
    version=1,
    ready=False,
    replicas=(),
)
FROM_BEFORE = replace(REPORT, message_version=1)  # As of a pod that names no version.


def always(answer: bytes, status: int = 200, **headers: str) -> Handler:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=answer, status=status, headers=named)

    return handler


def packed_zeros(mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(mebibytes)) + packer.flush()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods and operator share an event loop here, and a busy machine."""
    monkeypatch.setattr(http_pods, "_REPORT_TIMEOUT_S", 60.0)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def test_a_compressed_answer_is_not_decompressed() -> None:
    packed = packed_zeros(700)
    async with (
        pod_that(always(packed, Content_Encoding="gzip")) as url,
        aiohttp.ClientSession() as session,
    ):
        pods, before = HttpPods(session, clock=SystemClock()), peak_bytes()
        assert await pods.report(address_of(url)) is None
        said = pods.refusal(address_of(url))
        assert said is not None
        assert "Content-Encoding 'gzip': store pods use none" in said
        assert peak_bytes() - before < 64 * MIB


async def test_an_answer_without_an_end_is_read_up_to_the_limit() -> None:
    sent = 0
    is_over = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65536)
                sent += 65536
        except ConnectionError:
            is_over.set()
        return response

    async with pod_that(endless) as url, aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SystemClock())
        assert await pods.report(address_of(url)) is None
        assert "its answer is longer than 2 MiB" in str(pods.refusal(address_of(url)))
        async with asyncio.timeout(20):
            await is_over.wait()
    assert sent < REPORT_BYTES_MAX + 16 * MIB, "the limit and the buffers of the sockets"


async def test_the_pods_of_a_store_have_a_limit_together() -> None:
    spaces = b" " * (REPORT_BYTES_MAX - 4096) + encode(REPORT)
    async with pod_that(always(spaces)) as url, aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SystemClock())
        told = await asyncio.gather(*(pods.report(address_of(url, n)) for n in range(6)))
        heard = [report for report in told if report is not None]
        assert len(heard) <= STORE_BYTES_MAX // len(spaces) == 2
        refused = [pods.refusal(address_of(url, n)) for n in range(6) if told[n] is None]
        assert all("more than 4 MiB together" in str(one) for one in refused)
        for _ in range(4):
            told_again = await pods.report(address_of(url))
            assert told_again == FROM_BEFORE, "a refused answer does not count"


async def test_a_request_that_outlasts_rounds_leaves_each_round_the_whole_limit() -> None:
    """A pod may open its replicas for long before it takes its assignment."""
    is_over = asyncio.Event()
    spaces = b" " * (REPORT_BYTES_MAX - 4096) + encode(REPORT)

    async def answers(request: web.Request) -> web.Response:
        if request.method == "PUT":
            await is_over.wait()
            return web.Response(body=encode(REPORT))
        return web.Response(body=spaces)

    async with pod_that(answers) as url, aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SystemClock())
        slow = pods.call(address_of(url, 1), "PUT", "/control/assignment", 30.0, b"{}")
        taking = asyncio.create_task(slow)
        for _ in range(4):
            assert await pods.report(address_of(url)) == FROM_BEFORE
        told = await asyncio.gather(*(pods.report(address_of(url, n)) for n in (0, 2, 3)))
        assert sum(report is not None for report in told) == 2, "the limit of one round"
        is_over.set()
        assert await taking == FROM_BEFORE


async def test_texts_of_a_report_are_cut() -> None:
    long = "x" * 100_000
    lost = LostReplica(partition=PartitionId(3), error=long)
    told = replace(REPORT, lost=(lost,), incarnation=long, store_id=StoreId(long))
    async with pod_that(always(encode(told))) as url, aiohttp.ClientSession() as session:
        report = await HttpPods(session, clock=SystemClock()).report(address_of(url))
    assert report is not None
    assert len(encode(report)) < 4 * TEXT_CHARS_MAX
    assert report.lost[0].error == "x" * TEXT_CHARS_MAX + "..."
    assert report.pod == "words-0"


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (409, encode(Problem(title="t", status=409, code="STALE", detail="y" * 50_000))),
        (200, b'{"%s": 1}' % (b"z" * 50_000)),
        (500, b" " * MIB),
    ],
)
async def test_texts_of_refusals_are_cut(status: int, answer: bytes) -> None:
    async with pod_that(always(answer, status)) as url, aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SystemClock())
        assert await pods.report(address_of(url)) is None
        said = pods.refusal(address_of(url))
        assert said is not None
        assert len(said) < TEXT_CHARS_MAX + 200


async def test_a_refused_assignment_keeps_its_kind() -> None:
    problem = Problem(title="t", status=409, code="STALE_EPOCH", detail="older")
    async with pod_that(always(encode(problem), 409)) as url, aiohttp.ClientSession() as session:
        with pytest.raises(StoreError, match="older") as raised:
            await HttpPods(session, clock=SystemClock()).call(
                address_of(url), "PUT", "/control/assignment", 5.0, b"{}"
            )
        assert raised.value.code == "STALE_EPOCH"
