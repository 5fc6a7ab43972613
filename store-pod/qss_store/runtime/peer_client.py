"""Sends JSON messages to other pods: pooled connections, typed errors, deadlines."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from io import BufferedIOBase
from typing import Any, Protocol, Self, TypeVar

import aiohttp
from yarl import URL

from qss_client.http.async_http import NAMES_KEPT_S
from qss_client.http.bounded import read_bounded
from qss_client.http.unreachable import unreachable
from qss_core.errors import StoreError
from qss_core.wire.messages import Problem, decode, encode, error_of
from qss_core.wire.versions import OWN_VERSION
from qss_store.runtime.blocking import run_blocking_in
from qss_store.runtime.peer_download import THREADS, Download
from qss_store.runtime.request_memory import MemoryShare

Answer = TypeVar("Answer")
CONNECTIONS_PER_PEER_MAX = 256
CONNECT_TIMEOUT_S = 1.0  # At the address of a pod that is gone nobody refuses a connection.
SILENT_LINK_S = 3  # A link that confirms nothing for so long is cut: a new connection is tried.
_TCP_OPTIONS = {
    "TCP_KEEPIDLE": 1,  # Seconds; these three are for a link that was idle or owes an answer.
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": SILENT_LINK_S,
    "TCP_USER_TIMEOUT": SILENT_LINK_S * 1000,  # For bytes that nobody confirms (RFC 5482).
}
HEADER_BYTES_MAX = 32 * 1024
ANSWER_BYTES_MAX = 64 * 1024 * 1024
REPLICATION_MEDIA = "application/vnd.queryablestate.replication"


class PeerSession:
    """Connections to other pods. Made inside a running loop."""

    def __init__(self, trust: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`trust` is called before each request; its SSL context verifies peers over https."""
        self._trust = trust
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                limit_per_host=CONNECTIONS_PER_PEER_MAX,
                ttl_dns_cache=NAMES_KEPT_S,
                socket_factory=_socket,
            ),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
        )

    async def __aenter__(self) -> Self:
        """Closes the connections at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    def request(
        self,
        method: str,
        url: str | URL,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str],
        **options: Any,
    ) -> "aiohttp.client._RequestContextManager":
        """Returns aiohttp's request context for `async with`; redirects are not followed."""
        return self._session.request(
            method,
            url,
            data=data,
            headers=headers,
            allow_redirects=False,
            ssl=self.trust or True,
            **options,
        )

    @property
    def trust(self) -> ssl.SSLContext | None:
        """The context that verifies peers over https now."""
        return None if self._trust is None else self._trust()


class Transport(Protocol):
    """Carries messages to other pods: over HTTP, or through the network of a simulation."""

    async def post(self, url: str, message: object, kind: type[Answer], timeout_s: float) -> Answer:
        """Sends a message to an internal port and returns the answer, within `timeout_s`.

        Raises the error of the peer's problem document, or UnreachableError without an answer.
        """

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        """As `post`, for a message and an answer that are bytes."""

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        """As `send`, for an answer that `take` reads in a thread; `timeout_s` is for each wait.

        Also raises the StoreErrors of `take`. After a cancellation the thread ends soon.
        """


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that fails where the link is silent, and waits where the pod is slow to answer.

    A pod that takes no bytes of a request for so long gets the request again. Without these limits
    the kernel sends lost bytes again after 0.2, 0.4, ... 6.4 s (RFC 6298), so a request waits
    nearly as long again as its link was cut.
    """
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS.items():
        if hasattr(socket, name):  # Another system than Linux has other names.
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


class Peers:
    """A client of other pods' internal ports."""

    def __init__(
        self, session: PeerSession, credentials: Callable[[], Mapping[str, str]] | None = None
    ) -> None:
        """`credentials` makes headers for each request. The caller closes the `session`."""
        self._session = session
        self._credentials = credentials

    async def post(self, url: str, message: object, kind: type[Answer], timeout_s: float) -> Answer:
        """Sends a message and decodes the answer; raises as `Transport.post`."""
        return decode(await self._post(url, encode(message), "application/json", timeout_s), kind)

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        """Sends bytes and returns the answer's; raises as `Transport.send`."""
        return await self._post(url, body, REPLICATION_MEDIA, timeout_s)

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        """Sends bytes, and has a thread read the answer; raises as `Transport.download`."""
        download = Download(url, self._session.trust, timeout_s)
        work = partial(download.run, body, self._headers(REPLICATION_MEDIA), take, refusal_of)
        running = asyncio.ensure_future(run_blocking_in(THREADS, work))
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            download.stop()
            raise

    def _headers(self, media: str) -> dict[str, str]:
        shown = self._credentials() if self._credentials else {}
        return {"Content-Type": media, **OWN_VERSION, **shown}

    async def _post(self, url: str, data: bytes, media: str, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                async with self._session.request(
                    "POST", url, data=data, headers=self._headers(media)
                ) as response:
                    body = await read_answer(response)
                    if response.status == 200:
                        return body
                    raise refusal_of(response.status, body)
        except aiohttp.ConnectionTimeoutError as error:
            raise unreachable(url, error, min(CONNECT_TIMEOUT_S, timeout_s)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unreachable(url, error, timeout_s) from error


async def read_answer(response: aiohttp.ClientResponse, memory: MemoryShare | None = None) -> bytes:
    """The whole body of an answer, up to ANSWER_BYTES_MAX bytes, counted in `memory`.

    Raises NoMemoryError where requests and answers of the pod have reached its limit.
    """

    def too_large() -> StoreError:
        response.close()
        return StoreError(f"a pod answered with more than {ANSWER_BYTES_MAX} bytes")

    took = None if memory is None else memory.take
    return await read_bounded(response.content.iter_any(), ANSWER_BYTES_MAX, too_large, took)


def refusal_of(status: int, body: bytes) -> StoreError:
    """The error of an answer with another status than 200."""
    try:
        return error_of(decode(body, Problem))
    except StoreError:
        return StoreError(f"a pod answered {status} with something that is no problem document")
