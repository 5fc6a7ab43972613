"""A toy API server over real HTTP: objects in dicts, and failures on demand.

The methods `next_...` affect the next matching requests, as often as given.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from qss_testing.fakes.toy_objects import Object, Place, RefusalError, ToyObjects, place_of
from qss_testing.pods.ports import free_ports

Act = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that the server received."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    authorization: str | None
    body: Any


@dataclass(slots=True)
class Trouble:
    """An action in place of an answer."""

    word: str  # A part of "GET /api/v1/...".
    act: Act
    times: int


@dataclass(slots=True)
class ToyApiServer:
    """Listens on the loopback inside the block."""

    token: str | None = None
    objects: ToyObjects = field(default_factory=ToyObjects)
    asked: list[Asked] = field(default_factory=list)
    unserved: set[str] = field(default_factory=set)
    review: Callable[[Object], Object] = lambda body: body
    issue: Callable[[str, str], str] = lambda account, audience: f"{account} for {audience}"
    port: int = field(default_factory=lambda: free_ports(1)[0])
    hung: int = 0
    _troubles: list[Trouble] = field(default_factory=list)
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_listening()

    async def listen(self) -> None:
        """Listens; a second call uses the same port."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def stop_listening(self) -> None:
        """Refuses connections from now on, and ends open ones."""
        self.release()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    def write_kubeconfig(self, path: Path, context: str = "toy") -> Path:
        """A kubeconfig for this server and its token."""
        named = {"name": context}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{**named, "cluster": {"server": self.url}}],
            "users": [{**named, "user": {"token": self.token} if self.token else {}}],
            "contexts": [{**named, "context": {"cluster": context, "user": context}}],
        }
        path.write_text(json.dumps(document))
        return path

    # --- Set by the test

    def next_answer(
        self,
        status: int,
        reason: str = "",
        message: str = "told so",
        *,
        word: str = "",
        times: int = 1,
        headers: dict[str, str] | None = None,
        **details: Any,
    ) -> None:
        """Refuses the request, without carrying it out."""
        refusal = RefusalError(status, reason, message, **details)

        async def act(_: web.Request) -> web.StreamResponse:
            return web.json_response(refusal.document, status=status, headers=headers)

        self._troubles.append(Trouble(word, act, times))

    def next_bytes(self, status: int, body: bytes, *, word: str = "", times: int = 1) -> None:
        """Sends bytes that no API server would send."""

        async def act(_: web.Request) -> web.StreamResponse:
            return web.Response(status=status, body=body)

        self._troubles.append(Trouble(word, act, times))

    def next_hangs(self, word: str = "", times: int = 1, *, after_bytes: bytes = b"") -> None:
        """Sends no answer, or only its beginning, until `release`."""

        async def act(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Length": "1000000"})
            if after_bytes:
                await response.prepare(request)
                await response.write(after_bytes)
            self.hung += 1
            await self._released.wait()
            return _cut(request)

        self._released.clear()
        self._troubles.append(Trouble(word, act, times))

    def next_is_cut(self, word: str = "", times: int = 1, *, after_bytes: bytes = b"") -> None:
        """Ends the connection before the answer, or in the middle of it."""

        async def act(request: web.Request) -> web.StreamResponse:
            if after_bytes:
                response = web.StreamResponse(headers={"Content-Length": "1000000"})
                await response.prepare(request)
                await response.write(after_bytes)
            return _cut(request)

        self._troubles.append(Trouble(word, act, times))

    def next_answer_is_lost(self, word: str = "", times: int = 1) -> None:
        """Carries out the request, and loses the answer."""

        async def act(request: web.Request) -> web.StreamResponse:
            await self._answer(request)
            return _cut(request)

        self._troubles.append(Trouble(word, act, times))

    def release(self) -> None:
        """Ends the requests that hang, without an answer."""
        self._released.set()

    def forget(self) -> None:
        """Drops the actions that have not happened."""
        self._troubles.clear()

    # --- Handling a request

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            Asked(
                method=request.method,
                path=request.path,
                query=dict(request.query),
                content_type=request.headers.get("Content-Type", ""),
                authorization=request.headers.get("Authorization"),
                body=json.loads(body) if body else None,
            )
        )
        for trouble in self._troubles:
            if trouble.word in f"{request.method} {request.raw_path}" and trouble.times > 0:
                trouble.times -= 1
                return await trouble.act(request)
        return await self._answer(request)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return self._done(request, await request.read())
        except RefusalError as refusal:
            return web.json_response(refusal.document, status=refusal.code)

    def _done(self, request: web.Request, data: bytes) -> web.StreamResponse:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            raise RefusalError(401, "Unauthorized", "Unauthorized")
        place = place_of(request.path)
        if place is None or place.plural in self.unserved:
            return web.Response(status=404, text="404 page not found\n")
        body = json.loads(data) if data else {}
        if request.method == "GET":
            objects = self.objects
            found = objects.page(place, request.query) if place.name is None else objects.get(place)
            return web.json_response(found)
        if place.subresource == "token":
            return web.json_response(self._issued(place, body), status=201)
        if request.method == "POST":
            is_review = place.plural.endswith("reviews")
            made = self.review(body) if is_review else self.objects.create(place, body)
            return web.json_response(made, status=201)
        return web.json_response(self._changed(request, place, body))

    def _issued(self, place: Place, body: Object) -> Object:
        """A TokenRequest with its token."""
        account = f"system:serviceaccount:{place.namespace}:{place.name}"
        (audience,) = body["spec"]["audiences"]
        return {**body, "status": {"token": self.issue(account, audience)}}

    def _changed(self, request: web.Request, place: Place, body: Object) -> Object:
        match request.method, request.headers.get("Content-Type", ""):
            case "PUT", "application/json":
                return self.objects.replace(place, body)
            case "PATCH", "application/merge-patch+json":
                return self.objects.patch(place, body)
            case "PATCH", "application/apply-patch+yaml" if request.query.get("fieldManager"):
                return self.objects.apply(place, body)
            case "DELETE", "application/json":
                return self.objects.delete(place, body)
            case method, media:
                raise RefusalError(415, "UnsupportedMediaType", f"{method} of {media}")


def _cut(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
