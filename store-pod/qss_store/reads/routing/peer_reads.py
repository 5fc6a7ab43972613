"""Sends reads to the query ports of other pods, which pass them on to no third pod.

The caller's `Authorization` is forwarded, so that a pod gives its callers no rights that they lack.
A whole answer is an HttpAnswer; a stream is read line by line.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from qss_client.clock import Clock
from qss_client.http.unreachable import why_unreachable
from qss_client.reads.routing.known_pods import KnownPods
from qss_core.errors import DeadlineExceededError, StoreError, UnreachableError
from qss_core.model import Ordinal, PodAddress
from qss_store.runtime.peer_client import PeerSession, read_answer, refusal_of
from qss_store.runtime.request_memory import MemoryShare

BYTES_MAX_HEADER = "Queryable-State-Bytes-Max"
SECONDS_MAX_HEADER = "Queryable-State-Seconds-Max"
_TOLD_AFTER_S = 0.2  # A pod had at least so long for an answer before it counts as silent.
LINE_BYTES_MAX = 64 * 1024 * 1024  # The longest line of a stream: twice the largest chunk.


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """A request for another pod; `path` has the encoded parameters."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class PeerReads:
    def __init__(self, session: PeerSession, requests_per_peer_max: int, clock: Clock) -> None:
        """The caller closes `session`. Callers of `stream` limit their number."""
        self._session = session
        self._clock = clock
        self._known = KnownPods()
        self._slots: dict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(requests_per_peer_max)
        )

    def silent_of(self, pods: Iterable[PodAddress]) -> frozenset[Ordinal]:
        """The given pods that did not answer a moment ago."""
        now_s = self._clock.monotonic_s()
        return frozenset(one.ordinal for one in pods if self._known.is_silent(one.query, now_s))

    async def ask(
        self,
        pod: PodAddress,
        request: PeerRequest,
        timeout_s: float,
        memory: MemoryShare | None,
    ) -> HttpAnswer:
        """The whole answer, counted in `memory`.

        Raises UnreachableError, DeadlineExceededError and NoMemoryError.
        """
        with _translated(pod, timeout_s):
            async with (
                asyncio.timeout(timeout_s),
                self._slots[pod.query],
                self._sent(pod, request) as response,
            ):
                body = await read_answer(response, memory)
                return HttpAnswer(response.status, response.headers, body)

    async def read(
        self,
        pod: PodAddress,
        request: PeerRequest,
        timeout_s: float,
        memory: MemoryShare | None,
    ) -> bytes:
        """The body of a successful answer; it takes memory for a copy of the body, too.

        Raises the error in the peer's problem document.
        """
        answer = await self.ask(pod, request, timeout_s, memory)
        if memory is not None:
            memory.take(len(answer.body))
        if answer.status != 200:
            raise refusal_of(answer.status, answer.body)
        return answer.body

    @asynccontextmanager
    async def stream(
        self, pod: PodAddress, request: PeerRequest, timeout_s: float
    ) -> AsyncIterator["Lines"]:
        """The lines of an answer; `timeout_s` limits each wait for lines."""
        with _translated(pod, timeout_s):
            async with asyncio.timeout(timeout_s) as opening, self._sent(pod, request) as response:
                if response.status != 200:
                    raise refusal_of(response.status, await read_answer(response))
                opening.reschedule(None)
                yield Lines(pod, response.content, timeout_s, lambda: self._stopped(pod, timeout_s))

    @asynccontextmanager
    async def _sent(
        self, pod: PodAddress, request: PeerRequest
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request, and notes whether the pod begins an answer."""
        asked_s = self._clock.monotonic_s()
        try:
            async with self._session.request(
                request.method,
                URL(pod.query + request.path, encoded=True),
                data=request.body,
                headers=request.headers,
            ) as response:
                now_s = self._clock.monotonic_s()
                self._known.answered(pod.query, now_s, now_s - asked_s, is_point=False)
                yield response
        except (aiohttp.ClientConnectionError, OSError):
            self._was_silent(pod, asked_s)
            raise
        except asyncio.CancelledError:  # Its time is over, or the caller went away.
            if self._clock.monotonic_s() - asked_s >= _TOLD_AFTER_S:
                self._was_silent(pod, asked_s)
            raise

    def _stopped(self, pod: PodAddress, timeout_s: float) -> None:
        """A stream of the pod had no bytes for so long."""
        self._was_silent(pod, self._clock.monotonic_s() - timeout_s)

    def _was_silent(self, pod: PodAddress, asked_s: float) -> None:
        now_s = self._clock.monotonic_s()
        self._known.was_silent(pod.query, asked_s, now_s, is_point=False)


class Lines:
    """Reads the lines of a stream, many at a time."""

    def __init__(
        self,
        pod: PodAddress,
        content: aiohttp.StreamReader,
        timeout_s: float,
        stopped: Callable[[], None] = lambda: None,
    ) -> None:
        """Waits at most `timeout_s` for more bytes of `content`; calls `stopped` if none come."""
        self._pod = pod
        self._content = content
        self._timeout_s = timeout_s
        self._stopped = stopped
        self._partial = bytearray()

    async def more(self) -> list[bytes]:
        """The next whole lines, empty at the end. Text after the last line break is dropped."""
        while True:
            try:
                with _translated(self._pod, self._timeout_s):
                    async with asyncio.timeout(self._timeout_s):
                        data = await self._content.readany()
            except DeadlineExceededError:
                self._stopped()
                raise
            if not data:
                return []
            cut = data.rfind(b"\n")
            if cut < 0:
                self._partial += data
                if len(self._partial) > LINE_BYTES_MAX:
                    raise StoreError(
                        f"pod {self._pod.name} answered with a line of more than {LINE_BYTES_MAX} "
                        "bytes"
                    )
                continue
            lines = bytes(self._partial + data[:cut]).split(b"\n")
            self._partial = bytearray(data[cut + 1 :])
            return lines


class _translated:  # noqa: N801 a context manager, used like a function.
    """Translates errors on the way to a peer to StoreErrors."""

    def __init__(self, pod: PodAddress, timeout_s: float) -> None:
        self._pod = pod
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _frames: object) -> None:
        # A connection that opens too slowly raises an error of both of the first two kinds.
        if isinstance(error, aiohttp.ClientError):
            raise UnreachableError(
                f"pod {self._pod.name} did not answer: {why_unreachable(error, self._timeout_s)}"
            ) from error
        if isinstance(error, TimeoutError):
            raise DeadlineExceededError(
                f"pod {self._pod.name} did not answer within {self._timeout_s:.3g} s"
            ) from error
        if isinstance(error, OSError):
            raise UnreachableError(f"pod {self._pod.name} did not answer") from error
