"""An API server with one store's resource: compare-and-set, lost answers, stale reads, outages."""

import asyncio
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251 seeded by the story.

from qss_core.errors import UnreachableError
from qss_core.model import StoreName
from qss_core.spec.resource import StoreSpec
from qss_operator.errors import ConflictError
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_simulation.parts.trace import Trace
from qss_simulation.parts.transitions import transitions


@dataclass(slots=True)
class ApiFaults:
    """The chances of each request."""

    is_away: bool = False
    refuses: bool = False
    lost_answer: float = 0.0
    stale_read: float = 0.0

    def heal(self) -> None:
        """Answers everything from now on."""
        self.is_away = self.refuses = False
        self.lost_answer = self.stale_read = 0.0


class ApiServer:
    """The stored resource, and what it was before; the port Resources."""

    def __init__(self, resource: StoreResource, random: Random, trace: Trace) -> None:
        self.faults = ApiFaults()
        self._versions: list[StoreResource] = [resource]
        self._is_deleted = False
        self._random = random
        self._trace = trace

    @property
    def resource(self) -> StoreResource:
        """The resource as it is now."""
        return self._versions[-1]

    def edit(self, spec: StoreSpec) -> None:
        """A person changes the spec."""
        generation = self.resource.generation + 1
        self._store(replace(self.resource, generation=generation, spec=spec))

    def edit_status(self, status: StoreStatus | None) -> None:
        """Somebody else writes the status."""
        self._store(replace(self.resource, status=status))

    def annotate(self, accept_data_loss: str) -> None:
        """A person accepts the losses that the annotation names."""
        self._store(replace(self.resource, accept_data_loss=accept_data_loss))

    def delete(self) -> None:
        """A person deletes the store."""
        self._is_deleted = True

    def make_again(self, uid: str) -> None:
        """Somebody makes a store of the same name; no read shows the deleted one any more."""
        version = f"{uid}-1"
        made = replace(self.resource, uid=uid, generation=1, version=version, status=None)
        self._versions = [replace(made, accept_data_loss=None)]
        self._is_deleted = False

    async def read(self, store: StoreName) -> StoreResource | None:
        """The resource, or an older one from another server's cache."""
        await self._take_time()
        assert store == self.resource.name
        if self._is_deleted:
            return None
        if self._random.random() < self.faults.stale_read:
            self._trace.note("stale-read")
            return self._random.choice(self._versions[-3:])
        return self.resource

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        """Replaces the status. Raises ConflictError, and UnreachableError after a lost answer."""
        await self._take_time()
        if self.faults.refuses:
            raise ConflictError("another one changes the resource again and again")
        if self._is_deleted or resource.version != self.resource.version:
            raise ConflictError("the resource was changed meanwhile")
        self._store(replace(self.resource, status=status))
        self._trace.note("publish", self.resource.version)
        if self._random.random() < self.faults.lost_answer:
            self._trace.note("lost-publish")
            raise UnreachableError("the API server's answer was lost")

    def restore_status(self, steps: int) -> None:
        """Somebody restores the status of so many versions ago, as from a backup."""
        self.edit_status(self._versions[-1 - min(steps, len(self._versions) - 1)].status)

    def _store(self, resource: StoreResource) -> None:
        for what, detail in transitions(self.resource, resource):
            self._trace.note(what, detail)
        self._versions.append(
            replace(resource, version=f"{resource.uid}-{len(self._versions) + 1}")
        )

    async def _take_time(self) -> None:
        await asyncio.sleep(self._random.expovariate(1 / 0.005))
        if self.faults.is_away:
            raise UnreachableError("the API server does not answer")
