"""One partition's replica: the shell around its log, its state machine and its engine.

Entries are appended at once and in order, made durable together, and applied one after the other;
whoever appended gets the outcome of the apply. Readers look at `view`, which a commit replaces only
when its rows are durable.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from qss_core.errors import DiskFullError, StoreError, StoreTypeFailedError
from qss_core.model import Offset, PartitionConfiguration, Role, Sequence, StoreDefinition
from qss_store.changelog import Changelog
from qss_store.committing import APPLIED, APPLYING, CommitWriter, drop_families, put_or_delete
from qss_store.engine.base import META, Batch, Engine, Snapshot
from qss_store.families import Families
from qss_store.identity import is_kept, newest_configuration, put_configuration, put_definition
from qss_store.index_building import IndexBuild
from qss_store.migration import Migration, Step
from qss_store.placing import placing_of
from qss_store.recent import Batches, RecentEntries
from qss_store.replication import log as logs
from qss_store.replication.entries import Barrier, Command, Commit, Entry, encode_offset
from qss_store.shown import Shown
from qss_store.surroundings import Surroundings
from qss_store.transactions.machine import Machine, Outcome
from qss_store.transactions.participant import CommitPlan
from qss_store.uncommitted import UncommittedRows
from qss_store.view import View

_LOG = logging.getLogger(__name__)
_DISK_FULL_RETRY_S = 1.0


class _Pending(NamedTuple):
    entry: Entry
    outcome: "asyncio.Future[Outcome]"


class Replica:
    """A replica. `view` is None until it serves; `failure` says why it does not."""

    def __init__(
        self,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        engine: Engine,
        surroundings: Surroundings,
    ) -> None:
        """Takes what the engine holds; `start` finishes what was decided and serves."""
        self.definition = definition
        self.engine = engine
        self._shown = Shown()
        self.failure: StoreError | None = None
        self._surroundings = surroundings
        self._recent = RecentEntries(surroundings.recent)
        self._pending: dict[Offset, _Pending] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Held from a commit's first row until readers see it, by who moves rows, and by who says
        # in which format they are.
        self._changing = asyncio.Lock()
        meta = dict(engine.scan(META))
        configuration = newest_configuration(meta, definition, configuration)
        self.machine = Machine.load(configuration.partition, meta)
        self._generation = self.machine.participant.data_generation  # Of the rows that are shown.
        self.migration = Migration(engine, meta)
        limits = surroundings.limits
        self.index_build = IndexBuild(engine, meta, configuration.partition, limits)
        self.uncommitted = UncommittedRows(
            self, engine, self._recent.peek, surroundings.uncommitted, limits
        )
        self._changelog = Changelog(
            engine, surroundings.pod, configuration, meta, surroundings.clock
        )

    # --- Opening

    @property
    def _families(self) -> Families:
        """Those of the rows as they are to be: a commit may still be on its way into them."""
        return self._families_of(self.definition, self.machine.participant.data_generation)

    def shown_families(self) -> Families:
        """Those of the rows that readers see."""
        return self._families_of(self.definition, self._generation)

    def _families_of(self, definition: StoreDefinition, generation: int) -> Families:
        return Families.of(definition, generation, self._surroundings.indexing)

    async def start(self) -> None:
        """Finishes the commit that was being applied, applies the log's durable tail, serves.

        Indexes that have to be made are made on their own: it serves when they are.
        """
        if self._surroundings.refusal:
            self.failure = self._surroundings.refusal
            return
        self.index_build.begin(self._families)
        if not is_kept(self.engine, self.definition, self.log.configuration):
            self._write_configuration()
        await self._sync()  # What goes now is not needed by any state that could come back.
        families = self._families
        families.open(self.engine)
        stream_time = self.machine.participant.stream_time
        is_applying = self.engine.get(META, APPLYING) is not None
        await drop_families(
            self.engine,
            families.leftovers(self.engine.families(), stream_time, is_applying=is_applying),
        )
        self._changelog.acknowledge(self.log.end)
        if self.index_build.is_done:
            try:
                await self._serve()
            except StoreTypeFailedError as error:
                self._fail(error)
                return
        self._task = asyncio.create_task(self._run(), name=f"replica-{self.partition}")

    async def _serve(self) -> None:
        """Makes what is missing of the indexes, applies the log's durable tail, and serves."""
        moved, gate = self.migration.moved_below, self._surroundings.gate
        await self.index_build.run(self._families, moved, gate, self._stall)
        if self._surroundings.indexing and self.engine.get(META, APPLYING) is None:
            self._show_state()  # It stays readable where the store's type fails at what follows.
        await self._apply_all()
        self._show_state()

    def _write_configuration(self) -> None:
        batch = self.engine.batch()
        put_configuration(batch, self.log.configuration)
        put_definition(batch, self.definition)
        self.migration.keep_only(batch, self.shown_families())
        self.engine.write(batch)

    async def close(self) -> None:
        """Stops applying and closes the database; the next start applies what the log holds."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for pending in self._pending.values():
            pending.outcome.cancel()
        self.uncommitted.forget()
        self._shown.close()
        self.engine.close()

    # --- What it is

    @property
    def view(self) -> View | None:
        """What readers see."""
        return self._shown.view

    @property
    def log(self) -> logs.Log:
        """Its changelog's state."""
        return self._changelog.log

    @property
    def partition(self) -> int:
        """Its partition's number."""
        return self.log.configuration.partition

    @property
    def role(self) -> Role | None:
        """What it is to its partition."""
        return self.log.role

    @property
    def staged_bytes(self) -> int:
        """Bytes of staged rows: on disk, in no commit yet."""
        return self.machine.participant.staged_bytes

    def approximate_count(self) -> int:
        """About how many rows it has."""
        stream_time = self.machine.participant.stream_time
        return self._families.approximate_count(self.engine, stream_time)

    def reconfigure(self, configuration: PartitionConfiguration) -> bool:
        """Takes a newer configuration; False where it is the one held. StaleEpochError if older."""
        log, became_active = logs.reconfigure(self.log, configuration)
        if log is self.log:
            return False
        self._changelog.log = log
        self._write_configuration()
        if became_active:
            self.append(Barrier())
        return True

    # --- Writing

    def append(
        self, command: Command, payload: bytes | memoryview = b"", decoded: Batches = ()
    ) -> "asyncio.Future[Outcome]":
        """Appends an entry; the future tells what it did once it was applied.

        `decoded` are the rows of `payload` where they are worth to be remembered for the commit.
        Raises NotActiveError, DiskFullError (nothing was appended) and what stopped the replica.
        """
        logs.check_active(self.log)
        if self.failure:
            raise self.failure
        offset, entry = self._changelog.append(command, payload)
        self._recent.keep(offset, decoded)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._pending[offset] = _Pending(entry, outcome)
        self._wake.set()
        return outcome

    async def _run(self) -> None:
        while True:
            try:
                if self.view is None:
                    await self._serve()
                await self._wake.wait()
                self._wake.clear()
                end = self.log.end
                if not self._applies_make_durable(end):
                    await self._sync()
                self._changelog.acknowledge(end)
                await self._apply_all()
                if self._changelog.is_due_to_cut:
                    self.truncate()
            except DiskFullError as error:
                self._stall(error)
            except Exception as error:  # noqa: BLE001 the top of a task: said and logged.
                self._fail(error)
                return

    def _applies_make_durable(self, end: Offset) -> bool:
        """Whether all new entries are commits of a sole replica.

        Their apply ends with a sync of its own before anybody is told or shown anything: append and
        apply are then made durable together.
        """
        new = (self._pending[Offset(one)].entry for one in range(self.log.watermark, end))
        return logs.is_sole(self.log) and all(isinstance(one.command, Commit) for one in new)

    async def _sync(self) -> None:
        await self._surroundings.syncs.sync(self.engine)

    def _fail(self, error: Exception) -> None:
        _LOG.error("partition %s stopped applying", self.partition, exc_info=error)
        unexpected = StoreError("the replica failed: see its log")
        self.failure = error if isinstance(error, StoreError) else unexpected
        for pending in self._pending.values():
            if not pending.outcome.done():
                pending.outcome.set_exception(self.failure)
                pending.outcome.exception()  # Whoever asked may be gone; the log has it.
        self._pending.clear()
        self._shown.wake()

    def _stall(self, error: DiskFullError) -> None:
        """No space to go on: what is in the log waits, and is applied once there is."""
        if self.failure is None:
            _LOG.error("partition %s waits for disk space", self.partition)
        self.failure = error
        asyncio.get_running_loop().call_later(_DISK_FULL_RETRY_S, self._wake.set)

    # --- Applying

    async def _apply_all(self) -> None:
        for offset in logs.applicable(self.log):
            pending = self._pending.get(Offset(offset))
            entry = pending.entry if pending else self._changelog.read(Offset(offset))
            outcome = await self._apply(Offset(offset), entry)
            self._changelog.applied(Offset(offset))
            self._pending.pop(Offset(offset), None)
            if pending and not pending.outcome.done():
                pending.outcome.set_result(outcome)
        if isinstance(self.failure, DiskFullError):
            self.failure = None

    async def _apply(self, offset: Offset, entry: Entry) -> Outcome:
        outcome = self.machine.apply(offset, entry)
        # The state machine has moved: the rows follow, however long the disk is full.
        while True:
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
            return
        started = self._surroundings.clock.monotonic()
        async with self._changing:
            expired = await self._commit(offset, outcome.plan, batch)
        self._surroundings.metrics.committed(
            self._surroundings.clock.monotonic() - started, outcome.plan.records, expired
        )

    async def _commit(self, offset: Offset, plan: CommitPlan, batch: Batch) -> int:
        """Writes the rows, with `batch`, and shows them; how many have expired."""
        if self.view:
            self.view.snapshot.pin()
        families = self._families
        if plan.replaces:
            await drop_families(self.engine, families.of_generation(self.engine.families()))
            families.open(self.engine)
        placing = placing_of(self.definition, families, plan, self.engine)
        common = self._surroundings
        rows_of = self._recent.take
        writer = CommitWriter(self.engine, families, placing, common.gate, rows_of, common.limits)
        expired = await writer.write(offset, plan, batch)
        await self._sync()
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
        participant = self.machine.participant
        self._generation = participant.data_generation
        self._shown.put(
            View.of(
                self._snapshot(participant.stream_time),
                store_format=self._families.format,
                applied=self.log.applied if applied is None else applied,
                sequence=participant.sequence,
                position=participant.position,
                stream_time=participant.stream_time,
            )
        )

    def _show_again(self) -> None:
        """Puts readers on the same state as its rows lie now.

        The state machine may be ahead of it: a commit may wait for us.
        """
        if self.view:
            rows = self._snapshot(self.view.stream_time)
            self._shown.put(self.view.with_rows(rows, self.shown_families().format))

    def _snapshot(self, stream_time: int) -> Snapshot:
        return self.shown_families().snapshot(self.engine, stream_time, self.migration.moved_below)

    async def wait_until_shown(self, sequence: Sequence) -> None:
        """Waits until readers see that batch, durable; raises what stopped the replica."""
        await self._shown.reaches(sequence, lambda: self.failure)

    # --- Formats

    @asynccontextmanager
    async def redefining(self, definition: StoreDefinition) -> AsyncIterator[None]:
        """Prepares another definition on the disk; inside, `redefine` may be called.

        DiskFullError: nothing has changed for readers and writers, and the disk serves both.
        """
        async with self._changing:
            self.migration.prepare(definition, self._families_of(definition, self._generation))
            await self._sync()
            yield

    def redefine(self, definition: StoreDefinition) -> None:
        """From now on rows are written and shown in another format, those that are there too."""
        assert self._changing.locked(), "`redefining` prepares it"
        self.definition = definition
        self._show_again()

    async def move_rows(self, rows_max: int) -> Step | None:
        """Moves rows out of an older format, so many at most; None where none is left.

        Answers stay what they are, so the position stays. Raises StoreError where it cannot go on.
        """
        async with self._changing:
            families = self.shown_families()
            shown = self.view and self.view.snapshot
            step = self.migration.step(shown, families, rows_max) if shown else None
            if step and step.emptied:
                # The drop is durable at once, so what was moved has to be so before.
                await self._sync()
                await drop_families(self.engine, [step.emptied])
                self.migration.finish(families)
            if step:
                # What is held as it was takes memory and disk, and is read less quickly.
                self._show_again()
            return step

    def truncate(self) -> None:
        """Deletes what the changelog's retention no longer asks for."""
        self._changelog.cut(self._surroundings.settings, self.machine.open_floor)
