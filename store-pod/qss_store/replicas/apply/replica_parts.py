"""The parts that a replica shares with its recovery and its apply loop."""

import asyncio
from dataclasses import dataclass

from qss_core.model import Offset, PartitionConfiguration
from qss_store.replicas.apply.dropped_rows import DroppedRows
from qss_store.replicas.apply.pending_entries import PendingEntries
from qss_store.replicas.apply.replica_health import ReplicaHealth
from qss_store.replicas.changelog import Changelog
from qss_store.replicas.format_change import RowLock
from qss_store.replicas.pod_context import PodContext
from qss_store.replicas.views.decoded_rows import DecodedEntries
from qss_store.replicas.views.uncommitted import UncommittedRows
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.storage.commit_rows.index_build import IndexBuild
from qss_store.storage.engine import Engine
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.format_migration import Migration
from qss_store.storage.replica_identity import (
    is_kept,
    put_configuration,
    put_database_id,
    put_definition,
)
from qss_store.transactions.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaParts:
    """The parts of one replica; each part stays the same object."""

    context: PodContext
    engine: Engine
    changelog: Changelog
    machine: Machine
    migration: Migration
    index_build: IndexBuild
    recent: DecodedEntries
    pending: PendingEntries
    views: ViewMaker
    uncommitted: UncommittedRows
    dropped: DroppedRows[int]
    health: ReplicaHealth
    wake: asyncio.Event  # Set when the apply loop has work to do.
    changing: RowLock

    def families(self) -> ColumnFamilies:
        """The column families of the applied state."""
        return self.families_of(self.machine.participant.data_generation)

    def families_of(self, generation: int) -> ColumnFamilies:
        """The column families of one generation of the data."""
        return ColumnFamilies.of(self.views.definition, generation, self.context.indexing)

    def show_state(self, applied: Offset) -> None:
        """Publishes the state after all entries below the offset `applied`."""
        self.uncommitted.forget()
        self.views.show(self.machine.participant, applied)

    @property
    def is_configuration_kept(self) -> bool:
        """Whether the database has the current configuration and definition."""
        log = self.changelog.log
        return is_kept(self.engine, self.views.definition, log.configuration, log.pod)

    def write_configuration(self, configuration: PartitionConfiguration) -> None:
        """Writes the configuration and the definition into the database, not durably."""
        batch = self.engine.batch()
        put_configuration(batch, configuration, self.changelog.log.pod)
        put_definition(batch, self.views.definition)
        put_database_id(batch, self.engine)
        self.migration.keep_only(batch, self.views.families)
        self.engine.write(batch)
        self.changelog.written_epoch = configuration.epoch
