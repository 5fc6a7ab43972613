"""The state that readers of one replica see, and those who wait for a newer one."""

import asyncio
from collections.abc import Callable

from qss_core.errors import NotReadyError, StoreError
from qss_core.model import Sequence
from qss_store.storage.views.read_view import ReadView


class CurrentView:
    def __init__(self) -> None:
        self.view: ReadView | None = None
        self._waiting: set[asyncio.Event] = set()
        self._is_closed = False

    def put(self, view: ReadView) -> None:
        """Puts readers on another view."""
        shown, self.view = self.view, view
        if shown:
            shown.snapshot.close()
        self.wake()

    def wake(self) -> None:
        """Lets those who wait look again."""
        for waiting in self._waiting:
            waiting.set()

    async def reaches(self, sequence: Sequence, failure: Callable[[], StoreError | None]) -> None:
        """Waits until that batch is shown.

        Raises the failure that there is meanwhile, and NotReadyError where nothing will be shown.
        """
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            while self.view is None or self.view.sequence < sequence:
                if stopped := failure():
                    raise stopped
                if self._is_closed:
                    raise NotReadyError("the pod is stopping: ask again")
                await changed.wait()
                changed.clear()
        finally:
            self._waiting.discard(changed)

    def close(self) -> None:
        """Nothing is shown any more, and nobody waits for it."""
        self._is_closed = True
        if self.view:
            self.view.snapshot.close()
            self.view = None
        self.wake()
