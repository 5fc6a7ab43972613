"""Writes answers that are larger than a connection's buffer, in slices.

aiohttp would keep a whole large answer in the connection's buffers, uncounted, for as long as the
client reads. So a large answer is written while its request still runs: its bytes stay in the
request's share of memory, and the client has to take all of it within a time limit.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from qss_store.http.middleware import MEMORY
from qss_store.runtime.request_memory import RequestMemory

_LOG = logging.getLogger(__name__)
LARGE_BYTES = 64 * 1024  # The buffer that each connection's place accounts for.
_SLICE_BYTES = 64 * 1024
_AT_ONCE = 4
_BYTES_PER_S_MIN = 256 * 1024


def memory_middlewares(memory: RequestMemory, write_stall_max_s: float) -> list[Middleware]:
    """Gives each request a share of memory, and closes the share when the answer is sent."""

    @web.middleware
    async def bound(request: web.Request, handler: Handler) -> web.StreamResponse:
        share = request[MEMORY] = memory.share()
        try:
            response = await handler(request)
            # `isinstance` is slow for aiohttp's classes.
            body = response.body if type(response) is web.Response else None
            if type(body) is not bytes or len(body) <= LARGE_BYTES:
                return response
            share.take_up_to(len(body))
            headers, status = response.headers, response.status
            del response  # The response refers to the body, too.
            return await send_large(request, (body,), headers, write_stall_max_s, status)
        finally:
            share.close()

    return [bound]


async def send_large(
    request: web.Request,
    parts: Sequence[bytes],
    headers: Mapping[str, str],
    write_stall_max_s: float,
    status: int = 200,
) -> web.StreamResponse:
    """Writes a whole answer in slices, within a time limit."""
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = size = sum(map(len, parts))
    if request.method == hdrs.METH_HEAD:
        return response
    await response.prepare(request)
    # The limit is for the whole answer: a slow client keeps all of it in memory.
    most_s = write_stall_max_s + size / _BYTES_PER_S_MIN
    with patience(request):
        async with asyncio.timeout(most_s):
            for some in _not_too_small(parts):
                await write_in_slices(request, response, some, write_stall_max_s)
            async with asyncio.timeout(write_stall_max_s):
                await response.write_eof()
    return response


def _not_too_small(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The same bytes, with small parts joined to slices."""
    small: list[bytes] = []
    size = 0
    for part in parts:
        if len(part) < _SLICE_BYTES:
            small.append(part)
            size += len(part)
        if size and (size >= _SLICE_BYTES or len(part) >= _SLICE_BYTES):
            yield b"".join(small)
            small, size = [], 0
        if len(part) >= _SLICE_BYTES:
            yield part  # Not joined: copying a large part takes long.
    if size:
        yield b"".join(small)


async def write_in_slices(
    request: web.Request,
    response: web.StreamResponse,
    data: bytes | memoryview,
    write_stall_max_s: float,
) -> None:
    """Writes bytes; raises TimeoutError if the client does not take 64 KiB within the limit.

    A client that has taken all earlier bytes gets four slices per write, since each write has a
    fixed cost.
    """
    loop, view, start = asyncio.get_running_loop(), memoryview(data), 0
    async with asyncio.timeout(write_stall_max_s) as deadline:
        while start < len(view):
            transport = request.transport
            is_level = transport is not None and not transport.get_write_buffer_size()
            slices = _AT_ONCE if is_level else 1
            deadline.reschedule(loop.time() + slices * write_stall_max_s)
            await response.write(view[start : start + slices * _SLICE_BYTES])
            start += slices * _SLICE_BYTES


@contextmanager
def patience(request: web.Request) -> Iterator[None]:
    """Drops a reader that takes its answer too slowly, with the bytes still to be sent."""
    try:
        yield
    except TimeoutError as error:
        _LOG.info("a reader took its answer too slowly")
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionError("the reader took its answer too slowly") from error
