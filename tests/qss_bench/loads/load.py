"""Sends a load of GETs from this process; measures latencies and the server's CPU time."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import cast

import uvloop


@dataclass(frozen=True, slots=True)
class Load:
    """The results of a load, in seconds."""

    requests: int
    seconds: float
    server_cpu_s: float
    latencies_s: list[float]

    @property
    def per_cpu_second(self) -> float:
        """Requests per second of the server's CPU; other work on the machine does not change it."""
        return self.requests / self.server_cpu_s

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds

    def percentile(self, share: float) -> float:
        """The latency below which this share of requests lies."""
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and all its threads so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class _Client(asyncio.Protocol):
    """A keep-alive connection that always has one request under way."""

    def __init__(self, heads: "cycle[bytes]", latencies: list[float], pause_s: float) -> None:
        self._heads = heads
        self._latencies = latencies
        self._pause_s = pause_s
        self._rest = b""
        self._wanted = -1
        self.is_ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass.
        self._send()

    def _send(self) -> None:
        if not self.transport.is_closing():
            self._sent = time.perf_counter()
            self.transport.write(next(self._heads))

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if self._wanted < 0:
            end = self._rest.find(b"\r\n\r\n")
            if end < 0:
                return
            assert self._rest.startswith(b"HTTP/1.1 200"), self._rest[:300]
            head = self._rest[:end].lower()
            at = head.index(b"content-length:") + 15
            line_end = head.find(b"\r\n", at)
            self._wanted = end + 4 + int(head[at : line_end if line_end > 0 else end])
        if len(self._rest) >= self._wanted:
            self._latencies.append(time.perf_counter() - self._sent)
            self._rest, self._wanted = b"", -1
            if self.is_ending:
                self.transport.close()
            elif self._pause_s:
                asyncio.get_running_loop().call_later(self._pause_s, self._send)
            else:
                self._send()


def run_load(
    port: int,
    heads: list[bytes],
    *,
    pid: int,
    connections: int,
    seconds: float,
    pause_s: float = 0.0,
    meanwhile: Callable[[], object] | None = None,
) -> Load:
    """Sends the requests in turn over the connections; `meanwhile` runs in another thread."""

    async def run() -> Load:
        loop = asyncio.get_running_loop()
        latencies: list[float] = []
        source = cycle(heads)
        clients = []
        for _ in range(connections):
            _, client = await loop.create_connection(
                lambda: _Client(source, latencies, pause_s), "127.0.0.1", port
            )
            clients.append(client)
        await asyncio.sleep(0.3)
        latencies.clear()
        before, started = cpu_seconds(pid), time.perf_counter()
        if meanwhile:
            await loop.run_in_executor(None, meanwhile)
        else:
            await asyncio.sleep(seconds)
        cpu_s, took_s = cpu_seconds(pid) - before, time.perf_counter() - started
        seen = list(latencies)
        for client in clients:
            client.transport.close()
        return Load(len(seen), took_s, cpu_s, seen)

    return uvloop.run(run())
