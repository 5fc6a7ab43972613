"""One replica without a pod, on an engine of the test."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    StoreDefinition,
    StoreSettings,
)
from qss_store.replicas.group_sync import GroupSync
from qss_store.replicas.pod_context import LeaseMemory, PodContext
from qss_store.replicas.replica import Replica
from qss_store.replicas.views.decoded_rows import DecodedRows
from qss_store.replicas.views.uncommitted_memory import UncommittedMemory
from qss_store.replication.digest import NO_DIGEST, LogPoint
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.row_slices import slice_limits
from qss_store.storage.engine import Engine
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.stores import configuration, make_definition

BEGINNING = LogPoint(Offset(0), Epoch(0), NO_DIGEST)  # Where an empty log ends.


class _NoOlderLease:
    def at_start_s(self, lease_s: float, now_s: float) -> float:
        return lease_s

    def promise(self, lease_s: float, now_s: float) -> None:
        pass


@asynccontextmanager
async def started_replica(
    engine: Engine,
    settings: StoreSettings | None = None,
    take_out: Callable[[PartitionId], None] = lambda _: None,
    pod: int = 0,
    held: PartitionConfiguration | None = None,
    clock: SetClock | None = None,
    definition: StoreDefinition | None = None,
    lease: LeaseMemory | None = None,
) -> AsyncIterator[Replica]:
    """Partition 0 of a store with one partition, started; by default the sole one, on pod 0."""
    syncs = GroupSync()
    context = PodContext(
        incarnation="one",
        pod=Ordinal(pod),
        clock=clock or SetClock(),
        syncs=syncs,
        gate=asyncio.Lock(),
        metrics=Metrics(),
        settings=settings or StoreSettings(),
        recent=DecodedRows(Settings().decoded_rows_bytes_max),
        uncommitted=UncommittedMemory(1024 * 1024),
        take_out=take_out,
        slices=slice_limits(Settings(), is_indexed=False),
        promises={},
        lease=lease or _NoOlderLease(),
        send=lambda: None,
    )
    replica = Replica(
        definition or make_definition(partitions=1), held or configuration(0, 0), engine, context
    )
    try:
        await replica.start()
        yield replica
    finally:
        await replica.close()
        syncs.close()
