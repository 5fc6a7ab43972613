"""HTTP for programs without an event loop: pooled connections, typed errors, limited answers."""

import logging
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import ContextVar
from pathlib import Path
from random import random  # noqa: TID251 jitter needs nothing better, and is given away from here.
from typing import Any, TypeVar

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from qss_client.http.answer import ANSWER_BYTES_MAX, HttpAnswer, check_status, too_large
from qss_client.http.credentials import Credentials, Token, certificate_refused, trusted_by
from qss_client.http.retries import RetryAt, RetryLimits, after_failure, still_trying
from qss_client.http.slow_answers import SlowAnswers
from qss_client.http.unreachable import not_connected, unreachable
from qss_client.http.wait_warnings import WaitWarnings
from qss_core.errors import StoreError, UnauthenticatedError
from qss_core.wire.messages import decode, encode

_LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")
CONNECT_TIMEOUT_S = 2.0  # At the address of a pod that is gone nobody refuses a connection.
LOOK_EVERY_S = 0.5
_Limits = tuple[float, float]  # Seconds for an answer, and for a new connection.
_LIMITS = ContextVar[_Limits]("limits")  # The limits of this thread's request.
_HELD_MAX = 16  # Threads that wait for one pod, beyond which the pod is looked at first.


class _Connection(HTTPConnection):
    """A connection whose own limit does not count for the request: urllib3 has one for both."""

    def _new_conn(self) -> socket.socket:
        made = _connected(self, super()._new_conn)
        made.settimeout(_LIMITS.get()[0])
        return made


class _TlsConnection(HTTPSConnection):
    """As `_Connection`; the pod's process, which may be busy, takes part in the handshake."""

    def _new_conn(self) -> socket.socket:
        made = _connected(self, super()._new_conn)
        made.settimeout(min(CONNECT_TIMEOUT_S, _LIMITS.get()[0]))
        return made


def _connected(connection: HTTPConnection, connect: Callable[[], socket.socket]) -> socket.socket:
    whole_s, connection.timeout = connection.timeout, _LIMITS.get()[1]
    try:
        return connect()
    finally:
        connection.timeout = whole_s


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class SyncHttp:
    """A connection pool. Safe for threads, but not across a fork."""

    def __init__(
        self,
        token: Token | None = None,
        *,
        token_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        server_hostname: str | None = None,
    ) -> None:
        """`Credentials` uses the tokens; `ca_file` has the authorities for https.

        server_hostname: the name in the certificate, if it is not the URL's host.
        """
        self.turn = threading.Lock()  # For the state that the threads of one client share.
        self._credentials = Credentials(token, token_file)
        self._slow = SlowAnswers()
        self._held: dict[str, set[Future[HttpAnswer]]] = defaultdict(set)
        named: dict[str, Any] = {
            "server_hostname": server_hostname,
            "assert_hostname": server_hostname,
        }
        self._pool = urllib3.PoolManager(
            maxsize=16,
            retries=False,
            ssl_context=trusted_by(ca_file),
            **(named if server_hostname else {}),
        )
        self._pool.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def close(self) -> None:
        self._pool.clear()

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 30.0,
        connect_timeout_s: float | None = None,
        telling: WaitWarnings | None = None,
    ) -> HttpAnswer:
        """Sends a request; sends it again if a pooled connection was closed or a token expired.

        It warns of a wait, first after 2 s or when `telling`, the operation's wait, is due.

        connect_timeout_s: for a new connection, at most and by default 2 s. Raises the error in a
        failure's problem document, and UnreachableError without an answer.

        Every request of this client may be repeated, since it carries ids or fingerprints.
        """
        shown = self._credentials.headers()
        limits = (timeout_s, min(CONNECT_TIMEOUT_S, timeout_s, connect_timeout_s or timeout_s))
        with self._slow.watched(url, timeout_s, telling):
            try:
                return self._sent(method, url, body, {**shown, **(headers or {})}, limits)
            except UnauthenticatedError:
                newer = self._credentials.headers_after(shown)
                if newer is None:
                    raise
            return self._sent(method, url, body, {**newer, **(headers or {})}, limits)

    def watched(
        self, url: str, asked: Callable[[], HttpAnswer], works: Callable[[], bool]
    ) -> HttpAnswer:
        """As `AsyncHttp.watched`; `asked` runs in a thread, which a silent pod holds."""
        held = self._held[url]
        # Few threads wait for a silent pod, however many requests meet it.
        if len(held) >= _HELD_MAX and not works():
            raise _silent(url)
        outcome: Future[HttpAnswer] = Future()
        held.add(outcome)
        outcome.add_done_callback(held.discard)
        threading.Thread(target=_run, args=(asked, outcome), name="qss-ask", daemon=True).start()
        while not wait([outcome], LOOK_EVERY_S).done:
            if not works() and not outcome.done():
                raise _silent(url)
        return outcome.result()

    def _sent(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: dict[str, str],
        limits: _Limits,
    ) -> HttpAnswer:
        timeout_s, connect_timeout_s = limits
        for last in (False, True):
            try:
                return self._exchange(method, url, body, headers, limits)
            except urllib3.exceptions.ProtocolError as error:
                is_late = any(isinstance(one, TimeoutError) for one in error.args)
                if last or is_late:  # The pod did not take the body in time.
                    raise unreachable(url, error, timeout_s, is_connected=is_late) from error
            except urllib3.exceptions.HTTPError as error:
                refused = certificate_refused(url, error)
                if refused is not None:
                    raise refused from error
                if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
                    raise not_connected(url, error, connect_timeout_s) from error
                listens = isinstance(error, urllib3.exceptions.ReadTimeoutError)
                raise unreachable(url, error, timeout_s, is_connected=listens) from error
        raise AssertionError("the loop returns or raises")

    def _exchange(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: dict[str, str],
        limits: _Limits,
    ) -> HttpAnswer:
        timeout_s, _ = limits
        _LIMITS.set(limits)
        response = self._pool.request(
            method,
            url,
            body=body,
            headers=headers,
            timeout=urllib3.Timeout(connect=timeout_s, read=timeout_s),
            preload_content=False,
            redirect=False,
        )
        try:
            data = response.read(ANSWER_BYTES_MAX, decode_content=False)
            if response.read(1):
                raise too_large()
        finally:
            response.release_conn()
        names = {name.lower(): value for name, value in response.headers.items()}
        check_status(response.status, names, data, url)
        return HttpAnswer(response.status, names, data)

    def post(
        self, url: str, message: object, kind: type[Answer], timeout_s: float = 30.0
    ) -> Answer:
        """Sends a JSON message and decodes the JSON answer."""
        answer = self.request(
            "POST",
            url,
            body=encode(message),
            headers={"Content-Type": "application/json"},
            timeout_s=timeout_s,
        )
        return decode(answer.body, kind)

    def get(
        self,
        url: str,
        kind: type[Answer],
        timeout_s: float = 30.0,
        telling: WaitWarnings | None = None,
    ) -> Answer:
        answer = self.request("GET", url, timeout_s=timeout_s, telling=telling)
        return decode(answer.body, kind)


def _silent(url: str) -> StoreError:
    silence = TimeoutError()
    error = unreachable(url, silence, LOOK_EVERY_S)
    error.__cause__ = silence
    return error


def _run(asked: Callable[[], HttpAnswer], outcome: "Future[HttpAnswer]") -> None:
    try:
        outcome.set_result(asked())
    except BaseException as error:  # noqa: BLE001 the caller of the outcome gets it.
        outcome.set_exception(error)


class Retrier:
    """Counts the attempts of one request, and waits between them."""

    def __init__(self, limits: RetryLimits) -> None:
        self._limits = limits
        self._started = time.monotonic()
        self._attempt = 0
        self.telling = WaitWarnings.begun(self._started, limits.tell_after_s)

    @property
    def now_s(self) -> float:
        """The time by the clock of the attempts."""
        return time.monotonic()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def after(self, error: StoreError, limits: RetryLimits | None = None) -> RetryAt:
        """Waits as `after_failure` decides; raises the error if it decides to stop.

        It warns of a long wait. limits: the limits of a first contact.
        """
        elapsed_s = self.elapsed_s
        again = after_failure(error, self._attempt, elapsed_s, random(), limits or self._limits)
        if again is None:
            raise error
        self._attempt += 1
        if self.telling.take_if_due(self._started + elapsed_s + again.wait_s):
            _LOG.warning("%s", still_trying(error, elapsed_s, limits or self._limits))
        time.sleep(again.wait_s)  # noqa: TID251 this is the wait between two attempts.
        return again
