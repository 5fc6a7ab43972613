"""The toy API server with the parts that kopf needs: discovery, and watches that stay open."""

import asyncio
import json
from dataclasses import dataclass, field

from aiohttp import web

from qss_operator.kubernetes.api.kinds import STORES, Kind
from qss_operator.kubernetes.watches import CHILDREN
from qss_testing.fakes.toy_api_server import ToyApiServer
from qss_testing.fakes.toy_objects import Object, Place, RefusalError, place_of
from qss_testing.kinds import CUSTOM_RESOURCE_DEFINITIONS

_NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)


@dataclass
class WatchedApiServer(ToyApiServer):
    """Watches report the changes of `announce`; a namespace can be forbidden."""

    forbidden: set[str] = field(default_factory=set)
    _open: list[tuple[Place, "asyncio.Queue[Object]"]] = field(default_factory=list)

    def announce(self, event: str, kind: Kind, body: Object) -> None:
        """Sends a change to all watches of that kind and namespace."""
        for place, queue in self._open:
            if (place.plural, place.namespace) == (kind.plural, body["metadata"]["namespace"]):
                queue.put_nowait({"type": event, "object": body})

    def is_watched(self, kind: Kind, namespace: str) -> bool:
        """Whether a watch of these objects is open."""
        return any((one.plural, one.namespace) == (kind.plural, namespace) for one, _ in self._open)

    def forbid(self, namespace: str) -> None:
        """Forbids the namespace; its watches end."""
        self.forbidden.add(namespace)
        for place, queue in self._open:
            if place.namespace == namespace:
                queue.put_nowait({})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        place = place_of(request.path)
        if place is None:
            return _discovered(request.path)
        if place.namespace in self.forbidden:
            message = f'{place.plural} is forbidden in the namespace "{place.namespace}"'
            refusal = RefusalError(403, "Forbidden", message)
            return web.json_response(refusal.document, status=403)
        if request.query.get("watch") == "true":
            return await self._watch(request, place)
        return await super()._answer(request)

    async def _watch(self, request: web.Request, place: Place) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        entry: tuple[Place, asyncio.Queue[Object]] = (place, asyncio.Queue())
        self._open.append(entry)
        try:
            while event := await entry[1].get():
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._open.remove(entry)
        return response


def _discovered(path: str) -> web.Response:
    """The kinds that the API server serves."""
    # kopf waits for the last two, though it reads neither.
    kinds = (STORES, *CHILDREN, CUSTOM_RESOURCE_DEFINITIONS, _NAMESPACES)
    groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group})
    if path == "/api":
        return web.json_response({"versions": ["v1"]})
    if path == "/apis":
        return web.json_response({"groups": [_group(*group) for group in groups]})
    found = [
        {
            "name": kind.plural,
            "singularName": "",
            "kind": kind.kind,
            "namespaced": kind.namespaced,
            "verbs": ["list", "watch", "patch"],
        }
        for kind in kinds
        if path == (f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}")
    ]
    if not found:
        return web.Response(status=404, text="404 page not found\n")
    return web.json_response({"kind": "APIResourceList", "resources": found})


def _group(name: str, version: str) -> Object:
    named = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [named], "preferredVersion": named}
