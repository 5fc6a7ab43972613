"""The exceptions in the pod's log, without keys and values of a store.

An exception is logged with its type and traceback. Its text, which may quote a row, is logged only
for errors of the pod's own that no input has caused.
"""

import asyncio
import logging
import traceback
from types import TracebackType
from typing import Any

from qss_core.errors import StoreError

_LOG = logging.getLogger(__name__)
_CHAIN_MAX = 10
_OURS_FROM = 500  # The lowest status of errors that no request has caused.
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class TextFormatter(logging.Formatter):
    """One line for each record, and the lines of its exception."""

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 the name is logging's.
        """The traceback and the type of an exception."""
        return told_exception(ei[1])


def told_exception(error: BaseException | None) -> str:
    """The lines of an exception and of its causes, the first cause first."""
    chain: list[str] = []
    while error is not None and len(chain) < _CHAIN_MAX:
        frames = "".join(traceback.format_tb(error.__traceback__))
        what = f"{type(error).__name__}{_text_of(error)}"
        chain.append(f"Traceback (most recent call last):\n{frames}{what}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\nand then:\n".join(reversed(chain))


def _text_of(error: BaseException) -> str:
    if isinstance(error, StoreError) and error.http_status >= _OURS_FROM:
        return f": {error.message}"
    return ""


def tell_unexpected(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an unhandled exception of an event loop; asyncio's own log would have its text."""
    error = context.get("exception")
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    _LOG.error("%s", context.get("message", "an exception that nobody took"), exc_info=exc_info)
