"""Reads keys from raw paths, and decodes each escape exactly once."""

import re
from urllib.parse import unquote_to_bytes

from aiohttp import web

from qss_core.errors import MalformedRequestError, TooLargeError

PATH_KEY_BYTES_MAX = 2048
_NOT_AN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_BY_POST = (
    "send it as JSON to POST /state/get/{store}, for windows, sessions and versions to POST "
    "/state/query/{store}"
)


def key_text(request: web.Request) -> str:
    """The text of the key in `/state/<what>/<store>/<key>`, the last segment."""
    raw = request.rel_url.raw_path.rpartition("/")[2]
    if len(raw) <= PATH_KEY_BYTES_MAX and raw.isalnum() and raw.isascii():
        return raw  # Most keys have no escapes.
    if raw in ("", ".", ".."):
        raise MalformedRequestError(f"the key {raw!r} cannot go in a path: {_BY_POST}")
    if _NOT_AN_ESCAPE.search(raw):
        raise MalformedRequestError("a % in a path starts two hex digits: a key's own % is %25")
    data = unquote_to_bytes(raw)
    if len(data) > PATH_KEY_BYTES_MAX:
        raise TooLargeError(
            f"a key in a path has up to {PATH_KEY_BYTES_MAX} bytes, not {len(data)}: {_BY_POST}",
            limit=PATH_KEY_BYTES_MAX,
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedRequestError(
            "the key in the path is not UTF-8: a key of the type bytes goes as base64url"
        ) from error
