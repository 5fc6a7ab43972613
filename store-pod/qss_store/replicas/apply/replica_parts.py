"""The parts that a replica shares with its recovery and its apply loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from qss_core.errors import StoreError
from qss_core.model import Offset, PartitionConfiguration, StoreDefinition
from qss_store.replicas.apply.catch_up import CatchUp
from qss_store.replicas.apply.dropped_rows import DroppedRows
from qss_store.replicas.apply.pending_entries import PendingEntries
from qss_store.replicas.apply.replica_health import ReplicaHealth
from qss_store.replicas.apply.row_lock import RowLock
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.pod_context import PodContext
from qss_store.replicas.views.current_view import CurrentView
from qss_store.replicas.views.decoded_rows import DecodedEntries
from qss_store.replicas.views.uncommitted import UncommittedRows
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.storage.commit_rows.index_build import IndexBuild
from qss_store.storage.engine import META, Engine
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.format_migration import Migration
from qss_store.storage.replica_identity import (
    is_kept,
    kept_configuration,
    newest_configuration,
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
    catch_up: CatchUp
    machine: Machine
    migration: Migration
    index_build: IndexBuild
    recent: DecodedEntries
    pending: PendingEntries
    current_view: CurrentView
    views: ViewMaker
    uncommitted: UncommittedRows
    dropped: DroppedRows[int]
    health: ReplicaHealth
    wake: asyncio.Event  # Set when the apply loop has work to do.
    changing: RowLock

    @classmethod
    def load(
        cls,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        engine: Engine,
        context: PodContext,
        refusal: Callable[[], StoreError | None],
    ) -> "ReplicaParts":
        """The parts of a replica as its database has them; `refusal` ends the waits of readers."""
        meta = dict(engine.scan(META))
        kept = kept_configuration(meta)
        configuration = newest_configuration(meta, definition, configuration, context.pod)
        partition = configuration.partition
        machine, migration = Machine.load(partition, meta), Migration(engine, meta)
        current_view, generation = CurrentView(refusal), machine.participant.data_generation
        views = ViewMaker(definition, current_view, engine, migration, context.indexing, generation)
        changelog = Changelog(
            engine, context.pod, configuration, meta, context.clock, context.syncs
        )
        recent, wake = DecodedEntries(context.recent), asyncio.Event()
        return cls(
            context=context,
            engine=engine,
            changelog=changelog,
            catch_up=CatchUp(meta, changelog.log, kept, context.incarnation, context.clock),
            machine=machine,
            migration=migration,
            index_build=IndexBuild(engine, meta, partition, context.slices),
            recent=recent,
            pending=PendingEntries(changelog, recent, wake, context.send),
            current_view=current_view,
            views=views,
            uncommitted=UncommittedRows(
                machine, views, engine, recent.peek, context.uncommitted, context.slices
            ),
            dropped=DroppedRows[int](),
            health=ReplicaHealth(partition, engine, meta),
            wake=wake,
            changing=RowLock(),
        )

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
        self.catch_up.put(batch)
        put_definition(batch, self.views.definition)
        put_database_id(batch, self.engine)
        self.migration.keep_only(batch, self.views.families)
        self.engine.write(batch)
        self.changelog.written_epoch = configuration.epoch
