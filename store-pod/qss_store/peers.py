"""How this pod talks to others: JSON messages over pooled connections, typed errors, deadlines."""

import asyncio
from typing import TypeVar

import aiohttp

from qss_core.errors import StoreError, UnreachableError
from qss_core.wire import Problem, decode, encode, error_of

Answer = TypeVar("Answer")
CONNECTIONS_PER_PEER_MAX = 256
CONNECT_TIMEOUT_S = 2.0
HEADER_BYTES_MAX = 32 * 1024
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
                    body = await read_answer(response)
                    if response.status == 200:
                        return decode(body, kind)
                    raise refusal_of(response.status, body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{url} did not answer: {type(error).__name__}") from error


async def read_answer(response: aiohttp.ClientResponse) -> bytes:
    """The whole body of an answer, up to ANSWER_BYTES_MAX."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            response.close()
            raise StoreError(f"a pod answered with more than {ANSWER_BYTES_MAX} bytes")
    return bytes(body)


def refusal_of(status: int, body: bytes) -> StoreError:
    """What an answer other than 200 says."""
    try:
        return error_of(decode(body, Problem))
    except StoreError:
        return StoreError(f"a pod answered {status} with something that is no problem document")


def new_session() -> aiohttp.ClientSession:
    """A session with our limits; its maker closes it."""
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS_PER_PEER_MAX)
    return aiohttp.ClientSession(
        connector=connector,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
    )
