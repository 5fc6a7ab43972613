"""What all reads of a pod share: its replicas, its peers, its limits, and the store's codec."""

import msgspec

from qss_core.model import PartitionId, StoreDefinition
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.codec import Codec, RowWriter, codec_of, make_row_writer
from qss_store.reads.large_rows import LargeRows
from qss_store.reads.routing.admission import Reading
from qss_store.reads.routing.peer_reads import PeerReads
from qss_store.reads.routing.replica_router import ReplicaRouter
from qss_store.replicas.pod import Pod
from qss_store.runtime.settings import Settings


class ReadContext:
    def __init__(self, pod: Pod, peers: PeerReads, settings: Settings) -> None:
        """Reads `pod`, and asks `peers` for the rest."""
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
        definition = self.pod.check_store(store).definition
        if self._codec is None or definition is not self._definition:
            self._definition = definition
            self._codec = codec_of(definition, self.pod.indexing)
            self._writer = make_row_writer(self._codec, self._codec.shape)
        return self._codec

    @property
    def writer(self) -> RowWriter:
        """The writer of whole rows of the store whose codec was asked for."""
        assert self._writer is not None, "the codec is asked for first"
        return self._writer

    def answer_json(self, reading: Reading) -> msgspec.Raw:
        """`reading.answer()` as JSON, made once for each state."""
        last = self._answers.get(reading.partition)
        if last is None or not _is_of_one_state(last[0], reading):
            made = msgspec.Raw(msgspec.json.encode(reading.answer()))
            last = self._answers[reading.partition] = (reading, made)
        return last[1]

    def partitions(self, options: ReadOptions, codec: Codec) -> tuple[PartitionId, ...]:
        """The partitions that a read of many is for."""
        if options.partitions is not None:
            return options.partitions
        return tuple(PartitionId(number) for number in range(codec.partitions))

    def turn(self, partition: PartitionId, options: ReadOptions) -> ReplicaRouter:
        """Whom to ask for a partition. Raises PartitionDoesNotExistError."""
        return ReplicaRouter.of(self.pod.configuration(partition), self.pod.ordinal, options)

    def deadline(self, options: ReadOptions) -> float:
        """When the answer has to be there."""
        return self.pod.clock.monotonic() + options.timeout_s


def _is_of_one_state(one: Reading, other: Reading) -> bool:
    return (
        one.view is other.view
        and one.configuration is other.configuration
        and one.role is other.role
    )
