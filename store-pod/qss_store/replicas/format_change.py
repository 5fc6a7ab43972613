"""How a replica's rows come to be in another format: prepared, taken, and moved a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from qss_core.model import StoreDefinition
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.storage.commit_rows.commit_writer import drop_families
from qss_store.storage.engine import Engine
from qss_store.storage.format_migration import Migration, Step


class FormatChange:
    """Holds `changing` while it works: no commit writes rows meanwhile."""

    def __init__(
        self,
        engine: Engine,
        migration: Migration,
        views: ViewMaker,
        changing: asyncio.Lock,
        sync: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._migration = migration
        self._views = views
        self._changing = changing
        self._sync = sync

    @asynccontextmanager
    async def redefining(self, definition: StoreDefinition) -> AsyncIterator[None]:
        """Prepares another definition on the disk; inside, `redefine` may be called.

        DiskFullError: nothing has changed for readers and writers, and the disk serves both.
        """
        async with self._changing:
            self._migration.prepare(definition, self._views.families_of(definition))
            await self._sync()
            yield

    def redefine(self, definition: StoreDefinition) -> None:
        """From now on rows are written and shown in another format, those that are there too."""
        assert self._changing.locked(), "`redefining` prepares it"
        self._views.definition = definition
        self._views.show_again()

    async def move_rows(self, rows_max: int) -> Step | None:
        """Moves rows out of an older format, so many at most; None where none is left.

        Answers stay what they are, so the position stays. Raises StoreError where it cannot go on.
        """
        async with self._changing:
            families, view = self._views.families, self._views.view
            step = self._migration.step(view.snapshot, families, rows_max) if view else None
            if step and step.emptied:
                # The drop is durable at once, so what was moved has to be so before.
                await self._sync()
                await drop_families(self._engine, [step.emptied])
                self._migration.finish(families)
            if step:
                # What is held as it was takes memory and disk, and is read less quickly.
                self._views.show_again()
            return step
