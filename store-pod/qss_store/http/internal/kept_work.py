"""Work of a request that goes on to its end, also where the client goes away.

The server cancels the handler of a client that goes. That would cut an assignment, a retirement, an
acceptance or a snapshot in the middle: their threads cannot be stopped, and go on after the locks
were released that keep the next request out.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiohttp import web

from qss_core.errors import OverloadedError

Result = TypeVar("Result")

_AT_ONCE_MAX = 256  # The operator asks again for work that hangs: each request would be kept.
_END_MAX_S = 5.0  # Half of what `qss up` grants a pod that stops: it closes its databases, too.


class KeptWork:
    """The work that is under way, of requests whose clients may be gone."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work; a cancelled caller leaves the work running.

        Raises OverloadedError while 256 earlier requests are under way.
        """
        if len(self._tasks) >= _AT_ONCE_MAX:
            work.close()
            raise OverloadedError(
                f"{_AT_ONCE_MAX} earlier requests of the operator and of learners have not ended: "
                "look at the pod's volume, and send again later"
            )
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def end(self, _: web.Application) -> None:
        """Waits until the work has ended, for five seconds at most; for `on_cleanup`."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_MAX_S)
        left = [*self._tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # The client has got it, or has gone.
