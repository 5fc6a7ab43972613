"""An HTTP answer as a value, and the error of a failed one. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from qss_core.errors import KeyNotFoundError, StoreError, UnauthenticatedError
from qss_core.wire.messages import Problem, decode, error_of

ANSWER_BYTES_MAX = 256 * 1024 * 1024
POSITION_HEADER = "queryable-state-position"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer without a failure."""

    status: int
    headers: dict[str, str]  # Names are in lower case.
    body: bytes


def check_status(status: int, headers: Mapping[str, str], body: bytes, url: str) -> None:
    """Raises the error of a failed answer; a redirect is one, since redirects are not followed.

    `headers` have names in lower case. The error of an absent key has in its `details` the position
    of the state without the key, by the name of the header.
    """
    if status >= 300 and status != 304:
        error = failure_of(status, body, url)
        if isinstance(error, KeyNotFoundError) and POSITION_HEADER in headers:
            error.details[POSITION_HEADER] = headers[POSITION_HEADER]
        raise error


def failure_of(status: int, body: bytes, url: str) -> StoreError:
    """The error of an answer with a failing status."""
    try:
        return error_of(decode(body, Problem))
    except StoreError:
        parts = urlsplit(url)
        what = f"{parts.scheme}://{parts.netloc} answered {status} and no problem document"
        if status == 401:
            return UnauthenticatedError(what)
        return StoreError(f"{what} for {parts.path}: is this the URL of a store pod?")


def too_large() -> StoreError:
    """The error of an answer that exceeds the limit."""
    return StoreError(f"the answer has more than {ANSWER_BYTES_MAX} bytes: ask for less")
