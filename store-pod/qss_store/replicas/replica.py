"""One partition's replica: its log, its state machine and its database.

Entries are appended at once and in order, made durable together, and applied one after the other
by `apply.apply_loop`; the future of an entry has the outcome of its apply. Readers read `view`,
which a commit replaces only after its rows are durable.
"""

import asyncio
from pathlib import Path

from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    NotReadyError,
    StoreError,
)
from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    Role,
    Sequence,
    StoreDefinition,
    StoreSettings,
)
from qss_store.replicas.apply.apply_loop import ApplyLoop
from qss_store.replicas.apply.dropped_rows import DroppedRows
from qss_store.replicas.apply.pending_entries import PendingEntries
from qss_store.replicas.apply.replica_health import ReplicaHealth
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.changelog import Changelog
from qss_store.replicas.format_change import FormatChange, RowLock
from qss_store.replicas.peers.active_service import ActiveService
from qss_store.replicas.peers.follower_progress import FollowerProgress
from qss_store.replicas.peers.follower_service import FollowerService
from qss_store.replicas.peers.unlike_alarm import UnlikeAlarm
from qss_store.replicas.pod_context import PodContext
from qss_store.replicas.views.current_view import CurrentView
from qss_store.replicas.views.decoded_rows import Batches, DecodedEntries
from qss_store.replicas.views.uncommitted import UncommittedRows
from qss_store.replicas.views.view_maker import ViewMaker
from qss_store.replication import log as logs
from qss_store.replication.entries import VERSIONS
from qss_store.replication.hello import Hello
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.commit_rows.index_build import IndexBuild
from qss_store.storage.engine import META, Engine, PassingError, shortage_of
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.format_migration import Migration
from qss_store.storage.replica_identity import database_id, newest_configuration
from qss_store.storage.views.read_view import ReadView
from qss_store.transactions.commands import AcceptLoss, Command, Commit
from qss_store.transactions.machine import Machine, Outcome

_PATIENCE = 3  # Times `replicaTimeout`, for an active that no standby has compared itself with.
_PIN_S = 600.0  # How long entries behind a copy are kept for the learner that makes it.


class Replica:
    """A replica. `view` is None before it serves; `failure` is the reason if it cannot."""

    _keeping: "asyncio.Task[None] | None" = None  # Makes the epoch of an active durable.

    def __init__(
        self,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        engine: Engine,
        context: PodContext,
    ) -> None:
        """Loads the state from the engine; `start` applies the rest of the log and serves."""
        self.engine = engine
        self._context = context
        self._task: asyncio.Task[None] | None = None
        meta = dict(engine.scan(META))
        configuration = newest_configuration(meta, definition, configuration, context.pod)
        self.machine = Machine.load(configuration.partition, meta)
        self.migration = Migration(engine, meta)
        self.health = ReplicaHealth(configuration.partition, engine, meta)
        self.alarm = UnlikeAlarm(self.health, engine, meta)
        self.current_view = CurrentView()
        self.dropped = DroppedRows[int]()
        self.index_build = IndexBuild(engine, meta, configuration.partition, context.slices)
        generation = self.machine.participant.data_generation
        self._views = ViewMaker(
            definition, self.current_view, engine, self.migration, context.indexing, generation
        )
        recent, wake, changing = DecodedEntries(context.recent), asyncio.Event(), RowLock()
        changelog = self._changelog = Changelog(
            engine, context.pod, configuration, meta, context.clock, context.syncs
        )
        self._end_at_start = changelog.log.end
        self.followers = FollowerProgress(
            changelog, lambda: self.hello, context.clock, self._acknowledged, self._prove
        )
        self.format_change = FormatChange(
            engine, self.migration, self._views, changing, changelog.sync
        )
        self.uncommitted = UncommittedRows(
            self, engine, recent.peek, context.uncommitted, context.slices
        )
        self.pending = PendingEntries(changelog, recent, wake, context.send)
        self._parts = ReplicaParts(
            context=context,
            engine=engine,
            changelog=changelog,
            machine=self.machine,
            migration=self.migration,
            index_build=self.index_build,
            recent=recent,
            pending=self.pending,
            views=self._views,
            uncommitted=self.uncommitted,
            dropped=self.dropped,
            health=self.health,
            wake=wake,
            changing=changing,
        )
        self._apply_loop = ApplyLoop(self._parts, self.fail)
        self.following = FollowerService(self._parts, self._take, self.fail)
        self.acting = ActiveService(self._parts, self.followers, self.following)

    # --- Life

    async def start(self) -> None:
        """Finishes an unfinished commit, applies the durable tail of the log, and serves.

        Returns early where the volume is full, or where indexes have to be made anew. Then the
        replica continues in the background, and readers see the state before the tail, unless a
        commit is unfinished. Raises CorruptionError where the database lacks entries or rows.
        """
        if self._context.refusal:
            self.health.failure = self._context.refusal
            return
        settled = self.health.settled
        self._task = asyncio.create_task(self._apply_loop.run(), name=f"replica-{self.partition}")
        self._task.add_done_callback(lambda _: settled.set())
        await settled.wait()
        if self._task.done():
            self._task.result()
        if isinstance(self.failure, CorruptionError):
            raise self.failure

    async def close(self) -> None:
        """Stops applying and closes the database; the next start applies the rest of the log."""
        tasks = [one for one in (self._task, self._keeping) if one is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.pending.cancel()
        self.uncommitted.forget()
        self.current_view.close()
        self.engine.close()

    def fail(self, error: Exception) -> None:
        """Refuses all writes from now on; entries that wait for their apply fail, too."""
        error = shortage_of(error) or error
        failure = self.health.fail(error)
        self.pending.fail(self.refusal or failure)
        self.current_view.wake()
        is_damage = isinstance(error, CorruptionError) and self.view is None
        if is_damage or isinstance(error, PassingError):
            self._context.take_out(self.partition)

    # --- State

    @property
    def definition(self) -> StoreDefinition:
        return self._views.definition

    @property
    def view(self) -> ReadView | None:
        return self.current_view.view

    @property
    def failure(self) -> StoreError | None:
        return self.health.failure

    @property
    def has_failed(self) -> bool:
        """Whether the replica has a failure that does not pass by itself, as a full disk does."""
        return self.failure is not None and not isinstance(self.failure, DiskFullError)

    @property
    def refusal(self) -> StoreError | None:
        """The failure as writers get it: they wait where another replica can take over."""
        configuration = self.log.configuration
        is_alone = configuration.in_sync == (configuration.active,) == (self.log.pod,)
        if self.failure is None:
            return None
        if is_alone or not self.health.has_stopped:
            return self.failure.once_more()
        return NotReadyError(
            f"the replica of partition {self.partition} on pod {self.log.pod} has failed, and "
            f"another one has to take over: {self.failure.message}"
        )

    @property
    def is_recovered(self) -> bool:
        """Whether the tail of the log at the start is applied, as far as it was not cut.

        An active with standbys has applied the Barrier of its epoch, too.
        """
        if self.begins_epoch:
            return False
        tail = min(self._end_at_start, self.log.end)
        return self._apply_loop.is_recovered and self.log.applied >= tail

    @property
    def begins_epoch(self) -> bool:
        """Whether this active has yet to begin its epoch."""
        return self.acting.begins_epoch

    @property
    def log(self) -> logs.Log:
        return self._changelog.log

    @property
    def durable_end(self) -> Offset:
        return self._changelog.durable_end

    @property
    def settled_end(self) -> Offset:
        """This pod has synced all entries below, and no active will replace one of them."""
        return min(self.durable_end, self.log.watermark)

    def digest_of(self, offset: Offset) -> int | None:
        """A checksum of an entry; None where the entry was cut."""
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

    def shown_families(self) -> ColumnFamilies:
        """The column families of the rows that readers see."""
        return self._views.families

    def approximate_count(self) -> int:
        """About how many rows readers see; 0 where they see none."""
        return self._views.approximate_count()

    async def wait_until_shown(self, sequence: Sequence) -> None:
        """Waits until readers see that batch; raises `refusal`."""
        await self.current_view.reaches(sequence, lambda: self.refusal)

    # --- Writing

    def append(
        self, command: Command, payload: bytes | memoryview = b"", decoded: Batches = ()
    ) -> "asyncio.Future[Outcome]":
        """Appends an entry; the future gets the outcome when the entry is applied.

        `decoded` are the rows of `payload`, if the replica shall keep them for the commit. Raises
        as `check_active`, DiskFullError (then no entry was appended) and the replica's failure.
        """
        self.check_active()
        if refusal := self.refusal:
            raise refusal
        try:
            return self.pending.append(command, payload, decoded)
        except (CorruptionError, PassingError) as error:
            self.fail(error)
            raise self.refusal or error from error

    def check_active(self, epoch: Epoch | None = None) -> None:
        """Raises as `ActiveService.check`, which refuses who may not act."""
        self.acting.check(epoch)

    async def checkpoint(self, path: Path) -> None:
        """Copies the database to `path`, between two commits; its entries are durable here, too.

        A sole active that lost entries goes on in its epoch: no learner may hold them.
        """
        await run_blocking(self.engine.flush)
        async with self._parts.changing:
            self._changelog.pin = (self.log.applied, self._now_s() + _PIN_S)
            await run_blocking(self.engine.checkpoint, path)
        await self._changelog.sync()

    def go_on_keeping_entries(self) -> None:
        """Keeps the entries since the last checkpoint for longer: a learner still reads it."""
        if self._changelog.pin is not None:
            self._changelog.pin = (self._changelog.pin[0], self._now_s() + _PIN_S)

    def silent_followers(self) -> tuple[Ordinal, ...]:
        """The in-sync followers without which this active would go on.

        While the active does not know whether its own volume went back, one of those followers may
        be the only replica with all that was acknowledged: it is waited for for longer.
        """
        if self.log.role is not Role.ACTIVE or not self._changelog.may_act:
            return ()
        if self.following.is_compared:
            return self.followers.silent(self._replica_timeout_s)
        return self.followers.silent(_PATIENCE * self._replica_timeout_s, with_lost=False)

    def logged_sequence(self) -> Sequence | None:
        """The sequence of the last batch in its log, applied or not; None where it has failed.

        A log that cannot be read fails the replica alone: the others are reported all the same.
        """
        tail, last = range(self.log.applied, self.log.end), self.machine.participant.sequence
        try:
            for number in tail:
                command = self._changelog.read(Offset(number)).command
                if isinstance(command, Commit):
                    last = max(last, command.commit.sequence)
                elif isinstance(command, AcceptLoss):
                    last = max(last, command.held.sequence)
        except StoreError as error:
            if self.failure is None:
                self.fail(error)
            return None
        return last

    def is_held_up(self) -> bool:
        """Whether this active waits for a learner that does not catch up."""
        is_active = self.log.role is Role.ACTIVE
        return is_active and self.followers.is_held_up(self._replica_timeout_s)

    def _now_s(self) -> float:
        return self._context.clock.monotonic_s()

    @property
    def _replica_timeout_s(self) -> float:
        return self._apply_loop.settings.replica_timeout_ms / 1000

    @property
    def hello(self) -> Hello:
        """The identity of this replica's database, for the other replicas of the partition."""
        return Hello(
            store_id=self.definition.store_id,
            partition=self.partition,
            ordinal=self.log.pod,
            database=database_id(self.engine),
            reads=VERSIONS,
        )

    def reconfigure(self, configuration: PartitionConfiguration, settings: StoreSettings) -> bool:
        """Takes settings and a configuration; returns whether the configuration is a new one.

        Raises StaleEpochError for an older configuration.
        """
        self._apply_loop.settings = settings
        before = self.log
        log = logs.reconfigure(before, configuration)
        if log is before:
            return False
        self._parts.write_configuration(configuration)
        self._changelog.log = log
        self.alarm.configured(configuration)
        self.acting.configured(before)
        return True

    def keep_epoch(self) -> None:
        """Begins to make the epoch of an active durable, so that it greets its followers.

        The apply loop would do so after the commit that it applies, which may take long.
        """
        is_owed = self.role is Role.ACTIVE and self._changelog.owes_epoch and not self.has_failed
        if is_owed and (self._keeping is None or self._keeping.done()):
            self._keeping = asyncio.create_task(self._keep_epoch(), name=f"epoch-{self.partition}")

    async def _keep_epoch(self) -> None:
        try:
            await self._changelog.sync()
        except Exception as error:  # noqa: BLE001 the top of a task.
            self.fail(error)
        else:
            self.followers.begin()
            self._context.send()

    def _take(self, configuration: PartitionConfiguration) -> None:
        self.reconfigure(configuration, self._apply_loop.settings)

    def _prove(self) -> None:
        self.following.is_compared = True

    def _acknowledged(self) -> None:
        """Followers hold more entries, which may be applied now."""
        self._parts.wake.set()
        self._context.send()

    def cut_soon(self) -> None:
        """Has the apply loop delete the entries that the changelog's retention allows to delete."""
        self._changelog.is_cut_owed = True
        self._parts.wake.set()
