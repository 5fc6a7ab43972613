"""Makes the writes of many engines durable together.

On a quick disk a sync takes less time than its hand-over to a thread. So engines that need a sync
while others are being synced wait, and are then synced together, a few engines in each thread. On a
slow disk the threads still sync at the same time.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from qss_store.runtime.blocking import run_blocking_in
from qss_store.storage.engine import Engine

_THREADS = 4
_ENGINES_A_THREAD = 4


@dataclass(frozen=True, slots=True)
class _Wish:
    engine: Engine
    done: "asyncio.Future[None]"


class GroupSync:
    """The syncs of a pod's replicas."""

    def __init__(self) -> None:
        """Starts no thread before the first sync."""
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._wishes: list[_Wish] = []
        self._task: asyncio.Task[None] | None = None
        self.has_synced = asyncio.Event()  # Set at each sync, cleared by the object that marks it.

    async def sync(self, engine: Engine) -> None:
        """Returns when all earlier writes of the engine are durable; raises as `Engine.sync`."""
        done = asyncio.get_running_loop().create_future()
        self._wishes.append(_Wish(engine, done))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="syncs")
        await done

    def close(self) -> None:
        """Waits for the syncs that run in threads."""
        self._executor.shutdown()

    async def _run(self) -> None:
        try:
            while self._wishes:
                wishes, self._wishes = self._wishes, []
                threads = min(_THREADS, -(-len(wishes) // _ENGINES_A_THREAD))
                # Each thread tells its failures to the callers that wait, so none is lost.
                await asyncio.gather(*(self._fulfil(wishes[n::threads]) for n in range(threads)))
        finally:
            self._task = None

    async def _fulfil(self, wishes: Sequence[_Wish]) -> None:
        engines = [wish.engine for wish in wishes]
        try:
            failures = await run_blocking_in(self._executor, partial(_sync_all, engines))
        except Exception as error:  # noqa: BLE001 no thread: the callers that wait get the error.
            failures = [error] * len(wishes)
        self.has_synced.set()
        for wish, failure in zip(wishes, failures, strict=True):
            if wish.done.done():
                continue  # The caller was cancelled.
            if failure is None:
                wish.done.set_result(None)
            else:
                wish.done.set_exception(failure)


def _sync_all(engines: Sequence[Engine]) -> list[BaseException | None]:
    return [_sync(engine) for engine in engines]


def _sync(engine: Engine) -> BaseException | None:
    try:
        engine.sync()
    except BaseException as error:  # noqa: BLE001 the waiting caller of this engine raises it.
        return error
    return None
