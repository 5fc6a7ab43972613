"""One partition's replica: its log, its state machine and its database.

Entries are appended at once and in order, made durable together, and applied one after the other
by `apply.apply_loop`; the future of an entry has the outcome of its apply. Readers read `view`,
which a commit replaces only after its rows are durable. A replica has one object for each of its
jobs, and callers ask that object: `views` for the rows that readers see, `changelog` for entries,
`acting`, `following` and `epochs` for its role, `health` and `alarm` for damage, `checkpoints` for
copies, `format_change` for another format.
"""

import asyncio

from qss_core.errors import CorruptionError, NotReadyError, StoreError
from qss_core.model import PartitionConfiguration, PartitionId, Role, StoreDefinition
from qss_store.replicas.apply.apply_loop import ApplyLoop
from qss_store.replicas.apply.checkpoints import Checkpoints
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.format_change import FormatChange
from qss_store.replicas.peers.active_service import ActiveService
from qss_store.replicas.peers.epoch_service import EpochService
from qss_store.replicas.peers.follower_progress import FollowerProgress
from qss_store.replicas.peers.follower_service import FollowerService
from qss_store.replicas.peers.unlike_alarm import UnlikeAlarm
from qss_store.replicas.pod_context import PodContext
from qss_store.replicas.views.decoded_rows import RecordBatches
from qss_store.replication import log as logs
from qss_store.replication.entries import VERSIONS
from qss_store.replication.hello import Hello
from qss_store.storage.engine import Engine, PassingError, shortage_of
from qss_store.storage.replica_identity import database_id
from qss_store.storage.views.read_view import ReadView
from qss_store.transactions.commands import Command
from qss_store.transactions.machine import Outcome


class Replica:
    """A replica. `view` is None before it serves; `failure` is the reason if it cannot."""

    def __init__(
        self,
        definition: StoreDefinition,
        configuration: PartitionConfiguration,
        engine: Engine,
        context: PodContext,
    ) -> None:
        """Loads the state from the engine; `start` applies the rest of the log and serves."""
        self._context = context
        self._task: asyncio.Task[None] | None = None
        parts = self._parts = ReplicaParts.load(
            definition, configuration, engine, context, lambda: self.refusal
        )
        self.engine = engine
        self.machine = parts.machine
        self.changelog = parts.changelog
        self.migration = parts.migration
        self.index_build = parts.index_build
        self.current_view = parts.current_view
        self.views = parts.views
        self.uncommitted = parts.uncommitted
        self.pending = parts.pending
        self.dropped = parts.dropped
        self.health = parts.health
        self._end_at_start = self.changelog.log.end
        self.alarm = UnlikeAlarm(parts.health, engine)
        self.checkpoints = Checkpoints(parts)
        self.format_change = FormatChange(parts)
        self.apply_loop = ApplyLoop(parts, self.fail)
        self.followers = FollowerProgress(
            self.changelog, lambda: self.hello, context.clock, self._acknowledged, self._prove
        )
        self.following = FollowerService(
            parts, lambda configuration: self.epochs.take(configuration), self.fail
        )
        self.acting = ActiveService(parts, self.followers, self.following)
        self.epochs = EpochService(parts, self.alarm, self.acting, self.followers.begin, self.fail)

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
        self._task = asyncio.create_task(self.apply_loop.run(), name=f"replica-{self.partition}")
        self._task.add_done_callback(lambda _: settled.set())
        await settled.wait()
        if self._task.done():
            self._task.result()
        if isinstance(self.failure, CorruptionError):
            raise self.failure

    async def close(self) -> None:
        """Stops applying and closes the database; the next start applies the rest of the log."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.epochs.close()
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
        return self.views.definition

    @property
    def view(self) -> ReadView | None:
        return self.current_view.view

    @property
    def failure(self) -> StoreError | None:
        return self.health.failure

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
        if self.acting.begins_epoch:
            return False
        tail = min(self._end_at_start, self.log.end)
        return self.apply_loop.is_recovered and self.log.applied >= tail

    @property
    def lacks_rows(self) -> bool:
        """Whether it answers no reads, because readers would see a state from long before."""
        misses_active = self.following.misses_active
        return self._parts.catch_up.lacks_rows(self.log, misses_active=misses_active)

    def confirm(self) -> None:
        """Notes that the operator has told this process the replica's configuration."""
        self._parts.catch_up.confirmed()

    @property
    def log(self) -> logs.Log:
        return self.changelog.log

    @property
    def partition(self) -> PartitionId:
        return self.log.configuration.partition

    @property
    def role(self) -> Role | None:
        return self.log.role

    # --- Writing

    def append(
        self, command: Command, payload: bytes | memoryview = b"", decoded: RecordBatches = ()
    ) -> "asyncio.Future[Outcome]":
        """Appends an entry; the future gets the outcome when the entry is applied.

        `decoded` are the rows of `payload`, if the replica shall keep them for the commit. Raises
        as `ActiveService.check`, DiskFullError (then no entry was appended), and `refusal`.
        """
        self.acting.check()
        if refusal := self.refusal:
            raise refusal
        try:
            return self.pending.append(command, payload, decoded)
        except (CorruptionError, PassingError) as error:
            self.fail(error)
            raise self.refusal or error from error

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

    def _prove(self) -> None:
        self.following.is_compared = True

    def _acknowledged(self) -> None:
        """Followers hold more entries, which may be applied now."""
        self._parts.wake.set()
        self._context.send()
