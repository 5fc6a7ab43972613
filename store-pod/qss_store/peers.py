"""How this pod talks to others: JSON messages over pooled connections, typed errors, deadlines."""

import asyncio
from typing import TypeVar

import aiohttp

from qss_core.errors import StoreError, UnreachableError
from qss_core.wire import Problem, decode, encode, error_of

Answer = TypeVar("Answer")
CONNECTIONS_PER_PEER_MAX = 64
ANSWER_BYTES_MAX = 64 * 1024 * 1024


class Peers:
    """A client of other pods' internal ports."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        """Uses a session that its maker closes."""
        self._session = session

    async def post(self, url: str, message: object, kind: type[Answer], timeout_s: float) -> Answer:
        """Sends a message and reads the answer.

        Raises what the peer's problem document says, UnreachableError where there is no answer.
        """
        try:
            async with asyncio.timeout(timeout_s):
                async with self._session.post(
                    url, data=encode(message), headers={"Content-Type": "application/json"}
                ) as response:
                    body = await response.content.read(ANSWER_BYTES_MAX)
                    if response.status == 200:
                        return decode(body, kind)
                    raise _error(response.status, body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{url} did not answer: {type(error).__name__}") from error


def _error(status: int, body: bytes) -> StoreError:
    try:
        return error_of(decode(body, Problem))
    except StoreError:
        return StoreError(f"a pod answered {status} with something that is no problem document")


def new_session() -> aiohttp.ClientSession:
    """A session with our limits; its maker closes it."""
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS_PER_PEER_MAX)
    return aiohttp.ClientSession(
        connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
    )
