"""A gate before a pod's internal port: requests can be held there, and answers lost.

So a test can end a process at one exact point of an exchange between others.
"""

import http.client
import threading
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_WAIT_MAX_S = 60.0


class Gate:
    """Passes requests on to one port, unless it is told otherwise."""

    def __init__(self, port: int) -> None:
        """Listens on a port of its own, in a thread."""
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
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    # --- What a test says

    def hold(self, word: str) -> None:
        """The next request with that word in its path waits until `open` or `drop`."""
        self._arrived.clear()
        self._opened.clear()
        self._tell(word, before=self._wait, after=None)

    def lose_answer(self, word: str, then: Callable[[], None]) -> None:
        """The next request with that word is answered; `then` is done, and nobody hears of it."""
        self._arrived.clear()
        self._tell(word, before=None, after=then)

    def wait_for_arrival(self) -> None:
        """Until the request that is held has come, or that whose answer is lost was answered."""
        assert self._arrived.wait(_WAIT_MAX_S), f"no request with {self._word!r} came: {self.seen}"

    def open(self) -> None:
        """Lets go what is held."""
        self._opened.set()

    def _tell(
        self, word: str, before: Callable[[], None] | None, after: Callable[[], None] | None
    ) -> None:
        with self._lock:
            self._word, self._before, self._after = word, before, after

    def _wait(self) -> None:
        self._arrived.set()
        self._opened.wait(_WAIT_MAX_S)

    # --- What it does with a request

    def take(self, path: str) -> tuple[Callable[[], None] | None, Callable[[], None] | None]:
        """What is to be done before and after this request is passed on."""
        with self._lock:
            self.seen.append(path)
            if not self._word or self._word not in path:
                return None, None
            self._word = ""
            return self._before, self._after

    def ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, Message, bytes]:
        """The pod's answer: status, headers, body. Raises OSError, HTTPException without one."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_WAIT_MAX_S)
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def lost(self) -> None:
        """Says that the answer to be lost has come."""
        self._arrived.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks off is what gates are for."""


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
            """Nothing is logged."""

    return Handler
