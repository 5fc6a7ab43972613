"""stub"""

from aiohttp import web


def openapi_route() -> web.RouteDef:
    async def get(_: web.Request) -> web.Response:
        return web.Response()

    return web.get("/openapi.json", get)
