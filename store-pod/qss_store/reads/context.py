"""The context that all reads of a pod share: replicas, peers, limits and the store's codec."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import msgspec

from qss_core.errors import CorruptionError, StoreError
from qss_core.model import Ordinal, PartitionId, StoreDefinition
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.codec import Codec, RowWriter, codec_of, make_row_writer
from qss_store.reads.large_rows import LargeRows
from qss_store.reads.plans.keys import check_type
from qss_store.reads.routing.admission import Reading
from qss_store.reads.routing.peer_reads import PeerReads
from qss_store.reads.routing.replica_router import ReplicaRouter
from qss_store.reads.routing.scatter import Answer, Answers, Ask, scatter
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.runtime.settings import Settings

_NONE: Mapping[PartitionId, StoreError] = MappingProxyType({})


class ReadContext:
    def __init__(self, pod: Pod, peers: PeerReads, settings: Settings) -> None:
        """Reads the replicas of `pod`; `peers` reads the replicas of other pods."""
        self.pod = pod
        self.peers = peers
        self.settings = settings
        self.large_rows = LargeRows()
        self._definition: StoreDefinition | None = None
        self._codec: Codec | None = None
        self._writer: RowWriter | None = None
        self._answers: dict[PartitionId, tuple[Reading, msgspec.Raw]] = {}

    def codec(self, store: str) -> Codec:
        """The codec of a store. Raises StoreNotFoundError, NotReadyError."""
        definition = self.pod.registry.check_store(store).definition
        if self._codec is None or definition is not self._definition:
            self._definition = definition
            self._codec = codec_of(definition, self.pod.indexing)
            self._writer = make_row_writer(self._codec, self._codec.shape)
        return self._codec

    def key_value_codec(self, store: str) -> Codec:
        """As `codec`; raises UnknownQueryTypeError for a store of another type than KeyValue."""
        codec = self.codec(store)
        check_type(codec)
        return codec

    @property
    def writer(self) -> RowWriter:
        """The writer of rows with all members, for the store of the last `codec` call."""
        assert self._writer is not None, "the codec is asked for first"
        return self._writer

    def answer_json(self, reading: Reading) -> msgspec.Raw:
        """`reading.answer()` as JSON, cached for each state."""
        last = self._answers.get(reading.partition)
        if last is None or not _is_of_one_state(last[0], reading):
            made = msgspec.Raw(msgspec.json.encode(reading.answer()))
            last = self._answers[reading.partition] = (reading, made)
        return last[1]

    def partitions(self, options: ReadOptions, codec: Codec) -> tuple[PartitionId, ...]:
        """The partitions that `options` names; without any, all partitions."""
        if options.partitions is not None:
            return options.partitions
        return tuple(PartitionId(number) for number in range(codec.partitions))

    def deadline(self, options: ReadOptions) -> float:
        """The time by which the answer must be complete."""
        return self.pod.clock.monotonic_s() + options.timeout_s

    async def scatter(
        self,
        partitions: Iterable[PartitionId],
        options: ReadOptions,
        ask: Ask[Answer],
        deadline: float,
        failed_here: Mapping[PartitionId, StoreError] = _NONE,
    ) -> dict[PartitionId, Answer | StoreError]:
        """Each partition's answer, or the most telling failure.

        `failed_here` has the failures of local replicas that were asked already.
        """
        routers: dict[PartitionId, ReplicaRouter] = {}
        found: dict[PartitionId, Answer | StoreError] = {}
        pod = self.pod
        silent = self.peers.silent_of(pod.registry.placed().pods)
        for partition in partitions:
            failure = failed_here.get(partition)
            if isinstance(failure, CorruptionError):
                failure = pod.registry.found_damage(partition, failure)
            try:
                routers[partition] = self._router(partition, options, failure, silent)
            except StoreError as error:
                found[partition] = error.with_traceback(None)

        async def ask_known(
            ordinal: Ordinal, asked: list[PartitionId], timeout_s: float
        ) -> Answers[Answer]:
            here = {one: pod.registry.replicas.get(one) for one in asked}
            try:
                answers = await ask(ordinal, asked, timeout_s)
            except CorruptionError as error:
                answers = dict.fromkeys(asked, error)
            if ordinal != pod.ordinal:
                return answers
            return {one: self._known(one, answer, here[one]) for one, answer in answers.items()}

        if routers:
            pods = pod.registry.placed().pods
            found |= await scatter(routers, ask_known, pods, deadline, pod.clock)
        return found

    def _known(
        self, partition: PartitionId, answer: Answer | StoreError, asked: Replica | None
    ) -> Answer | StoreError:
        """An answer of the replica that was `asked` here.

        Damage is told to the pod, and another replica is asked.
        """
        if isinstance(answer, CorruptionError):
            return self.pod.registry.found_damage(partition, answer, asked)
        return answer

    def check_damage(
        self,
        partition: PartitionId,
        rows: Iterable[bytes | StoreError | None],
        asked: Replica | None,
    ) -> None:
        """Tells the pod of damage among rows of the replica that was `asked` here.

        Raises NotReadyError where other replicas have the damaged row.
        """
        if (damage := damage_of(rows)) is not None:
            told = self.pod.registry.found_damage(partition, damage, asked)
            if told is not damage:
                raise told

    def _router(
        self,
        partition: PartitionId,
        options: ReadOptions,
        failure: StoreError | None,
        silent: Collection[Ordinal],
    ) -> ReplicaRouter:
        """The router of a partition. Raises `failure` if no other replica may be asked.

        Raises PartitionDoesNotExistError.
        """
        pod = self.pod
        placed = pod.registry.configuration(partition)
        is_open = partition in pod.registry.replicas
        router = ReplicaRouter.of(placed, pod.ordinal, options, silent, is_open_here=is_open)
        if failure is not None:
            router.skip(pod.ordinal)
            router.fail(failure, pod.registry.placed().pods)
            if router.is_over:
                raise failure
        return router


def _is_of_one_state(one: Reading, other: Reading) -> bool:
    return (
        one.view is other.view
        and one.configuration is other.configuration
        and one.role is other.role
    )


def damage_of(rows: Iterable[bytes | StoreError | None]) -> CorruptionError | None:
    """The damage of the first row that could not be read for it."""
    return next((row for row in rows if isinstance(row, CorruptionError)), None)
