"""The pod under siege, as hostile and good callers see it."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

import msgspec

HOST = "127.0.0.1"
LARGE_KEYS = 24
LARGE_BYTES = 1024 * 1024
SMALL_KEYS = 40_000
SMALL_BYTES = 300


class Target(msgspec.Struct, frozen=True):
    """One pod, and the tokens of its callers."""

    store: str
    store_id: str
    query_port: int
    internal_port: int
    ops_port: int
    ca_file: str
    reader_token: str
    writer_token: str

    def trust(self) -> ssl.SSLContext:
        """An SSL context that trusts the pod's authority."""
        return ssl.create_default_context(cafile=self.ca_file)

    def request(
        self, method: str, path: str, *, token: str = "", body: bytes = b"", close: bool = False
    ) -> bytes:
        """The bytes of a whole request."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {HOST}",
            "Accept: application/json",
            f"Authorization: Bearer {token or self.reader_token}",
        ]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if close:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode() + body


def large_key(number: int) -> str:
    """The key of a large value."""
    return f"large-{number:03}"


def small_key(number: int) -> str:
    """The key of a small value."""
    return f"small-{number:06}"


async def connect(
    port: int, address: str, tls: ssl.SSLContext | None, receive_bytes: int = 0
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection from one loopback address; `receive_bytes` bounds the kernel's buffer."""
    made = socket.socket()
    made.setblocking(False)
    # The kernel chooses the port at connect, so the port need not be free for other peers.
    made.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        made.bind((address, 0))
        await asyncio.get_running_loop().sock_connect(made, (HOST, port))
        return await asyncio.open_connection(
            sock=made, ssl=tls, server_hostname=HOST if tls else None, limit=65_536
        )
    except BaseException:
        made.close()
        raise


async def read_status(reader: asyncio.StreamReader) -> int:
    """The status of an answer; 0 if the connection ended before it."""
    line = await reader.readline()
    return int(line.split()[1]) if line else 0


async def read_answer(
    reader: asyncio.StreamReader, pause: Callable[[], Any] | None = None
) -> tuple[int, bytes]:
    """Status and body; a slow caller awaits `pause` after each piece."""
    status, length = await read_status(reader), 0
    while (header := (await reader.readline()).lower()) not in (b"\r\n", b""):
        if header.startswith(b"content-length:"):
            length = int(header.split(b":")[1])
    pieces = []
    while length > 0:
        piece = await reader.read(min(length, 65_536))
        if not piece:
            return 0, b""
        length -= len(piece)
        pieces.append(piece)
        if pause is not None:
            await pause()
    return status, b"".join(pieces)
