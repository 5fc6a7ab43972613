"""Listening addresses: who is let in, and by which protocol."""

import asyncio
import logging
import socket
import ssl
import time
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
from qss_store.runtime.heavy_turns import HeavyTurns

_LOG = logging.getLogger(__name__)
_OF_A_ROUND_S = 0.001  # To take connections in; then others have their turn.
_REST_S = 1.0
_BACKLOG = 1024

CONNECTIONS_MAX = 4096
FAST_PATH = web.AppKey("FAST_PATH", FastPath)


class _Newcomer:
    """A connection that has a place before it has said anything.

    It is made when its first bytes have come: one that never sends any costs a file and no more.
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


class _Server:
    """Takes connections, and counts them from then on: before they have said anything."""

    def __init__(
        self,
        listening: socket.socket,
        make: Callable[[], Connection],
        places: ConnectionPlaces,
        tls: ssl.SSLContext | None,
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
        """Listens no more, and ends those who have said nothing."""
        if self._again is not None:
            self._again.cancel()
        for placed in self._places.held():
            if isinstance(placed, _Newcomer):
                self._give_up(placed)
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self.sockets = ()

    async def wait_closed(self) -> None:
        """Returns when no handshake is under way."""
        await asyncio.gather(*self._shaking, return_exceptions=True)

    def _take_some(self) -> None:
        until_s = time.perf_counter() + _OF_A_ROUND_S
        while time.perf_counter() < until_s:
            try:
                taken, peer = self.sockets[0].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            taken.settimeout(0)
            newcomer = _Newcomer(address_of(peer), taken, self._first_bytes_within_s)
            if not self._places.take(newcomer):
                self._refuse(taken)
                continue
            newcomer.wait(partial(self._begin, newcomer), partial(self._give_up, newcomer))

    @property
    def _first_bytes_within_s(self) -> float:
        """With TLS the time for the whole handshake."""
        limits = self._limits
        return limits.keepalive_timeout_s if self._tls is None else limits.handshake_timeout_s

    def _refuse(self, taken: socket.socket) -> None:
        if self._tls is None:
            refuse(taken)
        else:
            taken.close()

    def _rest(self, error: OSError) -> None:
        """No files are left, for example: those who wait would wake it again and again."""
        _LOG.error("no connection can be taken for a second: %s", error)
        listening = self.sockets[0]
        self._loop.remove_reader(listening)
        self._again = self._loop.call_later(
            _REST_S, lambda: self._loop.add_reader(listening, self._take_some)
        )

    def _give_up(self, newcomer: _Newcomer) -> None:
        self._places.leave(newcomer)
        newcomer.drop()

    def _begin(self, newcomer: _Newcomer) -> None:
        if not newcomer.has_bytes():
            self._give_up(newcomer)
            return
        task = newcomer.task = self._loop.create_task(self._shake(newcomer))
        self._shaking.add(task)
        task.add_done_callback(partial(self._ended, newcomer))

    def _ended(self, newcomer: _Newcomer, task: asyncio.Task[None]) -> None:
        self._shaking.discard(task)
        if task.cancelled():  # Perhaps before it began.
            newcomer.taken.close()

    async def _shake(self, newcomer: _Newcomer) -> None:
        connection = self._make()
        connection.address = newcomer.address
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                newcomer.taken,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else newcomer.left_s,
            )
        except (OSError, ssl.SSLError):
            self._places.leave(newcomer)
        except BaseException:
            self._places.leave(newcomer)
            newcomer.taken.close()
            raise
        else:
            self._places.hand_over(newcomer, connection)
            if connection.transport is None:  # It has gone already.
                self._places.leave(connection)


def address_of(peer: object) -> str:
    """A remote address without its port; nothing where there is none."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


class _Site(web.BaseSite):
    """A listening address with a limit of connections."""

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
        self._turns = HeavyTurns(time.perf_counter)

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
        server = _Server(listening, self._make, self._places, self._tls, self._limits)
        self._server = cast(asyncio.Server, server)  # As much of one as the runner needs.

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
