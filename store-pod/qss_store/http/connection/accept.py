"""Accepts connections. A connection takes a place at once, and is given up if no bytes come.

With TLS and without, the Connection object is made when the first bytes have come. Until then a
connection costs a file descriptor and its place.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from functools import partial

from qss_store.http.connection.limits import ConnectionPlaces
from qss_store.http.connection.protocol import Connection, ListenerLimits, refuse

_LOG = logging.getLogger(__name__)
_OF_A_ROUND_S = 0.001  # The longest that one round accepts connections.
_REST_S = 1.0


class _Newcomer:
    """An accepted connection, until its first bytes have come and TLS is agreed.

    A client that never sends bytes costs a file descriptor and one of the listener's connection
    slots.
    """

    def __init__(
        self, address: str, taken: socket.socket, timeout_s: float, *, shakes_hands: bool
    ) -> None:
        """`timeout_s` is the time until the first bytes have come and TLS is agreed."""
        self._shakes_hands = shakes_hands
        self.address = address
        self.taken = taken
        self.task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + timeout_s
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client has sent nothing yet, or has not finished its TLS handshake."""
        return self.task is None or self._shakes_hands

    @property
    def left_s(self) -> float:
        """The remaining time in seconds, more than 0."""
        return max(self._until_s - self._loop.time(), 0.001)

    def wait(self, begin: Callable[[], None], give_up: Callable[[], None]) -> None:
        """Calls `begin` when bytes can be read, or `give_up` after the timeout."""
        self._loop.add_reader(self.taken, begin)
        self._timer = self._loop.call_later(self.left_s, give_up)

    def has_bytes(self) -> bool:
        """Whether the client sent bytes, and not only its end. It also ends the wait."""
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


class Acceptor:
    """Accepts connections of one listening socket, and counts them in `places` from then on."""

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
        """Stops listening, and gives up connections without bytes.

        A plain connection whose first bytes have come is made, so its request is answered.
        """
        if self._again is not None:
            self._again.cancel()
        for placed in self._places.held():
            if isinstance(placed, _Newcomer) and placed.is_waiting:
                (self._give_up if self._tls is not None else self._begin)(placed)
        for listening in self.sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self.sockets = ()

    async def wait_closed(self) -> None:
        """Waits until all connections that are being made are complete."""
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
            newcomer = _Newcomer(
                address_of(peer),
                taken,
                self._first_bytes_within_s,
                shakes_hands=self._tls is not None,
            )
            if not self._places.take(newcomer):
                self._refuse(taken)
                continue
            newcomer.wait(partial(self._begin, newcomer), partial(self._give_up, newcomer))

    @property
    def _first_bytes_within_s(self) -> float:
        """The timeout for the first bytes; with TLS for the whole handshake."""
        limits = self._limits
        return limits.keepalive_timeout_s if self._tls is None else limits.handshake_timeout_s

    def _refuse(self, taken: socket.socket) -> None:
        if self._tls is None:
            refuse(taken)
        else:
            taken.close()

    def _rest(self, error: OSError) -> None:
        """Accepts nothing for a second, for example without free file descriptors."""
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
        if task.cancelled():  # It may be cancelled before it began.
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
            if connection.transport is not None:  # uvloop does not call this by itself.
                connection.connection_lost(None)
            newcomer.taken.close()
            raise
        else:
            self._places.hand_over(newcomer, connection)
            if connection.transport is None:  # The connection has ended already.
                self._places.leave(connection)


def address_of(peer: object) -> str:
    """A remote address without its port; empty if there is none."""
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""
