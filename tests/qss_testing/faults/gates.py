"""A gate in front of a pod's internal port, which can hold requests and lose answers.

A test can thus end a process at an exact point of an exchange between others.
"""

import http.client
import threading
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

_WAIT_MAX_S = 60.0


class Gate:
    """Forwards requests to one port, except those that a test holds or loses."""

    def __init__(self, port: int) -> None:
        """Listens on its own port, in a thread."""
        self.seen: list[str] = []
        self._port = port
        self._lock = threading.Lock()
        self._word = ""
        self._before: Callable[[], None] | None = None
        self._after: Callable[[], None] | None = None
        self._arrived = threading.Event()
        self._opened = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # --- Set by the test

    def hold(self, word: str) -> None:
        """Holds the next request with that word in its path until `open`."""
        self._arrived.clear()
        self._opened.clear()
        self._tell(word, before=self._wait, after=None)

    def lose_answer(self, word: str, then: Callable[[], None]) -> None:
        """Forwards the next request with that word, calls `then`, and loses the answer."""
        self._arrived.clear()
        self._tell(word, before=None, after=then)

    def wait_for_arrival(self) -> None:
        """Waits until the held request has come, or the answer to lose has come."""
        assert self._arrived.wait(_WAIT_MAX_S), f"no request with {self._word!r} came: {self.seen}"

    def open(self) -> None:
        """Lets the held request go on."""
        self._opened.set()

    def _tell(
        self, word: str, before: Callable[[], None] | None, after: Callable[[], None] | None
    ) -> None:
        with self._lock:
            self._word, self._before, self._after = word, before, after

    def _wait(self) -> None:
        self._arrived.set()
        self._opened.wait(_WAIT_MAX_S)

    # --- Handling a request

    def take(self, path: str) -> tuple[Callable[[], None] | None, Callable[[], None] | None]:
        """The actions before and after this request is forwarded."""
        with self._lock:
            self.seen.append(path)
            if not self._word or self._word not in path:
                return None, None
            self._word = ""
            return self._before, self._after

    def ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Message, bytes]:
        """The pod's answer: status, headers, body. Raises OSError or HTTPException without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_WAIT_MAX_S)
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def lost(self) -> None:
        """Notes that the answer to lose has come."""
        self._arrived.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores broken connections, which gates cause."""


def _handler_of(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            before, after = gate.take(self.path)
            if before is not None:
                before()
            kept = {name: value for name, value in self.headers.items() if name != "Host"}
            try:
                status, headers, data = gate.ask(self.command, self.path, body, kept)
            except (OSError, http.client.HTTPException):
                self.close_connection = True
                return
            if after is not None:
                after()
                gate.lost()
                self.close_connection = True
                return
            self.send_response(status)
            for name in ("Content-Type", "Retry-After"):
                if name in headers:
                    self.send_header(name, headers[name])
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _pass_on  # noqa: N815 the names are http.server's.

        def log_message(self, *_: object) -> None:
            """Keeps the standard library from writing to stderr."""

    return Handler
