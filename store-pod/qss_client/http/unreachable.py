"""Words the reason why a request had no answer."""

import socket
from urllib.parse import urlsplit

from qss_client.http.retries import NoAnswerInTimeError, NoConnectionInTimeError
from qss_core.errors import UnreachableError

_CAUSES_MAX = 20


def unreachable(
    url: str, error: BaseException, timeout_s: float, *, is_connected: bool = False
) -> UnreachableError:
    """The error of a request to `url` that had `timeout_s` for an answer.

    is_connected: the connection was made, and the time was over before an answer came.
    """
    kind = NoAnswerInTimeError if is_connected else UnreachableError
    parts = urlsplit(url)
    return kind(f"{parts.scheme}://{parts.netloc}: {why_unreachable(error, timeout_s)}")


def not_connected(url: str, error: BaseException, timeout_s: float) -> NoConnectionInTimeError:
    """The error of a request to `url` where no connection was made within `timeout_s`."""
    return NoConnectionInTimeError(unreachable(url, error, timeout_s).message)


def why_unreachable(error: BaseException, timeout_s: float) -> str:
    """The reason, from the innermost error: libraries wrap the system's errors differently."""
    causes = _causes(error)
    for kind, words in (
        (socket.gaierror, "no such host"),
        (ConnectionRefusedError, "connection refused"),
    ):
        if any(isinstance(one, kind) for one in causes):
            return words
    told = next((one.strerror for one in causes if isinstance(one, OSError) and one.strerror), None)
    if told:
        return told.lower()
    if any(isinstance(one, TimeoutError) for one in causes):
        return f"no answer within {timeout_s:.3g} s"
    return "the connection was closed before an answer came"


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting and len(found) < _CAUSES_MAX:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or one in found:
            continue
        found.append(one)
        waiting += [one.__cause__, *one.args]
        waiting += [getattr(one, "reason", None), getattr(one, "os_error", None)]
    return found
