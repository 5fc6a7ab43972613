"""Reads the console's files and serves them, with an ETag and strict headers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from aiohttp import hdrs, web

from qss_core.errors import PathNotFoundError

_STATIC = Path(__file__).parent / "static"
_PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LICENSE = "text/plain; charset=utf-8"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # A browser asks again, by the ETag.
}


@dataclass(frozen=True, slots=True)
class ConsoleFile:
    """One file, its media type and its ETag."""

    body: bytes
    media: str
    etag: str


@cache
def console_files() -> Mapping[str, ConsoleFile]:
    """The files by their paths below `static`; read once."""
    return {
        str(path.relative_to(_STATIC)): _read(path)
        for path in sorted(_STATIC.rglob("*"))
        if path.is_file()
    }


def _read(path: Path) -> ConsoleFile:
    body = path.read_bytes()
    return ConsoleFile(
        body, _TYPES.get(path.suffix, _LICENSE), f'"{sha256(body).hexdigest()[:32]}"'
    )


async def get_file(request: web.Request) -> web.Response:
    """Answers with a file; without a name with the page."""
    found = console_files().get(request.match_info["file"] or _PAGE)
    if found is None:
        raise PathNotFoundError(f"there is no {request.path[:200]}: the console is at /console/")
    headers = {**_HEADERS, hdrs.ETAG: found.etag}
    if request.headers.get(hdrs.IF_NONE_MATCH) == found.etag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, headers={**headers, hdrs.CONTENT_TYPE: found.media})


async def to_page(_: web.Request) -> web.Response:
    """Leads from the path without its last slash to the page."""
    return web.Response(status=308, headers={hdrs.LOCATION: "/console/"})


async def to_page_for_persons(request: web.Request) -> web.Response:
    """Leads a browser to the page; a program gets the problem of an unknown path."""
    if "text/html" not in request.headers.get(hdrs.ACCEPT, ""):
        raise PathNotFoundError(
            "there is no /: the paths are in /openapi.json, a page at /console/"
        )
    headers = {hdrs.LOCATION: "/console/", hdrs.VARY: hdrs.ACCEPT}
    return web.Response(status=302, headers=headers)
