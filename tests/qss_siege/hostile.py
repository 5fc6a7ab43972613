"""The kinds of hostile callers, one function each: a call is one attempt and returns its result."""

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import cast

from qss_siege.target import (
    LARGE_KEYS,
    Target,
    connect,
    large_key,
    read_answer,
    read_status,
)

_PATIENCE_S = 60.0
_LITTLE = 4096  # A small receive buffer, so that a caller that does not read takes nothing.


@dataclass(frozen=True, slots=True)
class Caller:
    """One hostile caller of a kind."""

    target: Target
    tls: ssl.SSLContext
    address: str
    number: int


Attempt = Callable[[Caller], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The number of callers of a kind, and each caller's pause between two attempts."""

    attempt: Attempt
    callers: int
    pause_s: float
    addresses: int = 1


async def never_begin_tls(caller: Caller) -> str:
    """Opens a connection and sends nothing until the pod closes it."""
    ports = caller.target.query_port, caller.target.internal_port
    reader, writer = await connect(ports[caller.number % 2], caller.address, None)
    try:
        await reader.read()
    finally:
        writer.close()
    return "dropped"


async def idle_on_ops(caller: Caller) -> str:
    """Opens a connection to the ops port and sends nothing until the pod closes it."""
    reader, writer = await connect(caller.target.ops_port, caller.address, None)
    try:
        await reader.read()
    finally:
        writer.close()
    return "dropped"


_LARGE_HEAD = b"".join(b"X-%03d: %b\r\n" % (number, b"a" * 32_000) for number in range(120))


async def large_heads(caller: Caller) -> str:
    """Sends 3.8 MB of a head that does not end."""
    reader, writer = await connect(caller.target.query_port, caller.address, caller.tls)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + _LARGE_HEAD)
        return str(await read_status(reader))
    finally:
        writer.transport.abort()


async def slow_heads(caller: Caller) -> str:
    """Sends one byte of a head each second."""
    reader, writer = await connect(caller.target.query_port, caller.address, caller.tls)
    ends = asyncio.create_task(reader.read())
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        while not (await asyncio.wait([ends], timeout=1.0))[0]:
            writer.write(b"a")
        return "dropped"
    finally:
        ends.cancel()
        writer.transport.abort()


def _slowness(caller: Caller) -> Callable[[], Awaitable[None]] | None:
    """Every other caller reads 64 KiB each tenth of a second."""
    return (lambda: asyncio.sleep(0.1)) if caller.number % 2 else None


async def batch_gets(caller: Caller) -> str:
    """Asks for a thousand keys with large values; each key comes many times."""
    keys = [large_key(number % LARGE_KEYS) for number in range(1000)]
    body = json.dumps({"keys": keys}).encode()
    request = caller.target.request("POST", f"/state/get/{caller.target.store}", body=body)
    return await _ask(caller, caller.target.query_port, request)


async def scans(caller: Caller) -> str:
    """Asks for the whole store as one document."""
    path = f"/state/stores/{caller.target.store}?limit=100000"
    request = caller.target.request("GET", path, close=True)
    return await _ask(caller, caller.target.query_port, request)


_COMPONENTS = [b'"t%d":{"0":1}' % number for number in range(930_000)]
_POSITIONS = [b",".join(_COMPONENTS[:some]) for some in (930_000, 170_000, 55_000)]


async def commits(caller: Caller) -> str:
    """Commits with a position of 16 MB, or one just below a limit."""
    target = caller.target
    path = f"/changelog/stores/{target.store}/writers/evil/1/batches/0/commit"
    path += f"?storeId={target.store_id}"
    position = _POSITIONS[caller.number % len(_POSITIONS)]
    body = b'{"generation":1,"chunks":{},"fingerprint":"x","position":{%b}}' % position
    request = target.request("POST", path, token=target.writer_token, body=body)
    return await _ask(caller, target.internal_port, request)


async def _ask(caller: Caller, port: int, request: bytes) -> str:
    reader, writer = await connect(port, caller.address, caller.tls)
    try:
        writer.write(request)
        status, _ = await read_answer(reader, _slowness(caller))
        return str(status)
    finally:
        writer.transport.abort()


async def never_read(caller: Caller) -> str:
    """Asks for large values again and again, and reads no answer."""
    tls, target = caller.tls, caller.target
    _, writer = await connect(target.query_port, caller.address, tls, _LITTLE)
    # uvloop's transport is no subclass of it.
    transport = cast(asyncio.Transport, writer.transport)
    try:
        transport.pause_reading()
        path = f"/state/stores/{target.store}/{large_key(caller.number % LARGE_KEYS)}"
        writer.write(target.request("GET", path) * 300)
        connection = transport.get_extra_info("socket")
        while True:
            await asyncio.sleep(0.5)
            if _is_gone(connection):
                return "dropped"
    finally:
        transport.abort()


def _is_gone(connection: socket.socket) -> bool:
    """Whether the kernel has dropped the peer, which a caller that does not read learns last."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != _ESTABLISHED


_ESTABLISHED = 1
_GARBAGE = count()


async def garbage_tokens(caller: Caller) -> str:
    """Sends twenty requests, each with another unknown token."""
    target = caller.target
    path = f"/state/stores/{target.store}/{large_key(0)}"
    reader, writer = await connect(target.query_port, caller.address, caller.tls)
    statuses = set()
    try:
        for _ in range(20):
            token = f"garbage-{caller.number}-{next(_GARBAGE)}"
            writer.write(target.request("GET", path, token=token))
            status, _ = await read_answer(reader)
            statuses.add(str(status))
            await asyncio.sleep(0.2)
    finally:
        writer.transport.abort()
    return "/".join(sorted(statuses))


KINDS = {
    "connections that never begin TLS": Kind(
        attempt=never_begin_tls, callers=3000, pause_s=3.0, addresses=4
    ),
    "heads of 3.8 MB": Kind(attempt=large_heads, callers=30, pause_s=10.0),
    "slow heads": Kind(attempt=slow_heads, callers=200, pause_s=1.0),
    "batch gets of large values": Kind(attempt=batch_gets, callers=100, pause_s=10.0),
    "scans of the whole store": Kind(attempt=scans, callers=64, pause_s=10.0),
    "commits with large positions": Kind(attempt=commits, callers=20, pause_s=10.0),
    "idle connections on the ops port": Kind(
        attempt=idle_on_ops, callers=300, pause_s=1.0, addresses=4
    ),
    "pipelining without reading": Kind(attempt=never_read, callers=100, pause_s=1.0),
    "garbage tokens": Kind(attempt=garbage_tokens, callers=40, pause_s=0.2),
}


async def attempt(kind: Kind, caller: Caller) -> str:
    """Makes one attempt, within a minute."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await kind.attempt(caller)
    except TimeoutError:
        return "waited a minute"
    except (OSError, ssl.SSLError, asyncio.IncompleteReadError, ValueError):
        return "dropped"
