"""A pod's work on timers: sweeps old chunks, cuts changelogs, and deletes unread snapshots.

It measures the stalls of the pod's event loop, too.
"""

import asyncio
import logging

from qss_core.errors import DiskFullError, StoreError
from qss_core.wire.messages import ResolveAnswer, ResolveRequest
from qss_store.replicas.append_wait import outcome_of
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replicas.transfer.snapshots import Snapshots
from qss_store.runtime.loop_monitor import WORK_TICK_S, LoopMonitor
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.settings import Settings
from qss_store.transactions.commands import Abort
from qss_store.transactions.staged import StagedChunk
from qss_store.writes.coordinator_service import CoordinatorService

_LOG = logging.getLogger(__name__)


class Sweeper:
    """The pod's maintenance; each round looks at all replicas anew."""

    def __init__(
        self,
        pod: Pod,
        coordination: CoordinatorService,
        snapshots: Snapshots,
        peers: Transport,
        settings: Settings,
    ) -> None:
        self._pod = pod
        self._coordination = coordination
        self._snapshots = snapshots
        self._peers = peers
        self.settings = settings
        self.turned_at = pod.clock.monotonic_s()

    async def run(self) -> None:
        while True:
            try:
                await self.round()
            except StoreError as error:
                _LOG.warning("maintenance failed, the next round tries again: %s", error.code)
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("maintenance failed, the next round tries again")
            await asyncio.sleep(self.settings.maintenance_interval_s)

    async def round(self) -> None:
        self._coordination.driver.go_on()
        await self._snapshots.forget_unread()
        try:
            await self._coordination.writers.close_silent()
        except StoreError as error:
            _LOG.warning(
                "closing silent writers failed, the next round tries again: %s", error.code
            )
        for partition in sorted(self._pod.registry.replicas):
            replica = self._pod.registry.replicas[partition]
            if replica.view is None:
                continue
            try:
                await self._look_after(replica)
            except StoreError as error:
                # A partition whose coordinator is away must not stop the maintenance of others.
                told = "partition %s: maintenance failed, the next round tries again: %s"
                _LOG.warning(told, partition, error.code)

    async def _look_after(self, replica: Replica) -> None:
        if replica.failure is None or isinstance(replica.failure, DiskFullError):
            replica.apply_loop.cut_soon()
        if replica.failure is None and self._pod.registry.is_active(replica.partition):
            await self._sweep(replica)

    async def _sweep(self, replica: Replica) -> None:
        timeout_ms = int(self.settings.open_batch_timeout_s * 1000)
        now_ms = self._pod.clock.wall_ms()
        for chunk in replica.machine.participant.overdue(now_ms, timeout_ms):
            # Only the coordinator knows whether a decision lists the chunk.
            if (await self._resolve(chunk)).verdict == "dropped":
                abort = Abort(
                    writer=chunk.writer,
                    generation=chunk.generation,
                    batch=chunk.batch,
                    writer_epoch=chunk.writer_epoch,
                    only_this_batch=True,
                )
                await outcome_of(replica, abort)

    async def _resolve(self, chunk: StagedChunk) -> ResolveAnswer:
        request = ResolveRequest(
            store_id=self._pod.registry.placed().definition.store_id,
            epoch=self._pod.registry.configuration(0).epoch,
            writer=chunk.writer,
            generation=chunk.generation,
            batch=chunk.batch,
            writer_epoch=chunk.writer_epoch,
        )
        if self._pod.registry.is_active(0):
            return self._coordination.resolve(request)
        active = self._pod.registry.address(self._pod.registry.configuration(0).active)
        url = f"{active.changelog}/transactions/resolve"
        return await self._peers.post(url, request, ResolveAnswer, self.settings.peer_timeout_s)

    async def watch_loop(self) -> None:
        """Measures stalls of the event loop."""
        clock = self._pod.clock
        monitor = LoopMonitor(clock.monotonic_s(), clock.cpu_s())
        tick_s = WORK_TICK_S
        self.turned_at = clock.monotonic_s()
        while True:
            before = self.turned_at  # The time between two sleeps counts, too.
            await asyncio.sleep(tick_s)
            self.turned_at = clock.monotonic_s()
            self._pod.metrics.stalled(max(0.0, self.turned_at - before - tick_s))
            tick_s = monitor.next_tick_s(self.turned_at, clock.cpu_s())
