"""Warns of slow answers in a client without an event loop.

One thread watches all requests of a client, and ends after a while without requests. A request
costs two entries in a dictionary, and no timer.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from qss_client.http.wait_warnings import WaitWarnings, WarnedWait

_LOG = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.25
_IDLE_LOOKS_MAX = 20


class SlowAnswers:
    """The waiting requests of one client, at most one per thread."""

    def __init__(self) -> None:
        self._awaited: dict[int, WarnedWait] = {}
        self._watcher: threading.Thread | None = None
        self._lock = threading.Lock()

    @contextmanager
    def watched(
        self, asked: str, timeout_s: float, telling: WaitWarnings | None = None
    ) -> Iterator[None]:
        """Warns if the block takes long; `telling` has the wait of the whole operation."""
        now_s = time.monotonic()
        thread = threading.get_ident()
        self._awaited[thread] = WarnedWait(
            telling or WaitWarnings.begun(now_s), asked, now_s + timeout_s
        )
        if self._watcher is None:
            self._start()
        try:
            yield
        finally:
            del self._awaited[thread]

    def _start(self) -> None:
        with self._lock:
            if self._watcher is None:
                watcher = threading.Thread(target=self._watch, name="qss-answers", daemon=True)
                self._watcher = watcher
                watcher.start()

    def _watch(self) -> None:
        idle_looks = 0
        clock = threading.Event()
        while not clock.wait(_LOOK_EVERY_S):
            now_s = time.monotonic()
            awaited = self._awaited.copy()
            for one in awaited.values():
                if one.telling.take_if_due(now_s):
                    _LOG.warning("%s", one.words(now_s))
            idle_looks = 0 if awaited else idle_looks + 1
            if idle_looks > _IDLE_LOOKS_MAX and self._is_over():
                return

    def _is_over(self) -> bool:
        """Whether the watcher may end; a later request starts another one."""
        with self._lock:
            self._watcher = None
            if self._awaited:  # A request came before, and saw the watcher.
                self._watcher = threading.current_thread()
            return self._watcher is None
