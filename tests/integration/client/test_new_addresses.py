"""A pod that was made again is found at its new IP, and its old one is given up soon."""

import asyncio
import re
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from qss_client.http.async_http import AsyncHttp
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import UnreachableError
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_testing.fakes.strange_pods import pod_that
from qss_testing.pods.certificates import Authority

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


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["http", "https"])
async def test_a_pod_that_stands_still_has_longer_for_a_request_than_for_its_connection(
    tmp_path: Path, *, is_encrypted: bool
) -> None:
    """Its kernel takes the connection; its process answers TLS, and reads the body."""
    authority = Authority.make(tmp_path / "authority")
    issued = authority.issue(tmp_path / "tls")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(issued / "tls.crt", issued / "tls.key")
    received = 0

    async def take(request: web.Request) -> web.Response:
        nonlocal received
        async for part in request.content.iter_any():
            received += len(part)
        return web.Response()

    async with pod_that(take, tls=tls if is_encrypted else None) as url:
        http, body = SyncHttp(ca_file=authority.file), bytes(32 * 1024 * 1024)
        put = partial(http.request, "PUT", url, timeout_s=30.0, connect_timeout_s=0.1)
        asked = asyncio.create_task(asyncio.to_thread(put, body=body))
        await asyncio.sleep(0)  # The thread begins.
        threading.Event().wait(0.2)  # The pod's event loop stands still.
        assert (await asked).status == 200
        assert received == len(body), "it was sent once"
        http.close()


async def test_a_body_that_no_pod_takes_in_time_is_sent_once() -> None:
    took: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: took.append(writer), _OLD, 0)
    http = SyncHttp()
    url = f"http://{_OLD}:{server.sockets[0].getsockname()[1]}/"
    put = partial(http.request, "PUT", url, body=bytes(32 * 1024 * 1024), timeout_s=0.3)
    with pytest.raises(UnreachableError, match=re.escape("no answer within 0.3 s")):
        await asyncio.to_thread(put)
    assert len(took) == 1
    http.close()
    for writer in took:
        writer.close()
    server.close()
    await server.wait_closed()


async def answered(asked: Awaitable[bytes]) -> bytes | None:
    """The answer; None where nobody listens."""
    try:
        return await asked
    except UnreachableError:
        return None
