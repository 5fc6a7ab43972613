"""Keeps the stored resources and their status in files (the port Resources).

The process that holds the state directory's lock is the only writer of the status. Commands replace
the resource's file; the next read takes a replaced file over.

Files are read and written by `asyncio.to_thread`: `run_blocking` is the port of pods, whose loop
tests replace, and the operator does not import the pod.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Any

from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_operator.errors import ConflictError, InvalidResourceError
from qss_operator.local.directory.edit_lock import editing
from qss_operator.local.directory.state import FileVersion, StateDirectory
from qss_operator.local.directory.volumes import refuse_other_data
from qss_operator.local.prepare import resource_of
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_operator.resources.validation import validate_resource

logger = logging.getLogger(__name__)
_ON_ITS_WAY_S = 1.0  # `rm -r` has deleted a folder within it.


class LocalResources:
    def __init__(self, state: StateDirectory, resources: list[StoreResource]) -> None:
        """Begins with resources that were just stored; the caller holds the lock for edits."""
        self._state = state
        self._resources = {resource.name: resource for resource in resources}
        self._stored = {name: state.read_resource(name) for name in self._resources}
        # The rules of the CRD are evaluated by one thread at a time.
        self._taking = asyncio.Lock()
        # The version of each file that was taken over, or refused.
        self._seen = {name: state.resource_version(name) for name in self._resources}
        self._refused: dict[StoreName, str] = {}  # Why the file is not taken over.
        self._written: dict[StoreName, FileVersion | None] = {}  # The status as it was written.

    @property
    def names(self) -> tuple[StoreName, ...]:
        """The stores that this process runs."""
        return tuple(self._resources)

    def has_changed(self, store: StoreName) -> bool:
        """Whether the store's file changed since the last read."""
        return self._state.resource_version(store) != self._seen[store]

    async def read(self, store: StoreName) -> StoreResource | None:
        """The resource as it is stored now; where that is damaged, the last one that was valid."""
        if store in self._resources and self.has_changed(store):
            self._seen[store] = self._state.resource_version(store)
            try:
                async with self._taking:
                    await self._take_over(self._resources[store])
            except StoreError as error:
                logger.warning("%s goes on as before: %s", store, error)
                self._refused[store] = f"the store goes on as before: {error.message}"
            else:
                self._refused.pop(store, None)
        await self._mend_status(store)
        return self._resources.get(store)

    async def _mend_status(self, store: StoreName) -> None:
        """Writes the status again, where another program has changed its file or deleted it."""
        written = self._written.get(store)
        if written is None or self._state.status_version(store) == written:
            return
        current = self._resources[store]
        assert current.status is not None, "it was written"
        with suppress(StoreError):  # The next round tries again.
            await self._write(store, current.status)
            logger.info("%s: the status is written again: its file was changed", store)

    async def _write(self, store: StoreName, status: StoreStatus) -> None:
        """Writes the status; a cancelled caller waits until the write has ended.

        After a write that failed the file may have either status: it is not mended.
        """
        self._written.pop(store, None)
        writing = asyncio.ensure_future(asyncio.to_thread(self._state.write_status, store, status))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The thread cannot be stopped, and the next write must not overlap with it.
            await writing
            raise
        self._written[store] = self._state.status_version(store)

    def refusal(self, store: StoreName) -> str | None:
        """Why a person's edit of the store's file, or its deletion, is not carried out."""
        return self._refused.get(store)

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Replace the status; raises ConflictError if the resource changed since it was read."""
        current = self._resources[resource.name]
        if current.version != resource.version or self.has_changed(resource.name):
            raise ConflictError(f"{resource.name} changed since it was read")
        await self._write(resource.name, status)
        self._resources[resource.name] = replace(
            current, status=status, version=_next_version(current)
        )

    async def _take_over(self, current: StoreResource) -> None:
        """Keep the content of the replaced file; raises a StoreError if the file cannot be used."""
        stored = await asyncio.to_thread(self._state.read_resource, current.name)
        if stored is None:
            await self._write_again(current.name)
            return
        taken = await asyncio.to_thread(_valid, self._state, current.name, stored)
        if taken.uid != current.uid:
            raise InvalidResourceError("the stored resource is that of another store")
        self._stored[current.name] = stored
        self._resources[current.name] = replace(
            taken, status=current.status, version=_next_version(current)
        )
        logger.info("%s: the resource of generation %d is taken", taken.name, taken.generation)

    async def _write_again(self, store: StoreName) -> None:
        """Writes the stored resource again, which was deleted or emptied while the store runs.

        The folder may be on its way out as a whole: in a folder without a status nothing is made.
        """
        await asyncio.sleep(_ON_ITS_WAY_S)
        kept = self._stored[store]
        if kept is None or self._state.status_version(store) is None:
            raise InvalidResourceError(f"{self._state.resource_file(store)} was deleted")
        async with editing(self._state):
            if await asyncio.to_thread(self._state.read_resource, store) is not None:
                return  # A command has written it: the next round takes it over.
            await asyncio.to_thread(self._state.write_resource, store, kept)
            self._seen[store] = self._state.resource_version(store)
        logger.warning("%s: the stored resource was deleted, and is written again", store)


def _valid(state: StateDirectory, store: StoreName, stored: dict[str, Any]) -> StoreResource:
    """The stored resource; raises a StoreError if a person made it unusable."""
    resource = resource_of(validate_resource(stored), status=None)
    refuse_other_data(state, store, resource.spec, resource.uid)
    return resource


def _next_version(resource: StoreResource) -> str:
    return str(int(resource.version) + 1)
