"""One pod with its internal and query ports, whose process may end at any write."""

import asyncio
import shutil
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from qss_core.model import StoreDefinition, StoreSettings
from qss_store.http.query.app import make_query_app
from qss_store.http.server import make_runner
from qss_store.runtime.peer_client import PeerSession
from qss_store.runtime.settings import Settings
from qss_store.storage.engine import Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.clients.http import Api
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.faults.faulty_engine import Faults, MemoryDisk, failing
from qss_testing.pods.ports import port_of
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import HOST, WriteCluster

SETTINGS = Settings()
_BUDGET_BYTES = 8 * 1024 * 1024


def _budget() -> MemoryBudget:
    return MemoryBudget.of(cache_bytes=_BUDGET_BYTES, write_buffer_bytes=2 * _BUDGET_BYTES)


@dataclass(slots=True)
class OnePod:
    """A store on one pod; `engine` is `memory` or `rocksdb`."""

    directory: Path
    engine: str
    cluster: WriteCluster
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    budget: MemoryBudget = field(default_factory=_budget)
    faults: Faults = field(default_factory=Faults)
    queries: Api | None = None
    _volumes: "count[int]" = field(default_factory=lambda: count(1))

    @classmethod
    async def started(cls, definition: StoreDefinition, directory: Path, engine: str) -> "OnePod":
        """A new store with all partitions on the pod."""
        cluster = WriteCluster(
            definition,
            directory / "0",
            aiohttp.ClientSession(),
            SETTINGS,
            StoreSettings(),
            SetClock(),
            _nothing_yet,
        )
        pod = cls(directory, engine, cluster)
        await pod._start()
        await cluster.assign([configuration(p, 0) for p in range(definition.partitions)])
        return pod

    @property
    def api(self) -> Api:
        assert self.queries is not None, "it was started"
        return self.queries

    @property
    def clock(self) -> SetClock:
        clock = self.cluster.clock
        assert isinstance(clock, SetClock)
        return clock

    # --- Life

    async def _start(self) -> None:
        self.faults = Faults(counts_syncs=False)
        self.cluster.open_engine = failing(self._open, self.faults)
        if self.cluster.session.closed:
            self.cluster.session = aiohttp.ClientSession()
        held = await self.cluster.start_pod(0)
        peers = await held.stack.enter_async_context(PeerSession())
        runner = await make_runner(make_query_app(held.services, peers), HOST, 0)
        held.stack.push_async_callback(runner.cleanup)
        self.queries = Api(self.cluster.session, f"http://{HOST}:{port_of(runner)}")

    def _open(self, path: Path) -> Engine:
        if self.engine == "memory":
            return self.disk.open(Path(path.name))
        # Without background writes a copy of the directory at rest is complete.
        return RocksDbEngine(path, self.budget, compacts=False)

    async def stop(self) -> None:
        """Ends the process without a crash."""
        await self.cluster.session.close()
        await self.cluster.stop_pod(0)

    async def restart(self) -> None:
        await self.stop()
        await self._start()

    async def crash(self, *, loses_power: bool = False) -> None:
        """Ends the process at once, and starts another one on its disk.

        `loses_power`: rows without a sync are lost; only the memory engine loses them, not RocksDB.
        """
        self.faults.is_dead = True
        volume = self.cluster.volume
        if self.engine == "memory":
            if loses_power:
                self.disk.lose_power()
        else:
            self.cluster.volume = self.directory / str(next(self._volumes))
            shutil.copytree(volume, self.cluster.volume)
        # Tasks that wait for the log would block the end of the listeners.
        await self.cluster.pods[0].pod.close()
        await self.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if volume != self.cluster.volume:
            shutil.rmtree(volume)
        await self._start()

    async def crash_during(
        self, work: Coroutine[Any, Any, Any], writes: int, *, loses_power: bool = False
    ) -> None:
        """Starts work, and crashes at its n-th write, or after it if it has fewer writes."""
        self.faults.crash_at = self.faults.steps + writes
        task, crashed = (
            asyncio.ensure_future(work),
            asyncio.ensure_future(self.faults.crashed.wait()),
        )
        await asyncio.wait({task, crashed}, return_when=asyncio.FIRST_COMPLETED)
        crashed.cancel()
        has_ended = task.done() and not self.faults.is_dead
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if has_ended:
            task.result()
        await self.crash(loses_power=loses_power)

    # --- The operator's part

    async def change_format(self, target: str) -> None:
        """Assigns another format to the pod."""
        self.cluster.definition = msgspec.structs.replace(self.cluster.definition, format=target)
        await self.cluster.assign(self.cluster.configurations)

    # --- The background part

    async def move_rows(self, partition: int, rows: int) -> bool:
        """Takes one step of a partition's migration; returns whether rows were left to move."""
        return await self.cluster.replica(partition).format_change.move_rows(rows) is not None

    async def move_all_rows(self, partition: int) -> None:
        """All steps of a migration, two rows at a time."""
        await self.cluster.replica(partition).migration.compact()
        while await self.move_rows(partition, 2):
            pass


def _nothing_yet(path: Path) -> Engine:
    raise AssertionError(f"{path} is opened before the pod is started")
