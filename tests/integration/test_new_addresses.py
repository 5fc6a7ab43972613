"""A pod that was made again is found at its new IP, and its old one is given up soon."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from qss_client.http.async_http import AsyncHttp
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import UnreachableError
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_testing.fakes.strange_pods import pod_that

_OLD, _NEW = "127.0.0.1", "127.0.0.2"
_NAME = "words-0.words-pods.shop.svc"
_SOON_S = 5.0  # aiohttp's own cache of names would keep the old address for 10 s.

Ask = Callable[[str], Awaitable[bytes]]


@asynccontextmanager
async def pod(host: str, port: int = 0) -> AsyncIterator[int]:
    """Answers each request with its host."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=host.encode(), headers={"Connection": "close"})

    async with pod_that(answer, host, port) as url:
        yield int(url.rpartition(":")[2])


@asynccontextmanager
async def asking_as_a_peer() -> AsyncIterator[Ask]:
    async with PeerSession() as session:
        peers = Peers(session)
        yield lambda url: peers.send(url, b"", 5.0)


@asynccontextmanager
async def asking_as_a_client() -> AsyncIterator[Ask]:
    http = AsyncHttp()

    async def ask(url: str) -> bytes:
        return (await http.request("GET", url, timeout_s=5.0)).body

    try:
        yield ask
    finally:
        await http.close()


@asynccontextmanager
async def asking_without_a_loop(connect_timeout_s: float | None = None) -> AsyncIterator[Ask]:
    http = SyncHttp()
    limits: dict[str, Any] = {"timeout_s": 5.0, "connect_timeout_s": connect_timeout_s}

    async def ask(url: str) -> bytes:
        return (await asyncio.to_thread(http.request, "GET", url, **limits)).body

    try:
        yield ask
    finally:
        http.close()


@pytest.mark.parametrize("asking", [asking_as_a_peer, asking_as_a_client])
async def test_a_pod_is_found_at_its_new_address_soon(
    asking: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [_OLD]

    async def resolved(host: str, port: int, **_: Any) -> list[Any]:
        assert host == _NAME
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[-1], port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    async with AsyncExitStack() as stack:
        ask: Ask = await stack.enter_async_context(asking())
        async with pod(_OLD) as port:
            url = f"http://{_NAME}:{port}/"
            assert await ask(url) == _OLD.encode()
        addresses.append(_NEW)
        await stack.enter_async_context(pod(_NEW, port))
        async with asyncio.timeout(_SOON_S):
            while (answer := await answered(ask(url))) is None:
                pass
        assert answer == _NEW.encode()


@pytest.mark.parametrize(
    ("asking", "limit"),
    [
        (asking_as_a_peer, "1 s"),
        (asking_as_a_client, "2 s"),
        (asking_without_a_loop, "2 s"),
        (partial(asking_without_a_loop, 0.5), "0.5 s"),
    ],
)
async def test_an_address_that_accepts_no_connection_is_given_up_soon(
    asking: Callable[[], Any], limit: str
) -> None:
    """As the address of a pod that is gone: no packet comes back."""
    with socket.create_server((_OLD, 0), backlog=0) as listening:
        address = listening.getsockname()
        with socket.create_connection(address):  # The queue is full.
            async with asking() as ask:
                with pytest.raises(UnreachableError, match=f"no answer within {limit}"):
                    await ask(f"http://{_OLD}:{address[1]}/")


async def answered(asked: Awaitable[bytes]) -> bytes | None:
    """The answer; None where nobody listens."""
    try:
        return await asked
    except UnreachableError:
        return None
