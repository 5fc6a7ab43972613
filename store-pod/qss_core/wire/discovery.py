"""The facts that a pod tells of itself, beside the routes (`messages.StoreMetadata`)."""

from qss_core.model import (
    Answer,
    Epoch,
    Offset,
    Ordinal,
    PodName,
    Role,
    Sequence,
    StoreName,
    StoreType,
)
from qss_core.positions import PositionJson
from qss_core.wire.conditions import ToldConditions
from qss_core.wire.messages import Instance
from qss_core.wire.replica_reports import (
    CopyReport,
    FullVolume,
    IndexReport,
    MigrationReport,
    VolumeUse,
)
from qss_core.wire.writer_reports import WriterReport


class StoreSummary(Answer, frozen=True, kw_only=True):
    name: StoreName
    type: StoreType


class Stores(Answer, frozen=True, kw_only=True):
    """`GET /state/stores`: the stores that this pod serves."""

    stores: tuple[StoreSummary, ...]


class Instances(Answer, frozen=True, kw_only=True):
    """`GET /state/instances`: the pods of each store that this pod knows."""

    stores: dict[str, tuple[Instance, ...]]


class Lag(Answer, frozen=True, kw_only=True):
    """The lag of one replica (KIP-535 LagInfo), and the state that it has applied.

    `lagOffsets` counts entries that are logged and not applied. `lagSeconds` is the time since the
    replica was level with its active, as `maxStaleness` counts it; null if it never was.
    """

    role: Role
    epoch: Epoch
    state: str
    applied_offset: Offset
    end_offset: Offset
    lag_offsets: int
    lag_seconds: float | None
    sequence: Sequence | None
    position: PositionJson | None
    stream_time: int | None


class Lags(Answer, frozen=True, kw_only=True):
    """`GET /state/lags/{store}`: the lags by partition number."""

    pod: PodName
    ordinal: Ordinal
    partitions: dict[str, Lag]


# --- The whole store


class ReplicaStatus(Lag, frozen=True, kw_only=True):
    """One replica: its lag, the size of its database, its failure, and work under way.

    `error` quotes no row of the store.
    """

    data_bytes: int  # The approximate size of the database, memory included.
    error: str | None = None
    migration: MigrationReport | None = None
    index: IndexReport | None = None


class ReadsServed(Answer, frozen=True, kw_only=True):
    """The reads that a pod has answered since its process began (`is_read`).

    `seconds` is the sum of their latencies. `within` counts the reads whose latency was at most a
    bound, by the bounds in seconds.
    """

    count: int
    seconds: float
    within: dict[float, int]


_ROUTES_OF_ROWS = (
    "/state/stores/{",
    "/state/windows/",
    "/state/sessions/",
    "/state/versions/",
    "/state/count/",
    "/state/get/",
    "/state/query/",
)


def is_read(listener: str, route: str) -> bool:
    """Whether requests of a route of a pod's metrics read rows; discovery and status do not."""
    return listener == "query" and route.startswith(_ROUTES_OF_ROWS)


class PodStatus(Answer, frozen=True, kw_only=True):
    """One pod and its replicas by partition number. `copies` are replicas that it is copying."""

    ordinal: Ordinal
    version: str
    ready: bool
    is_leaving: bool
    replicas: dict[str, ReplicaStatus]
    copies: tuple[CopyReport, ...] = ()
    volume: VolumeUse | None = None
    full_volume: FullVolume | None = None
    reads: ReadsServed | None = None


class StoreStatus(Answer, frozen=True, kw_only=True):
    """`GET /state/status/{store}`: all pods by name; `silent` says why a pod did not answer.

    `conditions` are those of the resource, from the pod that was told them last; None where the
    operator has told no pod that answers.
    """

    pods: dict[str, PodStatus]
    silent: dict[str, str]
    conditions: ToldConditions | None = None


class LoggedBatch(Answer, frozen=True, kw_only=True):
    """A batch that all partitions have applied, as the log of partition 0 tells it."""

    sequence: Sequence
    writer: str
    batch: int
    rows: int
    committed_at_ms: int


class BatchReport(LoggedBatch, frozen=True, kw_only=True):
    """A batch that the coordinator saw. `latency_ms` is that of its commit request."""

    latency_ms: float


class StoreBatches(Answer, frozen=True, kw_only=True):
    """`GET /state/batches/{store}`: the writers, and the newest batches in order.

    The coordinator keeps `batches` in memory. `earlier` are the batches that it has not seen since
    it started, as after a failover: the log of partition 0 tells them, as far as it is kept.
    """

    writers: tuple[WriterReport, ...]
    batches: tuple[BatchReport, ...]
    earlier: tuple[LoggedBatch, ...] = ()
