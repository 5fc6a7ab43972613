"""Logs refused requests by route and code, never with a key, a token or a message."""

import logging

from qss_client.clock import Clock
from qss_core.errors import StoreError

_LOG = logging.getLogger(__name__)

_EVERY_S = 60.0
_KINDS_MAX = 200


class RefusalLog:
    """Logs at most one line a minute for each route and code, with the number of refusals."""

    def __init__(self, listener: str, clock: Clock) -> None:
        self._listener = listener
        self._clock = clock
        self._told: dict[tuple[str, str, str], tuple[float, int]] = {}

    def refused(self, method: str, route: str, error: StoreError) -> None:
        """Counts a refusal, and logs it if its line is due."""
        kind = (method, route, error.code)
        now_s = self._clock.monotonic_s()
        told_s, untold = self._told.get(kind, (-_EVERY_S, 0))
        if now_s - told_s < _EVERY_S:
            self._told[kind] = (told_s, untold + 1)
            return
        if len(self._told) >= _KINDS_MAX:
            self._told.clear()
        self._told[kind] = (now_s, 0)
        more = f", and {untold} more since the last line" if untold else ""
        text = "refused %s %s (%s): %s (%d)%s"
        _LOG.info(text, method, route, self._listener, error.code, error.http_status, more)
