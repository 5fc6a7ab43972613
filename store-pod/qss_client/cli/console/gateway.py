"""Stands between a browser and a pod, and adds the caller's token to the page's requests."""

import hmac
import json
import re
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qss_client.http.answer import HttpAnswer
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import (
    ForbiddenError,
    OverloadedError,
    PathNotFoundError,
    StoreError,
    TooLargeError,
    UnauthenticatedError,
)
from qss_core.wire.messages import encode, problem_of

_BODY_BYTES_MAX = 256 * 1024  # As a pod's query_body_bytes_max.
_SOCKET_S = 30.0
_CONNECTIONS_MAX = 32  # A browser opens up to 6 to one address. Each has a thread.
_SESSION_PATH = "/console/session"
_FILES = "/console/"
_ASKED = ("/state/", "/openapi.json")
# A path goes to the pod as it is. HTTP clients and proxies resolve dot segments, by which a file's
# path would lead to rows, which need the session.
_FILE = re.compile(r"/console/(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*(?:[A-Za-z0-9_-][A-Za-z0-9._-]*)?")
_DOTS = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:[/?#]|$)", re.IGNORECASE)
_PASSED_ON = ("Accept", "Content-Type", "If-None-Match")
_OF_THE_CONNECTION = frozenset(("connection", "content-length", "date", "transfer-encoding"))


@contextmanager
def gateway(
    http: SyncHttp,
    url: str,
    timeout_s: float,
    kubectl: Sequence[str] = (),
    *,
    asks_token: bool = True,
) -> Iterator[str]:
    """Listens on the loopback inside the block; yields the address to open, with a code.

    http: asks the pod at `url`, with the caller's credentials. kubectl: the options by which
    `kubectl qss` finds the store; with `url` they go into the texts that the page gives to copy,
    since this listener takes no token. asks_token: whether these texts need one.
    """
    place = {"pod": url, "kubectl": list(kubectl), "token": asks_token}
    server = _Server(http, url, timeout_s, place)
    thread = threading.Thread(target=server.serve_forever, name="console", daemon=True)
    thread.start()
    try:
        yield f"{server.origin}{_FILES}#code={server.code}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, http: SyncHttp, url: str, timeout_s: float, place: Mapping[str, Any]
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._http = http
        self._url = url
        self._place = place
        self._timeout_s = timeout_s
        self._session = secrets.token_urlsafe(32)
        self._unused: str | None = secrets.token_urlsafe(32)
        self._redeeming = threading.Lock()
        self._free = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        self.host = f"127.0.0.1:{self.server_port}"
        self.origin = f"http://{self.host}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers a connection in a thread of its own; one beyond the limit gets 429 at once."""
        if not self._free.acquire(blocking=False):
            _refuse(request)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    @property
    def code(self) -> str:
        """The code that gets the session, once."""
        assert self._unused is not None, "the code is read before it is opened"
        return self._unused

    def redeem(self, code: bytes) -> bytes:
        """The session and the store's place, for the code.

        Raises ForbiddenError for another code, and the second time.
        """
        with self._redeeming:
            unused = self._unused
            if unused is None or not hmac.compare_digest(code, unused.encode()):
                raise ForbiddenError("the code was used or is wrong: run `qss console` again")
            self._unused = None
        return json.dumps({"session": self._session, **self._place}).encode()

    def check(self, authorization: str | None) -> None:
        """Raises UnauthenticatedError where the page does not show the session."""
        shown = (authorization or "").removeprefix("Bearer ")
        if not hmac.compare_digest(shown.encode(), self._session.encode()):
            raise UnauthenticatedError(
                "this page has no session with `qss console`, as after loading it anew: run the "
                "command again"
            )

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """The pod's answer. Raises its error."""
        return self._http.request(
            method,
            self._url + path,
            body=body or None,
            headers=headers,
            timeout_s=self._timeout_s,
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is no error to tell."""


def _refuse(request: socket.socket) -> None:
    """Answers 429 before the request is read; the browser may have gone."""
    error = OverloadedError(
        f"`qss console` has {_CONNECTIONS_MAX} connections already, which is the limit: close "
        "pages of it, or try again in half a minute"
    )
    body = encode(problem_of(error))
    head = (
        f"HTTP/1.1 {error.http_status} Too Many Requests\r\nConnection: close\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with suppress(OSError):
        request.sendall(head.encode() + body)


class _Handler(BaseHTTPRequestHandler):
    """One connection of the browser."""

    protocol_version = "HTTP/1.1"
    timeout = _SOCKET_S
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Logs nothing: paths have keys."""

    def _answer(self) -> None:
        try:
            status, headers, body = self._answered(self._body())
        except StoreError as error:
            status, body = error.http_status, encode(problem_of(error))
            # The unread rest of the body would be read as a request. `send_header` closes, too.
            headers = {"Content-Type": "application/problem+json", "Connection": "close"}
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answered(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self._check_caller()
        path = self.path
        if path == _SESSION_PATH and self.command == "POST":
            headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
            return 200, headers, self.server.redeem(body)
        is_file = self.command == "GET" and _FILE.fullmatch(path) is not None
        if not is_file:
            if not path.startswith(_ASKED) or _DOTS.search(path):
                raise PathNotFoundError(f"there is no {path[:200]}: the console is at /console/")
            self.server.check(self.headers.get("Authorization"))
        passed = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        answer = self.server.ask(self.command, path, passed, body)
        kept = {
            name: value for name, value in answer.headers.items() if name not in _OF_THE_CONNECTION
        }
        return answer.status, kept, answer.body

    def _check_caller(self) -> None:
        """Raises ForbiddenError for a name or a page that is not the gateway's own."""
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        if host != self.server.host or origin not in (None, self.server.origin):
            raise ForbiddenError(f"this listener is for pages of {self.server.origin} alone")

    def _body(self) -> bytes:
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdigit()) or int(text) > _BODY_BYTES_MAX:
            raise TooLargeError(f"a request has up to {_BODY_BYTES_MAX} bytes")
        return self.rfile.read(int(text))
