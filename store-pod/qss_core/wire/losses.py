"""Messages about lost batches: pods compare their sequences, and a person accepts a loss."""

from msgspec import field

from qss_core.model import (
    Answer,
    Epoch,
    PartitionConfiguration,
    PartitionId,
    Sequence,
    StoreAssignment,
    StoreId,
    Wire,
    WriterEpoch,
)
from qss_core.positions import PositionJson


class DataLoss(Answer, frozen=True, kw_only=True):
    """Batches that a partition lacks, by sequence, and the epoch in which a person accepted it.

    `last` is below `first` where the number of lost batches is unknown.
    """

    first: Sequence
    last: Sequence
    epoch: Epoch


class LostReplica(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """A partition that a pod held and cannot open, and why.

    The pod tries again to open a partition that `is_waiting` for room on its volume, or for a lock.
    The rows of a partition that `is_misplaced` are on another volume, or elsewhere on this one.
    `configuration` is that of the assignment on the volume; an older pod does not tell it.
    """

    partition: PartitionId
    error: str
    is_waiting: bool = False
    is_misplaced: bool = False
    configuration: PartitionConfiguration | None = None


class AcceptLossRequest(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A person accepts that a partition lost data, in the epoch that the person named.

    A pod whose volume lost its assignment takes `assignment`. It compares with the other pods, and
    then serves the partitions that the volume still holds; the others are lost.
    """

    store_id: StoreId
    partition: PartitionId
    epoch: Epoch
    assignment: StoreAssignment | None = None


class SequencesRequest(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The sequences of a pod's partitions; the other pod answers with the sequences of its own.

    `completed`, `forgotten` and `writer_epoch` are as in SequencesAnswer. With
    `partition` the answer has all that this partition knows of batches, too.
    """

    store_id: StoreId
    sequences: dict[str, Sequence]
    completed: Sequence
    forgotten: Sequence = Sequence(0)
    writer_epoch: WriterEpoch = WriterEpoch(0)
    partition: PartitionId | None = None


class ConfigurationsRequest(Wire, frozen=True, kw_only=True):
    """The epochs, by partition, of the replicas of a pod; another pod may know newer ones."""

    store_id: StoreId
    epochs: dict[str, Epoch]


class ConfigurationsAnswer(Answer, frozen=True, kw_only=True):
    """The configurations that are newer than the request's."""

    newer: tuple[PartitionConfiguration, ...]


class LastBatch(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The last batch of a writer that a partition has applied."""

    writer: str
    generation: int
    batch: int
    sequence: Sequence
    one_off: bool
    writer_epoch: WriterEpoch
    wall_time_ms: int = 0  # The wall time of the batch's decision.


class BatchesHeld(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The batches in the log of a partition that has applied batches up to `sequence`.

    A log entry has it where a person accepts a loss: so an unknown member is refused.

    Every partition has applied `completed`. `decided` may be one above `completed`; `unfinished` is
    that batch if its decision is known, and `position` then leaves that batch out. `inputs` are the
    components of the position (topic, partition) that each writer has set.
    """

    sequence: Sequence
    completed: Sequence
    decided: Sequence
    position: PositionJson
    last: tuple[LastBatch, ...]
    unfinished: LastBatch | None = None
    inputs: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


class SequencesAnswer(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The sequences of a pod's partitions.

    All partitions have applied `completed`. `forgotten` is the highest sequence that was decided
    but is missing from partition 0's log; 0 where none is missing. `writer_epoch` is the highest
    that the pod has seen. `held` answers for the partition that the request named.
    """

    sequences: dict[str, Sequence]
    completed: Sequence
    forgotten: Sequence = Sequence(0)
    writer_epoch: WriterEpoch = WriterEpoch(0)
    held: BatchesHeld | None = None
