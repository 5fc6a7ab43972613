"""What a pod tells of its stores and replicas, beside the routes (`messages.StoreMetadata`)."""

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
from qss_core.wire.messages import Instance


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
