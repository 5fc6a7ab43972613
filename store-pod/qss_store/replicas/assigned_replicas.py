"""Opens the replicas that an assignment gives this pod; each one fails alone."""

from collections.abc import Awaitable
from typing import Protocol

from qss_core.errors import CorruptionError, StoreError
from qss_core.model import PartitionConfiguration, Role, StoreAssignment
from qss_store.replicas.opening.open_database import Opening
from qss_store.replicas.opening.reopening import Reopening
from qss_store.replicas.opening.retirement import Retirement
from qss_store.replicas.opening.take_assignment import take_configuration
from qss_store.replicas.registry import Registry
from qss_store.replicas.replica import Replica


class StartReplica(Protocol):
    """Starts a partition's replica; raises as `Opening.start`."""

    def __call__(
        self, assignment: StoreAssignment, configuration: PartitionConfiguration, *, was_here: bool
    ) -> Awaitable[Replica]: ...


class AssignedReplicas:
    """Brings the replicas of one pod to the configurations of an assignment."""

    def __init__(
        self,
        registry: Registry,
        opening: Opening,
        reopening: Reopening,
        retirement: Retirement,
        start: StartReplica,
    ) -> None:
        """The registry gets each replica that `start` has started."""
        self._ordinal = registry.ordinal
        self._registry = registry
        self._unopened = registry.unopened
        self._opening = opening
        self._reopening = reopening
        self._retirement = retirement
        self._start = start

    async def open(
        self, assignment: StoreAssignment, configuration: PartitionConfiguration, *, was_here: bool
    ) -> bool:
        """Opens a replica that the pod has, or that is left here.

        Returns whether the report changed.
        """
        partition = configuration.partition
        if configuration.role_of(self._ordinal) is not None:
            return await self._place(assignment, configuration, was_here=was_here)
        if (replica := self._registry.replicas.get(partition)) is not None:
            take_configuration(replica, assignment.settings, configuration)
        elif self._retirement.is_left(partition):
            opened = self._start(assignment, configuration, was_here=True)
            is_open = await self._retirement.open(partition, opened)
            self._reopening.begin()
            return is_open
        return self._retirement.forget_unmade(partition)

    async def _place(
        self, assignment: StoreAssignment, configuration: PartitionConfiguration, *, was_here: bool
    ) -> bool:
        partition = configuration.partition
        replica = self._registry.replicas.get(partition)
        if replica is not None:
            return take_configuration(replica, assignment.settings, configuration)
        if self._unopened.is_unwritable(partition):
            return False  # The database opens and takes no writes: `salvage` makes a new one.
        held = self._registry.assignment
        was_here |= (
            held is not None and held.partitions[partition].role_of(self._ordinal) is not None
        )
        is_learner = configuration.role_of(self._ordinal) is Role.LEARNER
        has_files = was_here or self._opening.has_files(partition)
        try:
            opened = await self._start(assignment, configuration, was_here=was_here)
        except StoreError as error:
            is_damage = has_files and type(error) is CorruptionError
            if not (was_here or is_learner or is_damage):
                raise
            # The operator sees that the replica is missing; the others are served.
            self._unopened.note(partition, error)
            self._reopening.begin()
            return False
        self._registry.replicas[partition] = opened
        self._unopened.opened(partition)
        return True
