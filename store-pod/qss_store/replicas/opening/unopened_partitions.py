"""Keeps the partitions that a pod could not open, with the reasons."""

import logging
from collections.abc import Iterable

from qss_core.errors import CorruptionError, MalformedRequestError, NotReadyError, StoreError
from qss_core.model import PartitionConfiguration, PartitionId, PodName
from qss_core.wire.losses import LostReplica
from qss_store.storage.replica_identity import MisplacedError

_LOG = logging.getLogger(__name__)


class Unopened:
    """Partitions that are lost, and partitions that the pod will try to open again."""

    def __init__(self) -> None:
        self._lost: dict[PartitionId, str] = {}
        self._misplaced: set[PartitionId] = set()
        self._unwritable: set[PartitionId] = set()
        self._expected: set[PartitionId] = set()
        self.waiting: dict[PartitionId, StoreError] = {}

    @property
    def partitions(self) -> set[PartitionId]:
        return {*self._lost, *self.waiting}

    def note(self, partition: PartitionId, error: StoreError) -> None:
        """Notes a partition that could not be opened: damage is lasting, other errors may pass."""
        if isinstance(error, CorruptionError | MalformedRequestError):
            self.lose(partition, error.message)
            if isinstance(error, MisplacedError):
                self._misplaced.add(partition)
        else:
            self.wait(partition, error)

    def lose(self, partition: PartitionId, why: str) -> None:
        """Notes a partition that the pod will not try to open again."""
        self.waiting.pop(partition, None)
        self._misplaced.discard(partition)
        self._lost[partition] = why
        _LOG.error("partition %s is not served: %s", partition, why)

    def wait(self, partition: PartitionId, error: StoreError) -> None:
        """Notes a partition that the pod will try to open again."""
        if partition not in self.waiting or partition in self._expected:
            _LOG.error("partition %s waits to be opened: %s", partition, error.message)
        self._expected.discard(partition)
        self._lost.pop(partition, None)
        self.waiting[partition] = error

    def expect(self, partition: PartitionId) -> None:
        """Notes a partition that the pod opens next, and has not failed to open."""
        why = NotReadyError("it is being opened")
        self.waiting.setdefault(partition, why)
        self._expected.add(partition)

    def note_unwritable(self, partition: PartitionId) -> None:
        """Notes a partition whose database opens, but takes no writes."""
        self._unwritable.add(partition)

    def is_unwritable(self, partition: PartitionId) -> bool:
        """Whether the partition's database opens, but takes no writes."""
        return partition in self._unwritable

    def is_lost(self, partition: PartitionId) -> bool:
        """Whether the pod will not try to open the partition again."""
        return partition in self._lost

    def opened(self, partition: PartitionId) -> None:
        """Notes that the partition is open."""
        self._lost.pop(partition, None)
        self._misplaced.discard(partition)
        self._unwritable.discard(partition)
        self._expected.discard(partition)
        self.waiting.pop(partition, None)

    def check(self, partition: PartitionId, pod: PodName) -> None:
        """Raises CorruptionError for a lost partition, and the last error for a waiting one.

        An error without a code of its own becomes NotReadyError: it passes, and another replica of
        the partition may answer meanwhile.
        """
        if waits := self.waiting.get(partition):
            if waits.code != StoreError.code:
                raise waits.once_more()
            raise NotReadyError(
                f"partition {partition} of pod {pod} waits to be opened: {waits.message}"
            ) from waits
        if why := self._lost.get(partition):
            raise CorruptionError(f"partition {partition} of pod {pod} is lost: {why}")

    def report(self, kept: Iterable[PartitionConfiguration] = ()) -> tuple[LostReplica, ...]:
        """The partitions and reasons for the operator's report.

        A database that does not open tells no configuration, so the report has those of `kept`, the
        assignment on the volume.
        """
        configurations = {one.partition: one for one in kept}
        waiting = {number: error.message for number, error in self.waiting.items()}
        return tuple(
            LostReplica(
                partition=number,
                error=why,
                is_waiting=number in waiting,
                is_misplaced=number in self._misplaced and number not in waiting,
                configuration=configurations.get(number),
            )
            for number, why in sorted({**self._lost, **waiting}.items())
        )
