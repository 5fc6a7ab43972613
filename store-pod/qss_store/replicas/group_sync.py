"""Makes the writes of many engines durable together.

A hand-over to a thread costs more than a sync on a quick disk, so engines that ask while others are
being synced wait for those and then go together, a few to a thread: on a slow disk the threads
still share what the disk does at once.
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
        """Nothing runs until the first wish."""
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._wishes: list[_Wish] = []
        self._task: asyncio.Task[None] | None = None
        self.has_synced = asyncio.Event()  # Set at each sync, cleared by the object that marks it.

    async def sync(self, engine: Engine) -> None:
        """Returns when all earlier writes of the engine are durable; raises what it raises."""
        done = asyncio.get_running_loop().create_future()
        self._wishes.append(_Wish(engine, done))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="syncs")
        await done

    def close(self) -> None:
        """Waits for what runs in threads."""
        self._executor.shutdown()

    async def _run(self) -> None:
        try:
            while self._wishes:
                wishes, self._wishes = self._wishes, []
                threads = min(_THREADS, -(-len(wishes) // _ENGINES_A_THREAD))
                await asyncio.gather(*(self._fulfil(wishes[n::threads]) for n in range(threads)))
        finally:
            self._task = None

    async def _fulfil(self, wishes: Sequence[_Wish]) -> None:
        engines = [wish.engine for wish in wishes]
        failures = await run_blocking_in(self._executor, partial(_sync_all, engines))
        self.has_synced.set()
        for wish, failure in zip(wishes, failures, strict=True):
            if wish.done.done():
                continue  # Whoever wished it is gone.
            if failure is None:
                wish.done.set_result(None)
            else:
                wish.done.set_exception(failure)


def _sync_all(engines: Sequence[Engine]) -> list[BaseException | None]:
    return [_sync(engine) for engine in engines]


def _sync(engine: Engine) -> BaseException | None:
    try:
        engine.sync()
    except BaseException as error:  # noqa: BLE001 it belongs to whoever waits for this engine.
        return error
    return None
