"""An HTTP answer as a value, and the failure that another one stands for. Pure."""

from dataclasses import dataclass

from qss_core.errors import StoreError
from qss_core.wire import Problem, decode, error_of

ANSWER_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer that was no failure."""

    status: int
    headers: dict[str, str]  # Names in lower case.
    body: bytes


def failure_of(status: int, body: bytes) -> StoreError:
    """The error that an answer with a failing status stands for."""
    try:
        return error_of(decode(body, Problem))
    except StoreError:
        return StoreError(f"the server answered {status} and no problem document: is it a store?")


def too_large() -> StoreError:
    """The error of an answer that is not read to its end."""
    return StoreError(f"the answer has more than {ANSWER_BYTES_MAX} bytes: ask for less")
