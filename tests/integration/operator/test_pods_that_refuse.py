"""The operator's reports of pods that refuse its requests, over real HTTP."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from msgspec.structs import replace

from qss_core.errors import ForbiddenError
from qss_core.model import Ordinal, PodAddress, PodName, StoreName
from qss_core.wire.messages import encode, problem_of
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.versions import OWN_VERSION
from qss_operator.http_pods import HttpPods
from qss_testing.fakes.strange_pods import address_of, pod_that
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.certificates import Authority
from qss_testing.pods.ports import free_ports
from qss_testing.waiting import wait_until_async

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


class Trusting:
    """Trusts one authority, and has no token."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def headers(self, pod: PodAddress) -> dict[str, str]:
        return {}

    def tls(self, pod: PodAddress) -> dict[str, Any]:
        return {"ssl": self._context, "server_hostname": f"{pod.name}.words-pods.shop.svc"}


def pod_at(port: int, scheme: str = "http") -> PodAddress:
    return address_of(f"{scheme}://127.0.0.1:{port}")


async def test_a_pod_that_refuses_the_operator_says_why_until_it_lets_it_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_open = False

    async def report(_: web.Request) -> web.Response:
        if is_open:
            return web.Response(body=encode(REPORT), headers=OWN_VERSION)
        error = ForbiddenError("the account operator has no right to control")
        return web.Response(body=encode(problem_of(error)), status=403)

    port = free_ports(1)[0]
    async with aiohttp.ClientSession() as session:
        pods = HttpPods(session, clock=SetClock())
        assert await pods.report(pod_at(port)) is None
        assert pods.refusal(pod_at(port)) is None, "nobody is there yet"
        async with pod_that(report, port=port):
            for _ in range(3):
                assert await pods.report(pod_at(port)) is None
            said = "does not answer the operator: the account operator has no right to control"
            assert pods.refusal(pod_at(port)) == said
            assert [one.levelname for one in caplog.records] == ["WARNING"]
            is_open = True
            assert await pods.report(pod_at(port)) == REPORT
            assert pods.refusal(pod_at(port)) is None


async def test_a_round_goes_on_without_a_silent_pod_and_a_later_one_takes_its_answer() -> None:
    asked, clock, let_go = 0, SetClock(0.0), asyncio.Event()

    async def report(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await let_go.wait()
        return web.Response(body=encode(REPORT), headers=OWN_VERSION)

    port = free_ports(1)[0]
    pod = pod_at(port)
    async with aiohttp.ClientSession() as session, pod_that(report, port=port):
        pods = HttpPods(session, clock=clock)
        assert await pods.report(pod) is None, "it has two seconds"
        clock.now_s = 3.0
        assert await pods.report(pod) is None
        await wait_until_async(lambda: asked == 2)
        let_go.set()
        while (told := await pods.report(pod)) is None:
            pass  # A round waits for a third of a second.
        assert told == REPORT
        assert asked == 2, "the request went on"


async def test_an_answer_that_came_between_two_rounds_may_be_of_an_earlier_process() -> None:
    clock, let_go, told = SetClock(0.0), asyncio.Event(), REPORT

    async def report(_: web.Request) -> web.Response:
        await let_go.wait()
        return web.Response(body=encode(told), headers=OWN_VERSION)

    port = free_ports(1)[0]
    pod = pod_at(port)
    async with aiohttp.ClientSession() as session, pod_that(report, port=port):
        pods = HttpPods(session, clock=clock)
        assert await pods.report(pod) is None
        clock.now_s = 3.0
        assert await pods.report(pod) is None
        let_go.set()
        await wait_until_async(
            lambda: "report-words-0" not in {one.get_name() for one in asyncio.all_tasks()}
        )
        told = replace(REPORT, incarnation="2")
        assert await pods.report(pod) == told


async def test_a_certificate_without_the_pods_name_is_told(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    issued = authority.issue(tmp_path / "issued")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(issued / "tls.crt", issued / "tls.key")
    port = free_ports(1)[0]
    trusted = ssl.create_default_context(cafile=str(authority.file))

    async def report(_: web.Request) -> web.Response:
        return web.Response(body=encode(REPORT), headers=OWN_VERSION)

    async with aiohttp.ClientSession() as session, pod_that(report, port=port, tls=served):
        pods = HttpPods(session, Trusting(trusted), clock=SetClock())
        assert await pods.report(pod_at(port, "https")) is None
        told = pods.refusal(pod_at(port, "https"))
        assert told is not None
        assert "its certificate was refused" in told
        assert "words-0.words-pods.shop.svc" in told
