"""HTTP for programs with an event loop: pooled connections, typed errors, limited answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import random  # noqa: TID251 jitter needs nothing better.

import aiohttp
from yarl import URL

from qss_client.http.answer import ANSWER_BYTES_MAX, HttpAnswer, check_status, too_large
from qss_client.http.bounded import read_bounded
from qss_client.http.credentials import Credentials, Token, certificate_refused, trusted_by
from qss_client.http.retries import RetryAt, RetryLimits, after_failure, still_trying
from qss_client.http.unreachable import unreachable
from qss_client.http.wait_warnings import WaitWarnings, WarnedWait
from qss_core.errors import StoreError, UnauthenticatedError

_LOG = logging.getLogger(__name__)
CONNECTIONS_MAX = 64
CONNECT_TIMEOUT_S = 2.0  # At the address of a pod that is gone nobody refuses a connection.
NAMES_KEPT_S = (
    1  # A pod that was made again has another IP, and aiohttp keeps the old one for 10 s.
)
LOOK_EVERY_S = 0.5
_HEADER_BYTES_MAX = 65536
_CONNECT_SHARE = 0.9


class AsyncHttp:
    """A connection pool of one event loop."""

    def __init__(
        self,
        token: Token | None = None,
        *,
        token_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        server_hostname: str | None = None,
    ) -> None:
        """As `SyncHttp`. Make it inside a running event loop."""
        self.turn = nullcontext()  # Tasks of one event loop need no lock.
        self._server_hostname = server_hostname
        self._credentials = Credentials(token, token_file)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX,
                ssl=trusted_by(ca_file) or True,
                ttl_dns_cache=NAMES_KEPT_S,
            ),
            auto_decompress=False,
            # A position of many topics makes a long header.
            max_line_size=_HEADER_BYTES_MAX,
            max_field_size=_HEADER_BYTES_MAX,
        )

    async def close(self) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 30.0,
        telling: WaitWarnings | None = None,
    ) -> HttpAnswer:
        """Sends one request and returns its answer; raises and warns as `SyncHttp.request`."""
        shown = self._credentials.headers()
        with _watched(url, timeout_s, telling):
            try:
                return await self._sent(method, url, body, {**shown, **(headers or {})}, timeout_s)
            except UnauthenticatedError:
                newer = self._credentials.headers_after(shown)
                if newer is None:
                    raise
            return await self._sent(method, url, body, {**newer, **(headers or {})}, timeout_s)

    async def watched(
        self,
        url: str,
        asked: Callable[[], Coroutine[None, None, HttpAnswer]],
        works: Callable[[], Awaitable[bool]],
    ) -> HttpAnswer:
        """The answer of `asked`, while `works` says that the pod at `url` answers anything.

        Raises UnreachableError where it does not; `asked` then ends by itself.
        """
        request = asyncio.create_task(asked())
        try:
            while not (await asyncio.wait([request], timeout=LOOK_EVERY_S))[0]:
                if not await works() and not request.done():
                    silence = TimeoutError()
                    raise unreachable(url, silence, LOOK_EVERY_S) from silence
            return request.result()
        finally:
            request.cancel()

    async def _sent(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str], timeout_s: float
    ) -> HttpAnswer:
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                async with self._session.request(
                    method,
                    _as_given(url),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    server_hostname=self._server_hostname,
                    timeout=_connecting_within(timeout_s),
                ) as response:
                    parts = response.content.iter_any()
                    data = await read_bounded(parts, ANSWER_BYTES_MAX, too_large)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            refused = certificate_refused(url, error)
            if refused is not None:
                raise refused from error
            is_connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            took_s = asyncio.get_running_loop().time() - began_s
            is_early = is_connecting and took_s < _CONNECT_SHARE * timeout_s
            waited_s = CONNECT_TIMEOUT_S if is_early else timeout_s
            listens = isinstance(error, TimeoutError) and not is_connecting
            raise unreachable(url, error, waited_s, is_connected=listens) from error
        names = {name.lower(): value for name, value in response.headers.items()}
        check_status(response.status, names, data, url)
        return HttpAnswer(response.status, names, data)


@contextmanager
def _watched(url: str, timeout_s: float, telling: WaitWarnings | None) -> Iterator[None]:
    """Warns if the block takes long; `telling` has the wait of the whole operation."""
    loop = asyncio.get_running_loop()
    awaited = WarnedWait(telling or WaitWarnings.begun(loop.time()), url, loop.time() + timeout_s)

    timers: list[asyncio.TimerHandle] = []

    def tell() -> None:
        if awaited.telling.take_if_due(loop.time()):
            _LOG.warning("%s", awaited.words(loop.time()))
        timers[:] = [loop.call_at(awaited.telling.due_s, tell)]

    timers.append(loop.call_at(awaited.telling.due_s, tell))
    try:
        yield
    finally:
        timers[0].cancel()


def _connecting_within(timeout_s: float) -> aiohttp.ClientTimeout:
    """Ends the making of a connection before `timeout_s`, so that its error tells that.

    `connect` has the look-up of the host's name, too, which may take longer than a connection.
    """
    all_s = _CONNECT_SHARE * timeout_s
    socket_s = min(CONNECT_TIMEOUT_S, all_s)
    # Above `ceil_threshold` aiohttp would end it at a whole second, which may be too late.
    return aiohttp.ClientTimeout(
        total=None, connect=all_s, sock_connect=socket_s, ceil_threshold=timeout_s
    )


def _as_given(url: str) -> URL:
    """The URL with its escapes unchanged: `%2F` in a key is not a slash."""
    return URL(url, encoded=True)


class AsyncRetrier:
    """Counts the attempts of one request, and waits between them."""

    def __init__(self, limits: RetryLimits) -> None:
        self._limits = limits
        self._started = asyncio.get_running_loop().time()
        self._attempt = 0
        self.telling = WaitWarnings.begun(self._started, limits.tell_after_s)

    @property
    def now_s(self) -> float:
        """The time by the clock of the attempts."""
        return asyncio.get_running_loop().time()

    @property
    def elapsed_s(self) -> float:
        return asyncio.get_running_loop().time() - self._started

    async def after(self, error: StoreError, limits: RetryLimits | None = None) -> RetryAt:
        elapsed_s = self.elapsed_s
        again = after_failure(error, self._attempt, elapsed_s, random(), limits or self._limits)
        if again is None:
            raise error
        self._attempt += 1
        if self.telling.take_if_due(self._started + elapsed_s + again.wait_s):
            _LOG.warning("%s", still_trying(error, elapsed_s, limits or self._limits))
        await asyncio.sleep(again.wait_s)
        return again
