"""The configuration of a pod, and the parts that all of its replicas share."""

import asyncio
import gc
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_core.model import Ordinal, PartitionId, StoreName, StoreSettings
from qss_store.replicas.group_sync import GroupSync
from qss_store.replicas.views.decoded_rows import DecodedRows
from qss_store.replicas.views.uncommitted_memory import UncommittedMemory
from qss_store.replication.lease import Support
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.plugins import NO_EXTENSIONS, Extensions
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.row_slices import SliceLimits
from qss_store.storage.index_keys import Indexing

_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConfig:
    """The store, the ordinal and the volume of a pod."""

    store: StoreName
    ordinal: Ordinal
    directory: Path
    incarnation: str  # A new name at each start.
    resource_uid: str = ""  # The uid of the pod's resource; "" if it is unknown.
    settings: Settings = _DEFAULTS
    extensions: Extensions = NO_EXTENSIONS
    # A closed RocksDB holds the lock of its files until nothing refers to it.
    free_databases: Callable[[], object] = gc.collect


class LeaseMemory(Protocol):
    """The longest lease that a pod has promised, as its volume keeps it."""

    def at_start_s(self, lease_s: float, now_s: float) -> float:
        """The lease that an earlier process may have promised, at least `lease_s`."""

    def promise(self, lease_s: float, now_s: float) -> None:
        """Keeps a lease before it is promised. Raises DiskFullError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """The parts that all replicas of a pod share."""

    pod: Ordinal
    incarnation: str  # A new name at each start of the pod.
    clock: Clock
    syncs: GroupSync
    gate: asyncio.Lock  # One replica at a time writes rows, so that readers wait for one slice.
    metrics: Metrics
    settings: StoreSettings
    recent: DecodedRows
    uncommitted: UncommittedMemory
    take_out: Callable[[PartitionId], None]  # A failed replica calls it, see `TakingOut`.
    slices: SliceLimits  # The limits of the slices of a commit's rows.
    # By partition: the promises that this process has given to actives.
    promises: MutableMapping[PartitionId, Support]
    lease: "LeaseMemory"  # The longest lease among them, which outlives the process.
    send: Callable[[], None]  # Has the senders look for entries and watermarks of actives.
    indexing: Indexing | None = None  # Only a store of a user's own type has one.
    refusal: StoreError | None = None  # Why no replica may serve: the pod lacks the store's type.
