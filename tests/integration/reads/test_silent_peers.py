"""Pods that are silent for the reads of another pod, and the time that reads wait for them."""

import asyncio
import errno
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from qss_client.clock import SystemClock
from qss_client.http.answer import HttpAnswer
from qss_client.http.async_http import AsyncHttp
from qss_client.http.sync_http import SyncHttp
from qss_client.http.unreachable import why_unreachable
from qss_core.errors import DeadlineExceededError, UnreachableError
from qss_core.model import PodAddress
from qss_store.reads.routing.peer_reads import PeerReads, PeerRequest
from qss_store.runtime.peer_client import SILENT_LINK_S, PeerSession
from qss_testing.fakes.strange_pods import Serve, address_of

READ = PeerRequest(method="GET", path="/x")


async def test_a_pod_that_gave_no_answer_is_silent(serve: Serve) -> None:
    pod = address_of(await serve(never), 1)
    async with PeerSession() as session:
        peers = PeerReads(session, 4, SystemClock())
        with pytest.raises(DeadlineExceededError):
            await peers.ask(pod, READ, 1.0, None)
        assert peers.silent_of([pod]) == {1}


async def test_the_system_ends_a_connection_to_a_pod_whose_link_is_cut(serve: Serve) -> None:
    """The system's own limit is minutes. In namespaces, `make test-faults` cuts links."""

    async def begins(request: web.Request) -> web.StreamResponse:
        await web.StreamResponse().prepare(request)
        return await never(request)

    url = await serve(begins)
    async with PeerSession() as session, session.request("GET", url, headers={}) as response:
        assert response.connection is not None
        assert response.connection.transport is not None
        connected = response.connection.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        limit_ms = connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert limit_ms == SILENT_LINK_S * 1000


def test_a_connection_that_the_system_ended_is_not_said_to_have_waited_for_the_whole_time() -> None:
    ended = OSError(errno.ETIMEDOUT, "Connection timed out")
    assert why_unreachable(ended, 10.0) == "connection timed out"
    assert why_unreachable(TimeoutError(), 10.0) == "no answer within 10 s"


async def test_a_pod_that_was_not_asked_is_not_silent(serve: Serve) -> None:
    """As many requests as there may be are under way; the next one waits for its turn."""
    is_asked, let_go = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        is_asked.set()
        await let_go.wait()
        return web.Response(text="ok")

    pod = address_of(await serve(slow), 1)
    async with PeerSession() as session:
        peers = PeerReads(session, 1, SystemClock())
        first = asyncio.create_task(peers.ask(pod, READ, 30.0, None))
        await is_asked.wait()
        with pytest.raises(DeadlineExceededError):
            await peers.ask(pod, READ, 0.3, None)
        assert peers.silent_of([pod]) == set()
        let_go.set()
        assert (await first).status == 200


async def test_a_stream_that_stops_makes_its_pod_silent(serve: Serve) -> None:
    async def stops(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x\n")
        return await never(request)

    pod = address_of(await serve(stops), 1)
    async with PeerSession() as session:
        peers = PeerReads(session, 4, SystemClock())
        async with AsyncExitStack() as opened:
            lines = await opened.enter_async_context(peers.stream(pod, READ, 2.0))
            assert await lines.more() == [b"x"]
            with pytest.raises(DeadlineExceededError):
                await lines.more()
        assert peers.silent_of([pod]) == {1}


async def test_a_long_read_runs_once_while_its_pod_works_and_is_left_where_it_does_not(
    serve: Serve,
) -> None:
    let_go = asyncio.Event()
    runs = 0

    async def slow(_: web.Request) -> web.Response:
        nonlocal runs
        runs += 1
        await let_go.wait()
        return web.Response(text="rows")

    pod = address_of(await serve(slow), 1)
    http = AsyncHttp()
    looks: list[bool] = []

    async def works() -> bool:
        """Works for one look and answers; the second time it stands still."""
        looks.append(len(looks) < 2)
        if len(looks) == 1:
            let_go.set()
        return looks[-1]

    def read() -> Coroutine[None, None, HttpAnswer]:
        return http.request("GET", f"{pod.query}/x", timeout_s=30.0)

    try:
        assert (await http.watched(pod.query, read, works)).body == b"rows"
        assert (runs, looks) == (1, [True])
        let_go.clear()
        with pytest.raises(UnreachableError, match="no answer within"):
            await http.watched(pod.query, read, works)
        assert (runs, looks) == (2, [True, True, False])
    finally:
        let_go.set()
        await http.close()


async def test_a_client_without_an_event_loop_does_the_same(serve: Serve) -> None:
    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="rows")

    answering, mute = address_of(await serve(quick), 1), address_of(await serve(never), 1)
    http = SyncHttp()

    def read(pod: PodAddress, *, works: bool) -> HttpAnswer:
        return http.watched(
            pod.query, lambda: http.request("GET", f"{pod.query}/x", timeout_s=3.0), lambda: works
        )

    answer = await asyncio.to_thread(read, answering, works=True)
    assert answer.body == b"rows"
    with pytest.raises(UnreachableError, match="no answer within 0"):
        await asyncio.to_thread(read, mute, works=False)
    with pytest.raises(UnreachableError, match="no answer within 3 s"):
        await asyncio.to_thread(read, mute, works=True)
    http.close()


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")
