"""A large answer of another pod, which a thread reads: errors, lost connections, cancellation."""

import asyncio
import threading
from collections.abc import AsyncIterator
from io import BufferedIOBase

import pytest
from aiohttp import web

from qss_core.errors import StoreError, UnreachableError, WrongStoreError
from qss_core.wire.messages import encode, problem_of
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_testing.fakes.strange_pods import Serve
from qss_testing.waiting import wait_until_async

_BYTES = 3 * 1024 * 1024


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    async with PeerSession() as session:
        yield Peers(session, lambda: {"Authorization": "Bearer of-a-pod"})


async def test_the_answer_is_read_in_a_thread_and_the_request_has_credentials(
    serve: Serve, peers: Peers
) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer of-a-pod"
        return web.Response(body=await request.read() * _BYTES)

    found: list[bytes] = []
    threads: set[threading.Thread] = set()

    def take(source: BufferedIOBase) -> None:
        threads.add(threading.current_thread())
        found.append(source.read())

    await peers.download(await serve(answer), b"x", take, 5.0)
    assert found == [b"x" * _BYTES]
    assert threading.current_thread() not in threads


async def test_a_refusal_is_the_error_of_its_problem_document(serve: Serve, peers: Peers) -> None:
    async def refuse(_: web.Request) -> web.Response:
        refusal = problem_of(WrongStoreError("another store"))
        return web.Response(status=refusal.status, body=encode(refusal))

    with pytest.raises(WrongStoreError, match="another store"):
        await peers.download(await serve(refuse), b"", _never, 5.0)


async def test_a_pod_that_nobody_runs_is_unreachable(serve: Serve, peers: Peers) -> None:
    with pytest.raises(UnreachableError, match="connection refused"):
        await peers.download("http://127.0.0.1:1/part", b"", _never, 5.0)


async def test_a_pod_that_sends_no_more_is_given_up(serve: Serve, peers: Peers) -> None:
    def take(source: BufferedIOBase) -> None:
        assert source.read(10) == bytes(10)
        source.read(1)

    with pytest.raises(UnreachableError, match=r"no answer within 0.2 s"):
        await peers.download(await serve(_stalls), b"", take, 0.2)


async def test_an_error_of_who_takes_the_bytes_is_the_answer(serve: Serve, peers: Peers) -> None:
    def take(_: BufferedIOBase) -> None:
        raise StoreError("the volume is read-only")

    with pytest.raises(StoreError, match="read-only"):
        await peers.download(await serve(_stalls), b"", take, 5.0)


async def test_a_cancelled_download_ends_its_thread_at_once(serve: Serve, peers: Peers) -> None:
    begun, ended = threading.Event(), threading.Event()

    def take(source: BufferedIOBase) -> None:
        source.read(10)
        begun.set()
        try:
            source.read(1)
        finally:
            ended.set()

    work = asyncio.create_task(peers.download(await serve(_stalls), b"", take, 60.0))
    await wait_until_async(begun.is_set)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await wait_until_async(ended.is_set)


async def _stalls(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = _BYTES
    await response.prepare(request)
    await response.write(bytes(10))
    await asyncio.Event().wait()
    return response


def _never(_: BufferedIOBase) -> None:
    raise AssertionError("nothing is to be read")
