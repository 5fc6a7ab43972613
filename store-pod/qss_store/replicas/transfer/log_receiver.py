"""Takes the entries that other pods' actives send to the replicas of this pod."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from qss_core.errors import CorruptionError, MalformedRequestError, StoreError
from qss_core.model import PartitionConfiguration, PartitionId, StoreId
from qss_core.wire.messages import problem_of
from qss_store.replicas.registry import Registry
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import ReportFeed
from qss_store.replicas.transfer.learner_copies import LearnerCopies
from qss_store.replication.follower import Append, StepBack, check_follows
from qss_store.replication.messages import (
    DIGEST_VERSION,
    AppendAnswer,
    AppendRequest,
    CompareAnswer,
    CompareRequest,
    Done,
    Greeted,
    Held,
    HelloAnswer,
    HelloRequest,
    Refused,
    SteppedBack,
    UnlikeRequest,
)
from qss_store.storage.views.row_digest import ROWS_MAX, digest_between, parts_of

_COMPARE_WAIT_S = 2.0  # The wait for a batch that the active has applied.


class LogReceiver:
    """The followers' side of one pod; a partition that refuses does not stop the others."""

    def __init__(self, registry: Registry, copies: LearnerCopies, report_feed: ReportFeed) -> None:
        """`copies` copies databases for the learners that the logs no longer reach."""
        self._report_feed = report_feed
        self._registry = registry
        self._copies = copies

    async def hello(self, request: HelloRequest) -> HelloAnswer:
        """Takes the epochs of the request; raises WrongStoreError for another store's request."""
        self._check(request.store_id, [one.partition for one in request.configurations])
        # Each partition has its own log, and a refusal is its answer: all may run at once.
        found = await asyncio.gather(*(self._greet(one) for one in request.configurations))
        return HelloAnswer(tuple(found))

    async def append(self, request: AppendRequest) -> AppendAnswer:
        """Takes the entries of the request, and syncs them; raises as `hello`."""
        appends = [one.configuration for one in request.appends]
        self._check(request.store_id, [one.partition for one in appends])
        self._check(request.store_id, [one.partition for one in request.copies])
        for configuration in request.copies:
            self._copies.begin(configuration, request.sender)
        # As in `hello`; the partitions share one sync.
        found = await asyncio.gather(*(self._take(one, request) for one in request.appends))
        return AppendAnswer(tuple(found))

    async def compare(self, request: CompareRequest) -> CompareAnswer:
        """The digest of some rows, once readers see the named batch.

        None where they see another one, where this pod makes other digests, and where retention
        hides too many rows. Raises as `hello`, StaleEpochError, NotPresentError, and
        CorruptionError for damage here.
        """
        partition, replica = self._standby(request.store_id, request.configuration)
        if replica.health.damage is not None:
            raise replica.health.damage.once_more()
        if request.version != DIGEST_VERSION:
            return CompareAnswer(digest=None)
        if not 0 <= request.rows <= ROWS_MAX:
            raise MalformedRequestError(f"a comparison is of 0 to {ROWS_MAX} rows")
        with suppress(TimeoutError):
            async with asyncio.timeout(_COMPARE_WAIT_S):
                await replica.current_view.reaches(request.sequence)
        view = replica.view
        if view is None or view.sequence != request.sequence:
            return CompareAnswer(digest=None)
        if not 0 <= request.part < (parts := len(parts_of(view))):
            raise MalformedRequestError(
                f"part {request.part} was sent; the store has parts 0 to {parts - 1}"
            )
        try:
            digest = digest_between(
                view, request.part, request.after, request.last_key, request.rows
            )
        except CorruptionError as error:
            raise self._registry.found_damage(partition, error, replica) from error
        return CompareAnswer(digest=digest)

    async def unlike(self, request: UnlikeRequest) -> Done:
        """Records whether the rows of this standby differ from those of other replicas.

        It reports that after it becomes the active.

        Raises as `compare`.
        """
        _, replica = self._standby(request.store_id, request.configuration)
        replica.alarm.compared(request.unlike)
        return Done()

    def _standby(
        self, store_id: StoreId, configuration: PartitionConfiguration
    ) -> tuple[PartitionId, Replica]:
        """The replica of this pod that follows in this configuration."""
        partition = configuration.partition
        self._check(store_id, [partition])
        replica = self._replica(partition)
        check_follows(replica.log, configuration)
        return partition, replica

    def _check(self, named: StoreId, partitions: Sequence[PartitionId]) -> None:
        """Refuses another store's request, and unknown or repeated partitions."""
        definition = self._registry.check_message_store(named).definition
        if len({*partitions}) < len(partitions):
            raise MalformedRequestError("a message names each partition once")
        if any(one >= definition.partitions for one in partitions):
            raise MalformedRequestError(f"the store has {definition.partitions} partitions")

    async def _greet(self, configuration: PartitionConfiguration) -> Greeted | Refused:
        partition = configuration.partition
        try:
            replica = self._replica(partition)
            watermark = await replica.following.greet(configuration)
        except StoreError as error:
            return self._refused(partition, error)
        process = self._registry.process
        return Greeted(
            partition=partition, hello=replica.hello, watermark=watermark, process=process
        )

    async def _take(self, append: Append, request: AppendRequest) -> Held | SteppedBack | Refused:
        partition, epoch = append.configuration.partition, append.configuration.epoch
        try:
            following = self._replica(partition).following
            found = await following.receive(append, request.lease_ms / 1000, request.process)
        except StoreError as error:
            return self._refused(partition, error)
        if isinstance(found, StepBack):
            return SteppedBack(partition=partition, epoch=epoch, back=found)
        return Held(
            partition=partition,
            epoch=epoch,
            matched=found,
            answered=following.moment(),
            leaves=self._report_feed.is_leaving,
        )

    def _replica(self, partition: PartitionId) -> Replica:
        """The replica of this pod; raises as `Registry.present` where there is none."""
        replica = self._registry.replicas.get(partition)
        return self._registry.present(partition) if replica is None else replica

    def _refused(self, partition: PartitionId, error: StoreError) -> Refused:
        replica = self._registry.replicas.get(partition)
        held = None if replica is None else replica.log.configuration
        return Refused(partition=partition, problem=problem_of(error), configuration=held)
