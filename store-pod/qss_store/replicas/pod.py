"""A pod: its share of one store's assignment, as replicas on its volume.

The assignment is kept on the volume, with its store id: a pod that restarts serves its partitions
without the operator, and never serves the volume of another store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from qss_client.clock import Clock
from qss_core.errors import NotReadyError
from qss_core.model import (
    PartitionConfiguration,
    PartitionId,
    PodName,
    StoreAssignment,
    StoreId,
)
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_store.replicas.assigned_replicas import AssignedReplicas
from qss_store.replicas.group_sync import GroupSync
from qss_store.replicas.opening.assignment_checks import check_retirement
from qss_store.replicas.opening.open_database import OpenEngine, Opening
from qss_store.replicas.opening.own_type import OwnType
from qss_store.replicas.opening.reopening import Reopening
from qss_store.replicas.opening.retirement import Retirement
from qss_store.replicas.opening.take_assignment import taking_definition
from qss_store.replicas.opening.take_out import TakingOut, close_replica
from qss_store.replicas.peers.send_signal import SendSignal
from qss_store.replicas.pod_context import PodConfig, PodContext
from qss_store.replicas.registry import Registry
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import ReportFeed, summary_of
from qss_store.replicas.views.decoded_rows import DecodedRows
from qss_store.replicas.views.uncommitted_memory import UncommittedMemory
from qss_store.replicas.volume.assignment_file import AssignmentFile
from qss_store.replicas.volume.kept_files import Volume
from qss_store.replicas.volume.promised_lease import PromisedLease
from qss_store.replicas.volume.sync_marks import SyncMarks
from qss_store.replicas.volume.volume_watch import VolumeWatch
from qss_store.replication.lease import Support
from qss_store.runtime.blocking import run_blocking
from qss_store.runtime.heavy_turns import HeavyTurns
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.request_memory import RequestMemory
from qss_store.storage.commit_rows.row_slices import SliceLimits, slice_limits
from qss_store.storage.index_keys import Indexing

_LOG = logging.getLogger(__name__)


class Pod:
    """One pod of one store."""

    def __init__(
        self,
        config: PodConfig,
        open_engine: OpenEngine,
        clock: Clock,
        metrics: Metrics,
        salvage_engine: OpenEngine | None = None,
    ) -> None:
        """Reads no file: `start` reads the volume."""
        settings, volume = config.settings, config.directory
        self.store = config.store
        self.ordinal = config.ordinal
        self.name = PodName(f"{self.store}-{self.ordinal}")
        self.clock = clock
        self.metrics = metrics
        self._file = AssignmentFile(volume)
        self.registry = Registry(self.store, self.ordinal, self._file, config.incarnation)
        self._unopened = self.registry.unopened
        self._reopening = Reopening(self._unopened, self._assign_again)
        self.own_type = OwnType(config.extensions)
        self._config = config
        self._volume = Volume(volume)
        self.room = VolumeWatch(volume, clock=clock)
        self._opening = Opening(self._volume, open_engine, salvage_engine, config.free_databases)
        self.report_feed = ReportFeed()
        self._assigning, self._gate = asyncio.Lock(), asyncio.Lock()
        self.recent = DecodedRows(settings.decoded_rows_bytes_max)
        most = settings.request_memory_bytes  # 0 where it is not set.
        self.request_memory = RequestMemory(most) if most else RequestMemory()
        self.turns = HeavyTurns(clock)
        self._uncommitted = UncommittedMemory(settings.uncommitted_rows_bytes_max)
        self.send_signal = SendSignal()
        self._promises: dict[PartitionId, Support] = {}
        self._promised_lease = PromisedLease(volume)
        self._syncs = GroupSync()
        replicas, goes_on = self.registry.replicas, self._opening.has_gone_on
        self.marks = SyncMarks(
            self._volume, self._syncs, replicas, goes_on, self.registry.is_the_data
        )
        reopen = self._reopening.begin
        self.taking_out = TakingOut(
            replicas, self._assigning, self._unopened, self.marks, self.report_feed, reopen
        )
        self._retirement = Retirement(
            replicas, self._unopened, self._opening, self.marks, self._volume
        )
        self._replicas = AssignedReplicas(
            self.registry, self._opening, self._reopening, self._retirement, self._opened
        )
        self.has_opened = False  # Whether it has tried to open all replicas of its assignment.
        self.rows_to_move = asyncio.Event()  # Set when rows may be in older formats.

    # --- Life

    def remember(self) -> None:
        """Reads the assignment on the volume: the pod knows its store before it listens.

        After an unreadable assignment the pod has none. It takes another one only after a person
        accepted the loss of one of its partitions.
        """
        kept = self._file.remember()
        if kept is not None:
            self._retirement.expect(kept, self.ordinal)
            self._remember_marks(kept.definition.store_id)
            self.own_type.remember(kept.definition)

    def _remember_marks(self, store_id: StoreId) -> None:
        marks = self._volume.marks(store_id)
        self._opening.marks = marks
        self.marks.begin(marks)

    async def start(self, *, compares: bool = False) -> None:
        """Serves the partitions of the volume; a pod that `compares`, when it `is_compared`."""
        self.remember()
        self.registry.is_of_resource = self._file.is_of(self._config.resource_uid)
        await run_blocking(self._volume.remove_copies)
        self.registry.is_compared = not compares or self.registry.assignment is None
        async with self._assigning:
            held = self.registry.assignment  # The operator may have sent a newer one meanwhile.
            if held is not None:
                await self._assign(held)
            if self._corrects_schema():
                await self._assign(self.registry.placed())
        self.has_opened = True

    async def keep_sync_marks(self) -> None:
        await self._file.wait()
        await self.marks.run(self.registry.placed().definition.store_id)

    async def close(self) -> None:
        self._reopening.close()
        async with self._assigning:
            self.has_opened = False
            held = self.registry.assignment
            await self.marks.close(held.definition.store_id if held else None)
            self.taking_out.close()
            for replica in self.registry.replicas.values():
                await close_replica(replica)
            self.registry.replicas.clear()
        self._syncs.close()

    # --- Assignment

    async def assign(
        self, assignment: StoreAssignment, *, is_emptied: bool = False
    ) -> ReplicasReport:
        """Takes this pod's part of an assignment.

        Partitions that an `is_emptied` volume lacks are lost; its other partitions are served after
        a comparison with the other pods. Raises StaleEpochError, WrongStoreError, CorruptionError
        for an unreadable kept assignment, and StoreTypeRefusedError for an own type that fails.
        """
        is_busy = self._assigning.locked() and self.has_opened  # With an assignment or a copy.
        if is_busy and self.registry.take_epochs(assignment, self._config):
            await self._tell()
        async with self._assigning:
            # A pod of learners alone has no entry that the replicas in sync lack.
            counts = any(self.ordinal in one.in_sync for one in assignment.partitions)
            if self._file.unreadable is not None and counts and not is_emptied:
                raise self._file.unreadable.once_more()
            self._corrects_schema()
            held, has_opened = self.registry.assignment, self.has_opened
            assignment = self.registry.checked(assignment, self._config, has_opened=has_opened)
            if held is None:
                self._remember_marks(assignment.definition.store_id)
                self.registry.is_compared = not is_emptied
            self.own_type.take(assignment.definition)
            await self._assign(assignment, is_emptied=is_emptied)
            self.registry.is_of_resource = True
            self._file.keep_resource(self._config.resource_uid)
        self.has_opened = True
        return self.report()

    async def _tell(self) -> None:
        """Wakes the senders, and tells the operator that the report has changed."""
        self.send_signal.assigned()
        await self.report_feed.tell()

    async def _assign(self, assignment: StoreAssignment, *, is_emptied: bool = False) -> None:
        changed = assignment != self.registry.assignment
        for configuration in self.registry.open_first(assignment.partitions):
            was_here = is_emptied and self.ordinal in configuration.in_sync
            changed |= await self._replicas.open(assignment, configuration, was_here=was_here)
        if changed:
            await self._take(assignment)
            _LOG.info("took an assignment: %s", summary_of(assignment, self.ordinal))
            await self._tell()

    def _corrects_schema(self) -> bool:
        """Takes the schema of databases that all refused the assignment's; False where none did."""
        if self.registry.replicas or not self._file.correct_schema():
            return False
        self.own_type.remake(self.registry.placed().definition)
        return True

    async def _take(self, assignment: StoreAssignment) -> None:
        """Keeps an assignment; readers and all replicas take its definition at the same moment."""
        replicas = list(self.registry.replicas.values())
        try:
            async with taking_definition(replicas, assignment.definition):
                self._file.keep(assignment)
        finally:  # A definition that was prepared and not taken leaves empty families.
            self.rows_to_move.set()

    async def _assign_again(self) -> None:
        """Opens the partitions that wait to be opened."""
        async with self._assigning:
            held = self.registry.placed()
            ones = [one for one in held.partitions if one.partition in self._unopened.waiting]
            if any([await self._replicas.open(held, one, was_here=True) for one in ones]):
                await self._take(held)
                await self._tell()

    async def retire(self, request: RetireRequest) -> None:
        """Deletes a replica that its partition's configuration leaves out; a repeat does nothing.

        Raises WrongStoreError, and StaleEpochError unless the pod holds that epoch, without a role.
        """
        async with self._assigning:
            self.registry.check_store_id(request.store_id)
            held = self.registry.configuration(request.partition)
            kept = self.registry.placed().partitions[request.partition]
            check_retirement(request, held, kept, self.ordinal)
            await self._retirement.retire(request.store_id, request.partition)
        await self.report_feed.tell()

    async def salvage(
        self, partition: PartitionId, take: Callable[[Replica], Awaitable[None]]
    ) -> None:
        """Opens a lost partition with the data that is left, and serves it if `take` succeeds.

        Raises NotReadyError where the partition is not lost, or the pod is opening it.
        """
        async with self._assigning:
            assignment = self.registry.placed()
            if not (self.has_opened and self._unopened.is_lost(partition)):
                raise NotReadyError(f"partition {partition} is not lost, or is being opened now")
            configuration = assignment.partitions[partition]
            self.registry.replicas[partition] = await self._opening.salvage(
                partition,
                lambda: self._opened_alone(assignment, configuration),
                take,
                is_unwritable=self._unopened.is_unwritable(partition),
            )
            self._unopened.opened(partition)
            await self.marks.renew(assignment.definition.store_id, partition)
        self.send_signal.assigned()

    async def _opened_alone(
        self, assignment: StoreAssignment, configuration: PartitionConfiguration
    ) -> Replica:
        """A partition whose loss a person accepted: it acts by itself if no other is in sync."""
        replica = await self._opened(assignment, configuration, was_here=False)
        replica.acting.act_alone()
        return replica

    async def install(
        self, configuration: PartitionConfiguration, copied: Path, before: object
    ) -> None:
        """Serves a learner from a copy of its active's database, in place of its own one.

        `configuration` and `before` are those with which the copy began. Raises StaleEpochError as
        `Registry.check_copied`.
        """
        partition = configuration.partition
        async with self._assigning:
            configuration = self.registry.check_copied(configuration, before)
            is_damaged = partition in self._unopened.partitions
            replica = self.registry.replicas.get(partition)
            if replica is not None:
                is_damaged |= replica.health.has_failed or replica.health.damage is not None
                await self.taking_out.close_now(partition, replica)
                del replica
            assignment = self.registry.placed()
            try:
                await self._opening.install(
                    configuration, copied, self.ordinal, is_damaged=is_damaged
                )
                opened = await self._opened(assignment, configuration, was_here=False)
            except BaseException:
                self._reopening.begin()
                raise
            self.registry.replicas[partition] = opened
            self._unopened.opened(partition)
            await self.marks.renew(assignment.definition.store_id, partition)
        await self._tell()
        _LOG.info("partition %s follows its active from a copy of its database", partition)

    async def _opened(
        self,
        assignment: StoreAssignment,
        configuration: PartitionConfiguration,
        *,
        was_here: bool,
    ) -> Replica:
        """A partition's replica, started; raises as `Opening.start`."""
        context = PodContext(
            incarnation=self._config.incarnation,
            pod=self.ordinal,
            clock=self.clock,
            syncs=self._syncs,
            gate=self._gate,
            metrics=self.metrics,
            settings=assignment.settings,
            recent=self.recent,
            uncommitted=self._uncommitted,
            take_out=self.taking_out.begin,
            slices=self.slices,
            promises=self._promises,
            lease=self._promised_lease,
            send=self.send_signal.wake,
            indexing=self.own_type.indexing,
            refusal=self.own_type.refusal,
        )
        return await self._opening.start(
            assignment.definition, configuration, context, was_here=was_here
        )

    # --- State

    @property
    def indexing(self) -> Indexing | None:
        """The indexes of the store's own type; None before it is known, and for other types."""
        return self.own_type.indexing

    @property
    def slices(self) -> SliceLimits:
        """The largest slices of a commit's rows."""
        return slice_limits(self._config.settings, is_indexed=self.indexing is not None)

    @property
    def is_ready(self) -> bool:
        """Whether the pod serves all its replicas, as `Registry.is_ready` says."""
        return self.registry.is_of_resource and self.registry.is_ready(self.ordinal)

    def report(self) -> ReplicasReport:
        """The report for the operator."""
        return self.registry.report(self._config, self.room, self.report_feed)
