"""Changes the format of a replica's rows: prepares it, takes it, and moves rows a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from qss_core.errors import DiskFullError
from qss_core.model import StoreDefinition
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.storage.commit_rows.commit_writer import drop_families
from qss_store.storage.engine import Engine
from qss_store.storage.format_migration import Migration, Step


class RowLock(asyncio.Lock):
    """Held by a commit from its first row until readers see it, and by the code that moves rows.

    A commit that waits for space releases it, since an assignment must not wait as long. Until the
    commit goes on, the live families have a part of its rows, and nobody else may show them.
    """

    def __init__(self) -> None:
        """Nobody holds it, and no commit has begun."""
        super().__init__()
        self._is_in_commit = False

    @asynccontextmanager
    async def of_commit(self) -> AsyncIterator[None]:
        """The lock for a commit; one that ends with an error has to be tried again."""
        async with self:
            self._is_in_commit = True
            yield
            self._is_in_commit = False

    @asynccontextmanager
    async def of_format(self) -> AsyncIterator[None]:
        """The lock for other changes of rows. Raises DiskFullError inside a commit that waits."""
        async with self:
            if self._is_in_commit:
                raise DiskFullError(
                    "the volume is full, and a commit waits for space in its middle"
                )
            yield


class FormatChange:
    """Holds the lock `changing` while it works, so that no commit writes rows meanwhile."""

    def __init__(
        self,
        engine: Engine,
        migration: Migration,
        views: ViewMaker,
        changing: RowLock,
        sync: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._migration = migration
        self._views = views
        self._changing = changing
        self._sync = sync

    @asynccontextmanager
    async def redefining(self, definition: StoreDefinition) -> AsyncIterator[None]:
        """Prepares another definition on the disk; call `redefine` inside the context.

        Raises DiskFullError, also where a commit waits for space: then the old definition stays in
        force, and the disk fits the old definition and the new one.
        """
        async with self._changing.of_format():
            self._migration.prepare(definition, self._views.families_of(definition))
            await self._sync()
            yield

    def redefine(self, definition: StoreDefinition) -> None:
        """Takes the definition: new rows are written, and all rows are shown, in its format."""
        assert self._changing.locked(), "`redefining` prepares it"
        self._views.definition = definition
        self._views.show_again()

    async def move_rows(self, rows_max: int) -> Step | None:
        """Moves at most `rows_max` rows out of an older format; None where no such row is left.

        Answers stay the same, so the position stays. Raises StoreError where a row cannot be moved,
        and DiskFullError where a commit waits for space.
        """
        async with self._changing.of_format():
            families, view = self._views.families, self._views.view
            step = self._migration.step(view.snapshot, families, rows_max) if view else None
            if step and step.emptied:
                # The drop is durable at once, so the moved rows have to be durable before.
                await self._sync()
                await drop_families(self._engine, [step.emptied])
                self._migration.finish(families)
            if step:
                # Readers get a new view: a snapshot of the old state keeps moved rows in memory and
                # on disk, and is slower to read.
                self._views.show_again()
            return step
