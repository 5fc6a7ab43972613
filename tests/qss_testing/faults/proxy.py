"""A proxy in front of the internal ports of pods: it sees writers' requests, and acts on some.

It replaces the addresses in the pods' answers by its own, so that a writer stays with the proxy. It
records every forwarded request, even if the writer got no answer.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Self, TypeVar

import aiohttp
from aiohttp import web
from yarl import URL

from qss_testing.pods.pod_process import PodProcess
from qss_testing.pods.ports import free_ports

Result = TypeVar("Result")
_ACTIONS_MAX = 16  # An action may wait for others.
_BODY_BYTES_MAX = 64 * 1024 * 1024


@dataclass(slots=True)
class Watch:
    """An action at the first matching request, before or after it is forwarded."""

    pattern: re.Pattern[str]  # For "PUT /changelog/stores/...".
    act: Callable[[], object]
    after: bool
    loses_answer: bool
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that a pod answered."""

    request: str
    status: int
    body: bytes


@dataclass(slots=True)
class WriterProxy:
    """One listener for each pod, in its own thread, inside the block."""

    pods: Sequence[PodProcess]
    passed: list[Passed] = field(default_factory=list)
    _watches: list[Watch] = field(default_factory=list)
    _ports: list[int] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None
    _runners: list[web.AppRunner] = field(default_factory=list)
    _session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        """The URL in front of the first pod's internal port."""
        return f"http://127.0.0.1:{self._ports[0]}"

    def watch(
        self,
        pattern: str,
        act: Callable[[], object],
        *,
        after: bool = False,
        loses_answer: bool = False,
    ) -> None:
        """Acts at the first request that matches; the request waits for the action."""
        self._watches.append(Watch(re.compile(pattern), act, after, loses_answer))

    def __enter__(self) -> Self:
        self._ports = free_ports(len(self.pods))
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    async def _start(self) -> None:
        self._loop.set_default_executor(ThreadPoolExecutor(_ACTIONS_MAX))
        self._session = aiohttp.ClientSession()
        for pod, port in zip(self.pods, self._ports, strict=True):
            app = web.Application(client_max_size=_BODY_BYTES_MAX)
            app.router.add_route("*", "/{path:.*}", self._handler(pod))
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            self._runners.append(runner)

    async def _stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        assert self._session is not None
        await self._session.close()

    def _handler(
        self, pod: PodProcess
    ) -> Callable[[web.Request], Coroutine[Any, Any, web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            name = f"{request.method} {request.raw_path}"
            if await self._acted(name, after=False):
                return self._lost(request)
            passed = await self._pass_on(pod, name, request)
            if passed is None or await self._acted(name, after=True):
                return self._lost(request)
            return web.Response(
                status=passed.status, body=passed.body, content_type="application/json"
            )

        return handle

    async def _acted(self, name: str, *, after: bool) -> bool:
        """Does the first action for this request; returns whether its answer is to be lost."""
        for watch in self._watches:
            if not watch.is_done and watch.after is after and watch.pattern.search(name):
                watch.is_done = True
                await asyncio.to_thread(watch.act)
                return watch.loses_answer
        return False

    async def _pass_on(self, pod: PodProcess, name: str, request: web.Request) -> Passed | None:
        assert self._session is not None
        body = await request.read()
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        url = URL(pod.internal + request.raw_path, encoded=True)
        try:
            async with self._session.request(
                request.method, url, data=BytesIO(body) if body else None, headers=headers
            ) as response:
                answer = await response.read()
        except aiohttp.ClientError:
            return None
        self.passed.append(Passed(name, response.status, answer))
        return Passed(name, response.status, self._readdressed(answer))

    def _readdressed(self, body: bytes) -> bytes:
        for pod, port in zip(self.pods, self._ports, strict=True):
            body = body.replace(pod.internal.encode(), f"http://127.0.0.1:{port}".encode())
        return body

    def _lost(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)
