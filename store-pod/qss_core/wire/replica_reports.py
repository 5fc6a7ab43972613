"""The report of a pod on its replicas, which the operator reads."""

from qss_core.model import (
    Answer,
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodName,
    Role,
    Sequence,
    StoreId,
    StoreName,
)
from qss_core.quantities import shown_bytes
from qss_core.version import MESSAGE_VERSION
from qss_core.wire.losses import DataLoss, LostReplica


class MigrationReport(Answer, frozen=True, kw_only=True):
    """The progress of a replica's migration out of older formats.

    `rows_left` is an estimate; `error` says why the migration stands still.
    """

    formats: tuple[str, ...]  # The older formats that rows still have.
    rows_moved: int
    rows_left: int
    error: str | None = None


class IndexReport(Answer, frozen=True, kw_only=True):
    """The progress of building an index, in rows; `rows_left` is an estimate."""

    rows_done: int
    rows_left: int


class UnlikeRows(Answer, frozen=True, kw_only=True):
    """An active and in-sync standbys whose rows differ, and nobody can tell which are right."""

    pods: tuple[Ordinal, ...]  # The active's pod is one of them.
    epoch: Epoch  # In which they were compared.
    sequence: Sequence  # The sequence of the batch after which they were compared.
    offset: Offset  # All entries below it were applied.


class ReplicaReport(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one replica. `state` is opening, serving, failed or behind.

    A replica that is behind has `completed`: a completed sequence that the replica lacks. Partition
    0 alone has `coordinated`: the last sequence that all partitions have applied.

    `error` quotes no row of the store. `detail` may quote rows: only callers with the right to
    control the pod get it.

    The replica answers and writes in `format`. `migration` reports on rows in older formats,
    `index` on the index rows that the replica makes before it serves.
    """

    configuration: PartitionConfiguration
    role: Role
    state: str
    applied_offset: Offset
    end_offset: Offset
    sequence: Sequence
    error: str | None = None
    answers: bool = False  # Readers get answers from it, also before it takes batches.
    is_damaged: bool = False  # The replica takes no writes, and cannot recover by itself.
    is_stopped: bool = False  # The replica writes only after a copy, or a restart of its pod.
    has_damage: bool = False  # A read met a damaged block; it goes on until another takes over.
    detail: str | None = None
    format: str | None = None
    migration: MigrationReport | None = None
    index: IndexReport | None = None
    completed: Sequence | None = None
    coordinated: Sequence | None = None
    losses: tuple[DataLoss, ...] = ()
    accepted_in: Epoch | None = None  # The last epoch in which a loss was accepted here.
    # An active of several replicas that has started again, or waits for a lost learner.
    asks_for_epoch: bool = False
    # An active reports in-sync followers to remove, and learners to take into the in-sync set.
    silent: tuple[Ordinal, ...] = ()
    caught_up: tuple[Ordinal, ...] = ()
    lacks_lease: bool = False  # An active that an in-sync follower has not answered for a lease.
    misses_active: bool = False  # A standby whose promise to its active has run out.
    # Whether another in-sync replica has compared its log with this one since the pod started.
    is_compared: bool = False
    # Whether, as the active, it would wait for the end of a promise that no answer can end.
    waits_for_lease: bool = False
    unlike: UnlikeRows | None = None  # Only an active reports it.


class FullVolume(Answer, frozen=True, kw_only=True):
    """A volume that is too small: the pod refuses batches, or makes no copy.

    The volume has less free space than the pod's reserve, or than the reserve and the bytes of the
    last refused batch, or of the copies that the pod should make.
    """

    free_bytes: int
    kept_back_bytes: int
    size_bytes: int
    needed_bytes: int = 0  # For the batch that was refused; 0 where every batch is.
    copy_bytes: int = 0  # For the copy that was not begun; 0 where every one has room.
    refused_copies: tuple[PartitionId, ...] = ()  # The partitions whose copies were not begun.

    @property
    def words(self) -> str:
        """The sizes as text for a person."""
        free, size = shown_bytes(self.free_bytes), shown_bytes(self.size_bytes)
        needed = f"; a batch needs {shown_bytes(self.needed_bytes)}" if self.needed_bytes else ""
        if self.copy_bytes:
            needed += f"; a copy needs {shown_bytes(self.copy_bytes)}"
        kept_back = shown_bytes(self.kept_back_bytes)
        return f"{free} free of {size}, and {kept_back} are kept back{needed}"

    @property
    def is_full(self) -> bool:
        """Whether every batch is refused."""
        return self.free_bytes < self.kept_back_bytes

    @property
    def takes_no_copy(self) -> bool:
        """Whether a copy waits for room, or would."""
        return self.is_full or self.copy_bytes > 0

    @property
    def is_too_small(self) -> bool:
        """Whether even an empty volume would have too little space for the batch or the copy."""
        return self.size_bytes <= self.kept_back_bytes + max(self.needed_bytes, self.copy_bytes)


class VolumeUse(Answer, frozen=True, kw_only=True):
    """The use of a pod's volume, as of the last measurement, in bytes."""

    room_bytes: int  # Free bytes beyond the pod's reserve.
    data_bytes: int  # In the pod's own files; other files on the volume do not count.


class CopyReport(Answer, frozen=True, kw_only=True):
    """A copy of an active's database that the pod is making; sizes in bytes."""

    partition: PartitionId
    done_bytes: int
    total_bytes: int


class ReplicasReport(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """The replicas of a pod; `version` rises at each change within one `incarnation`."""

    store: StoreName
    store_id: StoreId | None
    pod: PodName
    ordinal: Ordinal
    incarnation: str
    version: int
    ready: bool
    replicas: tuple[ReplicaReport, ...]
    lost: tuple[LostReplica, ...] = ()
    full_volume: FullVolume | None = None  # None where the volume has enough free space.
    volume: VolumeUse | None = None  # None before the first measurement.
    copies: tuple[CopyReport, ...] = ()
    # The number of pods in the assignment that the volume keeps; 0 after the pod was sent one.
    pods_kept: int = 0
    # Without an assignment: the partitions of which the volume has a database.
    unassigned: tuple[PartitionId, ...] = ()
    is_leaving: bool = False  # The pod was told to stop, and serves until others took over.
    # The version of the pod's messages, which is a header on the wire: the operator sets it.
    message_version: int = MESSAGE_VERSION

    @property
    def replicates(self) -> bool:
        """Whether the pod's program has standbys."""
        return self.message_version > 1
