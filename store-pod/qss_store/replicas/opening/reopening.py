"""Opens partitions again that wait for something that comes back: room, files, memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from qss_core.errors import StoreError
from qss_store.replicas.opening.unopened import Unopened

_LOG = logging.getLogger(__name__)
_AGAIN_S = 1.0


class Reopening:
    """One pod's tries, while there are partitions that wait."""

    def __init__(self, unopened: Unopened, assign: Callable[[], Awaitable[None]]) -> None:
        """`assign` has the pod take its assignment again."""
        self._unopened = unopened
        self._assign = assign
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Tries soon, and until nobody waits."""
        if self._unopened.waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="reopen")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._unopened.waiting:
            await asyncio.sleep(_AGAIN_S)
            try:
                await self._assign()
            except StoreError:
                pass  # The partitions that wait say why.
            except Exception:  # noqa: BLE001 the tries go on: said and logged.
                _LOG.exception("partitions that wait could not be opened")
