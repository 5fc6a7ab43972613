"""Keeps the stored resources and their status in files (the port Resources).

The process that holds the state directory's lock is the only writer, so it reads each resource
once; the next `qss up` reads an edited file.
"""

import asyncio
from dataclasses import replace

from qss_core.model import StoreName
from qss_operator.errors import ConflictError
from qss_operator.local.directory.state import StateDirectory
from qss_operator.planning.model import StoreResource, StoreStatus


class LocalResources:
    def __init__(self, state: StateDirectory, resources: list[StoreResource]) -> None:
        self._state = state
        self._resources = {resource.name: resource for resource in resources}

    async def read(self, store: StoreName) -> StoreResource | None:
        return self._resources.get(store)

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Replace the status; raises ConflictError if the resource changed since it was read."""
        current = self._resources[resource.name]
        if current.version != resource.version:
            raise ConflictError(f"{resource.name} changed since it was read")
        writing = asyncio.ensure_future(
            asyncio.to_thread(self._state.write_status, resource.name, status)
        )
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # The thread cannot be stopped, and the next write must not overlap with it.
            await writing
            raise
        version = str(int(current.version) + 1)
        self._resources[resource.name] = replace(current, status=status, version=version)
