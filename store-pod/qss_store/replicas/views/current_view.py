"""Publishes the state that readers of one replica see, and wakes requests that wait for it."""

import asyncio
from collections.abc import Callable

from qss_core.errors import NotReadyError, StoreError
from qss_core.model import Sequence
from qss_store.storage.views.read_view import ReadView


class CurrentView:
    def __init__(self, refusal: Callable[[], StoreError | None]) -> None:
        """`refusal` returns the error that waiting requests get; None while they may wait."""
        self._refusal = refusal
        self.view: ReadView | None = None
        self._waiting: dict[asyncio.Event, None] = {}  # The first that came is woken first.
        self._is_closed = False

    def put(self, view: ReadView) -> None:
        """Publishes another view, and closes the view before."""
        shown, self.view = self.view, view
        if shown:
            shown.rows.close()
        self.wake()

    def wake(self) -> None:
        """Has the requests that wait look again."""
        for waiting in self._waiting:
            waiting.set()

    async def reaches(self, sequence: Sequence) -> None:
        """Waits until readers see that batch.

        Raises the replica's refusal, and NotReadyError where the replica is closed.
        """
        changed = asyncio.Event()
        self._waiting[changed] = None
        try:
            while self.view is None or self.view.sequence < sequence:
                if refusal := self._refusal():
                    raise refusal
                if self._is_closed:
                    raise NotReadyError("the pod is stopping: try again")
                await changed.wait()
                changed.clear()
        finally:
            del self._waiting[changed]

    def close(self) -> None:
        """Closes the view, and ends all waits."""
        self._is_closed = True
        if self.view:
            self.view.rows.close()
            self.view = None
        self.wake()
