"""`python -m qss_siege.good_program TARGET`: well-behaved clients, until SIGTERM.

Four connections read small values, fifty times a second each; each second another connection comes,
reads once and ends. At SIGUSR1 the program prints what it measured since the last time, as a line
of JSON.
"""

import asyncio
import signal
import ssl
import sys
import time
from collections import Counter
from contextlib import suppress

import msgspec
import uvloop

from qss_siege.target import SMALL_BYTES, SMALL_KEYS, Target, connect, read_answer, small_key

_CONNECTIONS = 4
_PAUSE_S = 0.02
_NEWCOMERS_PAUSE_S = 1.0
_WITHIN_S = 10.0


class Seen(msgspec.Struct):
    """Latencies in seconds, and the number of failures by their text."""

    latencies_s: list[float] = msgspec.field(default_factory=list)
    newcomers_s: list[float] = msgspec.field(default_factory=list)
    failures: dict[str, int] = msgspec.field(default_factory=dict)

    def fail(self, what: str) -> None:
        self.failures = Counter(self.failures) + Counter([what])


class Good:
    """All well-behaved clients of one process."""

    def __init__(self, target: Target) -> None:
        self.seen = Seen()
        self._target = target
        self._tls = target.trust()
        self._key = 0

    def tell(self) -> None:
        """Prints what was measured since the last time."""
        sys.stdout.write(msgspec.json.encode(self.seen).decode() + "\n")
        sys.stdout.flush()
        self.seen = Seen()

    async def stay(self) -> None:
        """Reads again and again over one connection; connects again after a failure."""
        while True:
            with suppress(ConnectionError):
                reader, writer = await self._connect()
                try:
                    while True:
                        if not await self._ask(reader, writer, self.seen.latencies_s):
                            break
                        await asyncio.sleep(_PAUSE_S)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_PAUSE_S)

    async def come_and_go(self) -> None:
        """Opens a new connection each second."""
        while True:
            with suppress(ConnectionError):
                reader, writer = await self._connect()
                await self._ask(reader, writer, self.seen.newcomers_s)
                writer.transport.abort()
            await asyncio.sleep(_NEWCOMERS_PAUSE_S)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(_WITHIN_S):
                return await connect(self._target.query_port, "127.0.0.1", self._tls)
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self.seen.fail(f"cannot connect: {type(error).__name__}")
            raise ConnectionError from error

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, took: list[float]
    ) -> bool:
        """Reads one value; whether it came."""
        self._key = (self._key + 7919) % SMALL_KEYS
        path = f"/state/stores/{self._target.store}/{small_key(self._key)}"
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_WITHIN_S):
                writer.write(self._target.request("GET", path))
                status, body = await read_answer(reader)
        except (OSError, ssl.SSLError, ValueError, TimeoutError) as error:
            self.seen.fail(type(error).__name__)
            return False
        took.append(time.perf_counter() - began)
        if status != 200 or len(body) < SMALL_BYTES:
            self.seen.fail(str(status) if status != 200 else f"{len(body)} bytes")
            return False
        return True


async def run(target: Target) -> None:
    """Runs until the process gets SIGTERM."""
    good, stop = Good(target), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, good.tell)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    tasks = [asyncio.create_task(good.stay()) for _ in range(_CONNECTIONS)]
    tasks.append(asyncio.create_task(good.come_and_go()))
    good.tell()  # Tells the parent that the clients have begun.
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    uvloop.run(run(msgspec.json.decode(sys.argv[1], type=Target)))
