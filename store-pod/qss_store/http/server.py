"""Opens a listener: its address, connections, TLS and protocol."""

import asyncio
import socket
import ssl
from typing import cast

from aiohttp import hdrs, web

from qss_client.clock import SystemClock
from qss_store.http.connection.accept import Acceptor
from qss_store.http.connection.limits import ConnectionPlaces
from qss_store.http.connection.protocol import (
    LISTENER_LIMITS,
    Connection,
    FastPath,
    ListenerLimits,
)
from qss_store.runtime.heavy_turns import HeavyTurns

_BACKLOG = 1024
_ROUNDS_OF_FIRST_BYTES = 2  # Rounds of the event loop until a new connection has its bytes.

CONNECTIONS_MAX = 4096
FAST_PATH = web.AppKey("FAST_PATH", FastPath)


class _Site(web.BaseSite):
    """A listening address that limits its connections."""

    __slots__ = ("_fast_path", "_host", "_limits", "_places", "_port", "_tls", "_turns")

    def __init__(
        self,
        runner: web.AppRunner,
        host: str,
        port: int,
        places: ConnectionPlaces,
        limits: ListenerLimits,
        tls: ssl.SSLContext | None,
        fast_path: FastPath | None,
    ) -> None:
        super().__init__(runner)
        self._fast_path = fast_path
        self._tls = tls
        self._host = host
        self._port = port
        self._places = places
        self._limits = limits
        self._turns = HeavyTurns(SystemClock())

    @property
    def name(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self._host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
        listening.settimeout(0)
        server = Acceptor(listening, self._make, self._places, self._tls, self._limits)
        # An Acceptor has the methods of a server that the runner calls.
        self._server = cast(asyncio.Server, server)

    async def stop(self) -> None:
        """Stops listening; the runner still answers requests that have come."""
        await super().stop()
        if self._server is not None:
            await self._server.wait_closed()
            for _ in range(_ROUNDS_OF_FIRST_BYTES):
                await asyncio.sleep(0)

    def _make(self) -> Connection:
        server = self._runner.server
        assert server is not None, "the runner was set up before"
        return Connection(
            server,
            self._fast_path,
            self._places,
            self._limits,
            self._turns,
            loop=asyncio.get_running_loop(),
            access_log=None,
            auto_decompress=False,
        )


async def make_runner(
    app: web.Application,
    host: str,
    port: int,
    connections_max: int = CONNECTIONS_MAX,
    limits: ListenerLimits = LISTENER_LIMITS,
    tls: ssl.SSLContext | None = None,
) -> web.AppRunner:
    """Listens until `cleanup` of the runner is called; for port 0 the system chooses the port.

    With `tls` it speaks https. Answers have no `Server` header, like those of the fast path.
    """
    app.on_response_prepare.append(_without_server)
    runner = web.AppRunner(
        app, handler_cancellation=True, shutdown_timeout=limits.shutdown_timeout_s
    )
    await runner.setup()
    places = ConnectionPlaces(min(connections_max, limits.connections_max))
    try:
        await _Site(runner, host, port, places, limits, tls, app.get(FAST_PATH)).start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner


async def _without_server(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall(hdrs.SERVER, None)
