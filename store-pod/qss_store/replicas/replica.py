"""One partition's replica: the shell around its log, its state machine and its engine.

Entries are appended at once and in order, made durable together, and applied one after the other;
whoever appended gets the outcome of the apply. Readers look at `view`, which a commit replaces only
when its rows are durable.
"""

import asyncio
import logging
from contextlib import suppress

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_core.model import (
    Offset,
    PartitionConfiguration,
    PartitionId,
    Role,
    Sequence,
    StoreDefinition,
    StoreSettings,
)
from qss_store.replicas.changelog import Changelog
from qss_store.replicas.dropped_rows import DroppedRows
from qss_store.replicas.format_task import FormatChange
from qss_store.replicas.pending_entries import PendingEntries
from qss_store.replicas.pod_context import PodContext
from qss_store.replicas.views.current_view import CurrentView
from qss_store.replicas.views.decoded_rows import Batches, DecodedEntries
from qss_store.replicas.views.uncommitted import UncommittedRows
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.replication import log as logs
from qss_store.replication.entries import encode_offset
from qss_store.storage.apply.commit_writer import (
    APPLIED,
    APPLYING,
    CommitWriter,
    drop_families,
    put_or_delete,
)
from qss_store.storage.apply.index_build import IndexBuild
from qss_store.storage.column_families import ColumnFamilies
from qss_store.storage.engine import META, Batch, Engine, PassingError, shortage_of
from qss_store.storage.format_migration import Migration
from qss_store.storage.placement.rows import placing_of
from qss_store.storage.replica_identity import (
    is_kept,
    newest_configuration,
    put_configuration,
    put_definition,
)
from qss_store.storage.views.read_view import ReadView
from qss_store.transactions.commands import Command, Commit, LoggedCommand
from qss_store.transactions.machine import Machine, Outcome

_LOG = logging.getLogger(__name__)
_DISK_FULL_RETRY_S = 1.0


class Replica:
    """A replica. `view` is None until it serves; `failure` says why it does not."""

    def __init__(
        self,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        engine: Engine,
        surroundings: PodContext,
    ) -> None:
        """Takes what the engine holds; `start` finishes what was decided and serves."""
        self.engine = engine
        self.failure: StoreError | None = None
        self._surroundings = surroundings
        self._recent = DecodedEntries(surroundings.recent)
        self._is_open = self.is_recovered = False
        self._settled = asyncio.Event()  # It serves, or why it does not is known.
        self.settings: StoreSettings = surroundings.settings
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Held from a commit's first row until readers see it, by who moves rows, and by who says
        # in which format they are.
        self._changing = asyncio.Lock()
        meta = dict(engine.scan(META))
        configuration = newest_configuration(meta, definition, configuration, surroundings.pod)
        self.machine = Machine.load(configuration.partition, meta)
        self.migration = Migration(engine, meta)
        self.current_view = CurrentView()
        self.dropped = DroppedRows[int]()
        self._showing = ViewMaker(
            definition,
            self.current_view,
            engine,
            self.migration,
            surroundings.indexing,
            self.machine.participant.data_generation,
        )
        self.format_change = FormatChange(
            engine, self.migration, self._showing, self._changing, self._sync
        )
        limits = surroundings.limits
        self.index_build = IndexBuild(engine, meta, configuration.partition, limits)
        self.uncommitted = UncommittedRows(
            self, engine, self._recent.peek, surroundings.uncommitted, limits
        )
        self._changelog = Changelog(
            engine, surroundings.pod, configuration, meta, surroundings.clock
        )
        self.pending = PendingEntries(self._changelog, self._recent, self._wake)

    # --- Opening

    def _families_of(self, generation: int) -> ColumnFamilies:
        """Those of a generation of the data: a commit that replaces it begins another one."""
        return ColumnFamilies.of(self.definition, generation, self._surroundings.indexing)

    def shown_families(self) -> ColumnFamilies:
        """Those of the rows that readers see."""
        return self._showing.families

    async def start(self) -> None:
        """Finishes the commit that was being applied, applies the log's durable tail, serves.

        Returns as soon as more has to be waited for than the disk's usual work: a volume that is
        full, or indexes that are made anew. The replica goes on by itself then, and shows the state
        before the unfinished commit where that is whole. Raises CorruptionError where the database
        lacks something.
        """
        if self._surroundings.refusal:
            self.failure = self._surroundings.refusal
            return
        self._task = asyncio.create_task(self._run(), name=f"replica-{self.partition}")
        self._task.add_done_callback(lambda _: self._settled.set())
        await self._settled.wait()
        if self._task.done():
            self._task.result()
        if isinstance(self.failure, CorruptionError):
            raise self.failure

    async def _open(self) -> None:
        """Makes the database ready for rows; on a full disk it is called again."""
        families = self._families_of(self.machine.participant.data_generation)
        self.index_build.begin(families)
        if not is_kept(self.engine, self.definition, self.log.configuration, self.log.pod):
            self._write_configuration()
        await self._sync()  # What goes now is not needed by any state that could come back.
        families.open(self.engine)
        stream_time = self.machine.participant.stream_time
        is_applying = self.engine.get(META, APPLYING) is not None
        await drop_families(
            self.engine,
            families.leftovers(self.engine.families(), stream_time, is_applying=is_applying),
        )
        self._is_open = True
        if not self.index_build.is_done:
            self._settled.set()

    async def _recover(self) -> None:
        """Makes what is missing of the indexes, serves, and applies the log's durable tail.

        Where a commit of several slices was interrupted, some rows are its rows already: nothing is
        shown before it is finished.
        """
        moved, gate = self.migration.moved_below, self._surroundings.gate
        families = self._families_of(self.machine.participant.data_generation)
        await self.index_build.run(families, moved, gate, self._stall)
        if self.view is None and self.engine.get(META, APPLYING) is None:
            self._show_state()
        await self._apply_all()
        if self.view is None or self.view.applied != self.log.applied:
            self._show_state()
        self.is_recovered = True
        self._settled.set()

    def _write_configuration(self) -> None:
        batch = self.engine.batch()
        put_configuration(batch, self.log.configuration, self.log.pod)
        put_definition(batch, self.definition)
        self.migration.keep_only(batch, self.shown_families())
        self.engine.write(batch)

    async def close(self) -> None:
        """Stops applying and closes the database; the next start applies what the log holds."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.pending.cancel()
        self.uncommitted.forget()
        self.current_view.close()
        self.engine.close()

    # --- What it is

    @property
    def definition(self) -> StoreDefinition:
        return self._showing.definition

    @property
    def view(self) -> ReadView | None:
        return self.current_view.view

    @property
    def log(self) -> logs.Log:
        return self._changelog.log

    @property
    def durable_end(self) -> Offset:
        return self._changelog.durable_end

    def digest_of(self, offset: Offset) -> int | None:
        """A checksum of an entry; None where it was cut."""
        return self._changelog.digest(offset)

    @property
    def partition(self) -> PartitionId:
        return self.log.configuration.partition

    @property
    def role(self) -> Role | None:
        return self.log.role

    @property
    def staged_bytes(self) -> int:
        return self.pending.bytes_beside(self.machine.participant.staged.values())

    def approximate_count(self) -> int:
        """About how many rows readers see; 0 where they see none."""
        return self._showing.approximate_count()

    def reconfigure(self, configuration: PartitionConfiguration) -> bool:
        """Takes a newer configuration; False where it is the one held. StaleEpochError if older."""
        log = logs.reconfigure(self.log, configuration)
        if log is self.log:
            return False
        self._changelog.log = log
        self._write_configuration()
        self._wake.set()  # A Barrier may be owed.
        return True

    # --- Writing

    def append(
        self, command: Command, payload: bytes | memoryview = b"", decoded: Batches = ()
    ) -> "asyncio.Future[Outcome]":
        """Appends an entry; the future tells what it did once it was applied.

        `decoded` are the rows of `payload` if they are worth it. Raises NotActiveError,
        DiskFullError (nothing was appended) and what stopped the replica.
        """
        logs.check_active(self.log)
        if self.failure:
            raise self.failure
        try:
            return self.pending.append(command, payload, decoded)
        except (CorruptionError, PassingError) as error:
            self.fail(error)
            raise

    async def _run(self) -> None:
        while True:
            try:
                if not self._is_open:
                    await self._open()
                if not self.is_recovered:
                    await self._recover()
                self.pending.append_owed_barrier()
                await self._wake.wait()
                self._wake.clear()
                await self._apply_appended(self.log.end)
                if self._changelog.is_due_to_cut and self._changelog.cut(
                    self.settings, self.machine.open_floor
                ):
                    self._wake.set()  # More is due, after the entries that came meanwhile.
                    await asyncio.sleep(0)
            except DiskFullError as error:
                self._stall(error)
                await asyncio.sleep(_DISK_FULL_RETRY_S)
                self._wake.set()
            except Exception as error:  # noqa: BLE001 the top of a task: said and logged.
                self.fail(error)
                return

    async def _apply_appended(self, end: Offset) -> None:
        if self._applies_make_durable(end):
            self._changelog.apply_unsynced(end)
        else:
            await self._sync()
        await self._apply_all()

    def _applies_make_durable(self, end: Offset) -> bool:
        """Whether all new entries are commits of a sole replica: their apply ends with a sync."""
        new = (self.pending.entry(Offset(one)) for one in range(self.log.watermark, end))
        return logs.is_sole(self.log) and all(
            entry is not None and isinstance(entry.command, Commit) for entry in new
        )

    async def _sync(self) -> None:
        """Makes all that was written before the call durable, entries among it."""
        end = self.log.end
        await self._surroundings.syncs.sync(self.engine)
        self._changelog.acknowledge(end)

    def fail(self, error: Exception) -> None:
        """Refuses all writes from now on, those that wait too."""
        error = shortage_of(error) or error
        _LOG.error("partition %s stopped applying", self.partition, exc_info=error)
        unexpected = StoreError("the replica failed: see its log")
        self.failure = error if isinstance(error, StoreError) else unexpected
        self.pending.fail(self.failure)
        self.current_view.wake()
        is_damage = isinstance(error, CorruptionError) and self.view is None
        if is_damage or isinstance(error, PassingError):
            self._surroundings.take_out(self.partition)

    def _stall(self, error: DiskFullError) -> None:
        """No space to go on: what is in the log waits, and is applied once there is."""
        if self.failure is None:
            _LOG.error("partition %s waits for disk space: %s", self.partition, error.message)
        self.failure = error
        self._settled.set()

    # --- Applying

    async def _apply_all(self) -> None:
        for offset in logs.applicable(self.log):
            entry = self.pending.entry(Offset(offset)) or self._changelog.read(Offset(offset))
            outcome = await self._apply(Offset(offset), entry)
            self._changelog.applied(Offset(offset))
            self.pending.applied(Offset(offset), outcome)
        if isinstance(self.failure, DiskFullError):
            self.failure = None

    async def _apply(self, offset: Offset, entry: LoggedCommand) -> Outcome:
        outcome = self.machine.plan(offset, entry)
        while True:  # However long the disk is full.
            try:
                await self._persist(offset, outcome)
            except DiskFullError as error:
                self._stall(error)
                await asyncio.sleep(_DISK_FULL_RETRY_S)
            else:
                return outcome

    async def _persist(self, offset: Offset, outcome: Outcome) -> None:
        batch = self.engine.batch()
        for key, value in outcome.changes.items():
            put_or_delete(batch, META, key, value)
        batch.put(META, APPLIED, encode_offset(offset + 1))
        if outcome.plan is None:
            self.engine.write(batch)
            if outcome.is_shown:
                await self._sync()
            self.machine.advance(outcome)
            if outcome.is_shown:
                self._show_state(applied=Offset(offset + 1))
            return
        started = self._surroundings.clock.monotonic()
        async with self._changing:
            expired = await self._commit(offset, outcome, batch)
        self._surroundings.metrics.committed(
            self._surroundings.clock.monotonic() - started, outcome.plan.records, expired
        )

    async def _commit(self, offset: Offset, outcome: Outcome, batch: Batch) -> int:
        """Writes the rows, with `batch`, advances and shows them; how many have expired."""
        plan = outcome.plan
        assert plan is not None, "a commit has one"
        if self.view:
            self.view.snapshot.pin()
        families = self._families_of(plan.data_generation)
        if plan.replaces:
            await drop_families(self.engine, families.of_generation(self.engine.families()))
            families.open(self.engine)
        placing = placing_of(self.definition, families, plan, self.engine)
        gate, limits = self._surroundings.gate, self._surroundings.limits
        writer = CommitWriter(self.engine, families, placing, gate, self._recent.take, limits)
        expired = await writer.write(offset, plan, batch)
        await self._sync()
        self.machine.advance(outcome)
        self.dropped.keep(self.machine.participant.sequence, expired)
        self._show_state(applied=Offset(offset + 1))
        # The commit is done, and is not done again: what stays is dropped by the next one.
        with suppress(DiskFullError):
            await drop_families(
                self.engine, families.leftovers(self.engine.families(), plan.stream_time)
            )
        return expired

    def _show_state(self, applied: Offset | None = None) -> None:
        """Puts readers on the state as it is now."""
        self.uncommitted.forget()
        at = self.log.applied if applied is None else applied
        self._showing.show(self.machine.participant, at)

    async def wait_until_shown(self, sequence: Sequence) -> None:
        """Waits until readers see that batch, durable; raises what stopped the replica."""
        await self.current_view.reaches(sequence, lambda: self.failure)

    def cut_soon(self) -> None:
        """Has what the changelog's retention no longer asks for deleted, in turns."""
        self._changelog.is_cut_owed = True
        self._wake.set()
