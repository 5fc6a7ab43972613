"""Opens partitions again that wait for disk space, file handles or memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from qss_core.errors import StoreError
from qss_store.replicas.opening.unopened_partitions import Unopened

_LOG = logging.getLogger(__name__)
_AGAIN_S = 1.0


class Reopening:
    """Tries to open one pod's waiting partitions until none is left."""

    def __init__(self, unopened: Unopened, assign: Callable[[], Awaitable[None]]) -> None:
        """`assign` tries to open all waiting partitions."""
        self._unopened = unopened
        self._assign = assign
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts to try, if partitions wait."""
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
                pass  # The pod's report has the reasons.
            except Exception:  # noqa: BLE001 the loop tries again.
                _LOG.exception("waiting partitions could not be opened")
