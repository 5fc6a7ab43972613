"""What a pod tells the operator of its replicas."""

from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PodName,
    Role,
    Sequence,
    StoreId,
    StoreName,
    Wire,
)
from qss_core.quantities import shown_bytes
from qss_core.wire.losses import DataLoss, LostReplica


class MigrationReport(Wire, frozen=True, kw_only=True):
    """How far a replica's rows are moved out of older formats.

    `rows_left` is an estimate; `error` says why it does not go on.
    """

    formats: tuple[str, ...]  # That rows still have.
    rows_moved: int
    rows_left: int
    error: str | None = None


class IndexReport(Wire, frozen=True, kw_only=True):
    """How far a replica's index rows are made, by this process; `rows_left` is an estimate."""

    rows_done: int
    rows_left: int


class ReplicaReport(Wire, frozen=True, kw_only=True):
    """What a pod holds of one partition. `state` is opening, serving, failed or behind.

    `completed` is told where the replica is behind: a sequence that was completed and is not here.
    `coordinated` is partition 0's: the last sequence that is complete everywhere.

    An `error` quotes no row of the store: `detail` may, and is for who may control the pod.

    `format` is the one that it answers and writes in; `migration` tells of rows in older ones,
    `index` of index rows that are made before it serves.
    """

    configuration: PartitionConfiguration
    role: Role
    state: str
    applied_offset: Offset
    end_offset: Offset
    sequence: Sequence
    error: str | None = None
    is_damaged: bool = False  # It takes no writes any more, and does not come by itself.
    detail: str | None = None
    format: str | None = None
    migration: MigrationReport | None = None
    index: IndexReport | None = None
    completed: Sequence | None = None
    coordinated: Sequence | None = None
    losses: tuple[DataLoss, ...] = ()
    accepted_in: Epoch | None = None  # The last epoch in which a loss was accepted here.


class FullVolume(Wire, frozen=True, kw_only=True):
    """A volume that has less room than is kept back: no batch is taken."""

    free_bytes: int
    kept_back_bytes: int
    size_bytes: int

    @property
    def words(self) -> str:
        """Its numbers, for a person."""
        free, size = shown_bytes(self.free_bytes), shown_bytes(self.size_bytes)
        return f"{free} free of {size}, and {shown_bytes(self.kept_back_bytes)} are kept back"

    @property
    def is_too_small(self) -> bool:
        """Whether no room that is made is enough."""
        return self.size_bytes <= self.kept_back_bytes


class ReplicasReport(Wire, frozen=True, kw_only=True):
    """What a pod holds; `version` rises at each change within one `incarnation` (process)."""

    store: StoreName
    store_id: StoreId | None
    pod: PodName
    ordinal: Ordinal
    incarnation: str
    version: int
    ready: bool
    replicas: tuple[ReplicaReport, ...]
    lost: tuple[LostReplica, ...] = ()
    full_volume: FullVolume | None = None  # None where there is room.
