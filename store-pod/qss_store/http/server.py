"""Listening addresses: who is let in, and by which protocol."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import cast

from aiohttp import hdrs, web

from qss_store.http.connection.limits import ConnectionPlaces
from qss_store.http.connection.protocol import (
    LISTENER_LIMITS,
    Connection,
    FastPath,
    ListenerLimits,
    refuse,
)

_LOG = logging.getLogger(__name__)
_TAKEN_AT_ONCE = 4  # Connections; others have their turn between.
_REST_S = 1.0
_BACKLOG = 1024

CONNECTIONS_MAX = 4096
FAST_PATH = web.AppKey("FAST_PATH", FastPath)


class _Admission(asyncio.Protocol):
    """A connection that has just come: it gets a place, or is told that there is none."""

    def __init__(self, make: Callable[[], Connection], places: ConnectionPlaces) -> None:
        """`make` makes the connection that it becomes."""
        self._make = make
        self._places = places

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Lets it in, or not."""
        held = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        connection = self._make()
        connection.address = address_of(held.get_extra_info("peername"))
        if not self._places.take(connection):
            refuse(held)
            return
        held.set_protocol(connection)
        connection.connection_made(held)


class _Handshake:
    """A connection that has a place before it has shaken hands.

    TLS begins with its first bytes: a connection that never sends any costs a file and no more.
    """

    is_waiting = True

    def __init__(self, address: str, taken: socket.socket, timeout_s: float) -> None:
        """`timeout_s` bounds it from now until both sides have shaken hands."""
        self.address = address
        self.taken = taken
        self.task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + timeout_s
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left_s(self) -> float:
        """The time that is left; more than 0."""
        return max(self._until_s - self._loop.time(), 0.001)

    def wait(self, begin: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Calls `begin` when something can be read, or `give_up` when its time is over."""
        self._loop.add_reader(self.taken, begin)
        self._timer = self._loop.call_later(self.left_s, give_up)

    def has_bytes(self) -> bool:
        """Whether its client sent something, and not only its end; no wait goes on after it."""
        self._stop_waiting()
        try:
            return bool(self.taken.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def drop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            return
        self._stop_waiting()
        self.taken.close()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._loop.remove_reader(self.taken)


class _TlsServer:
    """Takes connections, and counts them from then on: before they have shaken hands."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], Connection],
        places: ConnectionPlaces,
        tls: ssl.SSLContext,
        limits: ListenerLimits,
    ) -> None:
        self.sockets: tuple[socket.socket, ...] = (listening,)
        self._make = make
        self._places = places
        self._tls = tls
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._shaking: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening, self._take_some)

    def close(self) -> None:
        """Listens no more, and ends the handshakes."""
        if self._again is not None:
            self._again.cancel()
        for placed in self._places.held():
            if isinstance(placed, _Handshake):
                self._give_up(placed)
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self.sockets = ()

    async def wait_closed(self) -> None:
        """Returns when no handshake is under way."""
        await asyncio.gather(*self._shaking, return_exceptions=True)

    def _take_some(self) -> None:
        for _ in range(_TAKEN_AT_ONCE):
            try:
                taken, peer = self.sockets[0].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            taken.settimeout(0)
            handshake = _Handshake(address_of(peer), taken, self._limits.handshake_timeout_s)
            if not self._places.take(handshake):
                taken.close()
                continue
            handshake.wait(partial(self._begin, handshake), partial(self._give_up, handshake))

    def _rest(self, error: OSError) -> None:
        """No files are left, for example: those who wait would wake it again and again."""
        _LOG.error("no connection can be taken for a second: %s", error)
        listening = self.sockets[0]
        self._loop.remove_reader(listening)
        self._again = self._loop.call_later(
            _REST_S, lambda: self._loop.add_reader(listening, self._take_some)
        )

    def _give_up(self, handshake: _Handshake) -> None:
        self._places.leave(handshake)
        handshake.drop()

    def _begin(self, handshake: _Handshake) -> None:
        if not handshake.has_bytes():
            self._give_up(handshake)
            return
        task = handshake.task = self._loop.create_task(self._shake(handshake))
        self._shaking.add(task)
        task.add_done_callback(partial(self._ended, handshake))

    def _ended(self, handshake: _Handshake, task: asyncio.Task[None]) -> None:
        self._shaking.discard(task)
        if task.cancelled():  # Perhaps before it began.
            handshake.taken.close()

    async def _shake(self, handshake: _Handshake) -> None:
        connection = self._make()
        connection.address = handshake.address
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                handshake.taken,
                ssl=self._tls,
                ssl_handshake_timeout=handshake.left_s,
            )
        except (OSError, ssl.SSLError):
            self._places.leave(handshake)
        except BaseException:
            self._places.leave(handshake)
            handshake.taken.close()
            raise
        else:
            self._places.hand_over(handshake, connection)
            if connection.transport is None:  # It has gone already.
                self._places.leave(connection)


def address_of(peer: object) -> str:
    """A remote address without its port; nothing where there is none."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


class _Site(web.BaseSite):
    """A listening address with a limit of connections."""

    __slots__ = ("_fast_path", "_host", "_limits", "_places", "_port", "_tls")

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

    @property
    def name(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self._host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        if self._tls is None:
            self._server = await loop.create_server(
                self._admit, self._host, self._port, backlog=_BACKLOG
            )
            return
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
        listening.settimeout(0)
        server = _TlsServer(listening, self._make, self._places, self._tls, self._limits)
        self._server = cast(asyncio.Server, server)  # As much of one as the runner needs.

    def _admit(self) -> asyncio.Protocol:
        return _Admission(self._make, self._places)

    def _make(self) -> Connection:
        server = self._runner.server
        assert server is not None, "the runner was set up before"
        return Connection(
            server,
            self._fast_path,
            self._places,
            self._limits,
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
    """Listens, and serves until its maker calls `cleanup`; for port 0 the system chooses one.

    With `tls` it speaks https. What serves is not told: the fast path sends no `Server` either.
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


def port_of(runner: web.AppRunner) -> int:
    """The port that a runner listens on."""
    port: int = runner.addresses[0][1]
    return port
