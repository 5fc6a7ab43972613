"""Reads a large answer of another pod in a thread: its bytes do not pass the event loop.

A copy of a database has gigabytes. Through aiohttp each of their bytes is copied five times by the
thread that also answers reads; here a thread receives them into one buffer, and does not hold
Python's lock meanwhile.
"""

import http.client
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from io import BufferedIOBase
from urllib.parse import urlsplit

from qss_client.http.unreachable import unreachable
from qss_core.errors import StoreError
from qss_store.runtime.background_threads import background_threads

_REFUSAL_BYTES_MAX = 1024 * 1024
THREADS = background_threads("copy")


class Download:
    """One request by POST, whose answer a thread reads."""

    def __init__(self, url: str, trust: ssl.SSLContext | None, timeout_s: float) -> None:
        """`timeout_s` is for each wait: to connect, and for the next bytes."""
        parts = urlsplit(url)
        self._url, self._path, self._timeout_s = url, parts.path, timeout_s
        self._is_stopped = False
        self._connection = (
            http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
            if parts.scheme == "http"
            else http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=trust)
        )

    def run(
        self,
        body: bytes,
        headers: Mapping[str, str],
        take: Callable[[BufferedIOBase], None],
        refusal_of: Callable[[int, bytes], StoreError],
    ) -> None:
        """Sends the request, and has `take` read the answer's body; blocks.

        Raises UnreachableError, the error of the answer, and a failure of `take` as a StoreError.
        """
        try:
            self._connection.connect()
            if self._is_stopped:
                raise ConnectionAbortedError("the download was given up")
            self._connection.request("POST", self._path, body, dict(headers))
            answer = self._connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise refusal_of(answer.status, answer.read(_REFUSAL_BYTES_MAX))
            take(answer)
        except (http.client.HTTPException, OSError) as error:
            raise unreachable(self._url, error, self._timeout_s) from error
        finally:
            self._connection.close()

    def stop(self) -> None:
        """Ends a wait of the thread for more bytes; one that connects sends nothing then."""
        self._is_stopped = True
        if (connected := self._connection.sock) is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
