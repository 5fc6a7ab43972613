"""Sends reviews to the API server, with the pod's own token, a deadline and one retry."""

import asyncio
import ssl
from pathlib import Path
from typing import Self

import aiohttp

from qss_client.http.bounded import read_bounded
from qss_client.http.credentials import TokenFile
from qss_client.http.unreachable import why_unreachable
from qss_core.errors import StoreError
from qss_store.access.reviews import TOKEN_REVIEWS, NoReviewError, encode_token_review

_TRIES = 2
_PAUSE_S = 0.1
# The share of a try that connecting may take: it tells unreachable servers from slow servers.
_CONNECT_SHARE = 0.8
_ANSWER_BYTES_MAX = 256 * 1024
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class ApiServer:
    """Posts reviews to the API server (port Reviewer)."""

    def __init__(self, url: str, credentials: Path, timeout_s: float) -> None:
        """`credentials` is a directory with `token` and `ca.crt`; `timeout_s` is for all tries."""
        self._url = url.rstrip("/")
        self._token = TokenFile(credentials / "token")
        self._authority = credentials / "ca.crt"
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._trust: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None, "entered before"
        await self._session.close()

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of a successful answer. Raises NoReviewError."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        for left in range(_TRIES, 0, -1):
            try:
                # A try that hangs leaves time for the next one.
                async with asyncio.timeout_at(deadline - (left - 1) * self._timeout_s / _TRIES):
                    return await self._try(path, body)
            except _MayPassError as error:
                why, is_unreached = str(error), False
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                is_unreached = isinstance(
                    error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
                )
                words = why_unreachable(error, self._timeout_s / _TRIES)
                why = f"{self._url} did not answer: {words}"
                self._trust = None  # The authority's file may have been replaced.
            if left > 1:
                await asyncio.sleep(_PAUSE_S)
        raise NoReviewError(why, is_unreached=is_unreached)

    async def probe(self) -> None:
        """Has the pod's own token reviewed. Raises NoReviewError."""
        try:
            own = self._token()
        except StoreError as error:
            raise NoReviewError(error.message) from error
        await self.post(TOKEN_REVIEWS, encode_token_review(own, ()))

    async def _try(self, path: str, body: bytes) -> bytes:
        assert self._session is not None, "entered before"
        try:
            token = self._token()
        except StoreError as error:
            raise NoReviewError(error.message) from error
        async with self._session.post(
            self._url + path,
            data=body,
            headers={**_HEADERS, "Authorization": f"Bearer {token}"},
            ssl=self._trusted(),
            timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SHARE * self._timeout_s / _TRIES),
            allow_redirects=False,
        ) as answer:
            if answer.status in (200, 201):
                return await read_bounded(answer.content.iter_any(), _ANSWER_BYTES_MAX, _too_large)
            if answer.status == 403:
                raise NoReviewError(
                    f"this pod's service account may not create {path.rpartition('/')[2]}: "
                    "see reviews.create of the chart, or bind the ClusterRole system:auth-delegator"
                )
            raise _MayPassError(f"the API server answered {answer.status} to {path}")

    def _trusted(self) -> ssl.SSLContext | bool:
        if not self._url.startswith("https:"):
            return True
        if self._trust is None:
            self._trust = ssl.create_default_context(cafile=str(self._authority))
        return self._trust


class _MayPassError(Exception):
    """A failure after which a second try may succeed."""


def _too_large() -> NoReviewError:
    return NoReviewError("the API server's answer to a review is too large")
