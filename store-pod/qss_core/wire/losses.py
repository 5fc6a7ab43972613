"""Messages about batches that a partition lacks: how pods compare, and what a person accepts."""

from msgspec import field

from qss_core.model import (
    Epoch,
    PartitionId,
    Sequence,
    StoreAssignment,
    StoreId,
    Wire,
    WriterEpoch,
)
from qss_core.positions import PositionJson


class DataLoss(Wire, frozen=True, kw_only=True):
    """Batches that a partition lacks, by sequence, and the epoch in which a person accepted it.

    `last` is below `first` where nobody knows how many there were.
    """

    first: Sequence
    last: Sequence
    epoch: Epoch


class LostReplica(Wire, frozen=True, kw_only=True):
    """A partition that a pod held and cannot open, and why.

    One that `is_waiting` is tried again by itself: it lacks room on its volume, or a lock.
    """

    partition: PartitionId
    error: str
    is_waiting: bool = False


class AcceptLossRequest(Wire, frozen=True, kw_only=True):
    """A person goes on with what a partition still has, in the epoch that the person named.

    A pod whose whole volume is gone has no assignment. It takes this one, and has lost all of it.
    """

    store_id: StoreId
    partition: PartitionId
    epoch: Epoch
    assignment: StoreAssignment | None = None


class SequencesRequest(Wire, frozen=True, kw_only=True):
    """A pod tells another one the sequences of its partitions, and asks for those of the other.

    With `partition` it asks for all that the partition knows of batches, too.
    """

    store_id: StoreId
    sequences: dict[str, Sequence]
    completed: Sequence
    forgotten: Sequence = Sequence(0)
    writer_epoch: WriterEpoch = WriterEpoch(0)
    partition: PartitionId | None = None


class LastBatch(Wire, frozen=True, kw_only=True):
    """The last batch of a writer that a partition has applied."""

    writer: str
    generation: int
    batch: int
    sequence: Sequence
    one_off: bool
    writer_epoch: WriterEpoch
    wall_time_ms: int = 0  # Of its decision.


class BatchesHeld(Wire, frozen=True, kw_only=True):
    """What a partition knows of batches, applied up to `sequence`.

    Every partition has applied `completed`; one more batch may be `decided`, which is `unfinished`
    where its decision is known and goes on. The `position` is not beyond `completed` then. `inputs`
    are the components that each writer has set of it: topic, partition.
    """

    sequence: Sequence
    completed: Sequence
    decided: Sequence
    position: PositionJson
    last: tuple[LastBatch, ...]
    unfinished: LastBatch | None = None
    inputs: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


class SequencesAnswer(Wire, frozen=True, kw_only=True):
    """The sequences of a pod's partitions.

    `completed` is known to be applied everywhere. `forgotten` was decided, and partition 0 does not
    know it any more. `writer_epoch` is the highest that the pod has seen.
    """

    sequences: dict[str, Sequence]
    completed: Sequence
    forgotten: Sequence = Sequence(0)
    writer_epoch: WriterEpoch = WriterEpoch(0)
    held: BatchesHeld | None = None
