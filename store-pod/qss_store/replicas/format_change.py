"""Changes the format of a replica's rows: prepares it, takes it, and moves rows a few at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qss_core.model import StoreDefinition
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.storage.commit_rows.commit_writer import drop_families
from qss_store.storage.format_migration import MovedRows


class FormatChange:
    """Holds the lock `changing` while it works, so that no commit writes rows meanwhile."""

    def __init__(self, parts: ReplicaParts) -> None:
        self._parts = parts
        self._migration = parts.migration
        self._views = parts.views

    @asynccontextmanager
    async def redefining(self, definition: StoreDefinition) -> AsyncIterator[None]:
        """Prepares another definition on the disk; call `redefine` inside the context.

        Raises DiskFullError, also where a commit waits for space: then the old definition stays in
        force, and the disk fits the old definition and the new one.
        """
        async with self._parts.changing.of_format():
            self._migration.prepare(definition, self._views.families_of(definition))
            await self._parts.changelog.sync()
            yield

    def redefine(self, definition: StoreDefinition) -> None:
        """Takes the definition: new rows are written, and all rows are shown, in its format."""
        assert self._parts.changing.locked(), "`redefining` prepares it"
        self._views.definition = definition
        self._views.show_again()

    async def move_rows(self, rows_max: int) -> MovedRows | None:
        """Moves at most `rows_max` rows out of an older format; None where no such row is left.

        Answers stay the same, so the position stays. Raises StoreError where a row cannot be moved,
        and DiskFullError where a commit waits for space.
        """
        async with self._parts.changing.of_format():
            families, view = self._views.families, self._views.view
            step = self._migration.step(view.rows, families, rows_max) if view else None
            if step and step.emptied:
                # The drop is durable at once, so the moved rows have to be durable before.
                await self._parts.changelog.sync()
                await drop_families(self._parts.engine, [step.emptied])
                self._migration.finish(families)
            if step:
                # Readers get a new view: a view of the old state keeps moved rows in memory and
                # on disk, and is slower to read.
                self._views.show_again()
            return step
