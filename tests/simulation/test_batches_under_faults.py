"""Batches stay whole while messages are lost, repeated and late, pods crash and drivers overlap.

Every batch writes one row in every partition under a key of its own, with the run as the value: at
the end each batch must stand in all partitions with one run's rows, or in none.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random  # noqa: TID251 seeded, and the seed is in the test's name.
from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import Slice, encode_slice
from qss_core.errors import (
    BatchClosedError,
    ChunkMissingError,
    OtherCheckpointError,
    Retry,
    StaleWriterError,
    StoreError,
)
from qss_core.wire.messages import (
    AbortRequest,
    ChunkReference,
    CommitRequest,
    OpenWriterRequest,
    WriterOpened,
    error_of,
)
from qss_store.transactions.commands import Stage
from qss_testing.faults.faulty_cluster import FaultyCluster, Services

PARTITIONS = 4
PODS = 3
SEEDS = 40
ATTEMPTS_MAX = 60


class DriverEndedError(Exception):
    """The run was fenced, or gave up."""


class Driver:
    """One run of a streaming query: opens, then writes batch after batch."""

    def __init__(
        self,
        cluster: FaultyCluster,
        random: Random,
        query: str,
        number: int,
        *,
        is_mortal: bool = True,
    ) -> None:
        self._is_mortal = is_mortal
        self.run = f"run-{number}"
        self.acknowledged: list[tuple[int, int]] = []
        self._cluster = cluster
        self._random = random
        self._query = query
        self._open_id = uuid.UUID(int=random.getrandbits(128)).hex

    async def live(self, batches: int) -> None:
        """Opens, replays what its checkpoint may have lost, and writes; dies at any point."""
        try:
            opened = await self._open()
            last = opened.last_batch
            # A checkpoint lags by up to one batch: the last one is replayed by every second run.
            replays = last is not None and self._random.random() < 0.5
            first = 0 if last is None else last if replays else last + 1
            for batch in range(first, first + batches):
                await self._write(opened, batch)
                self.acknowledged.append((opened.generation, batch))
        except DriverEndedError:
            pass

    async def _open(self) -> WriterOpened:
        request = OpenWriterRequest(
            query_id=self._query, run_id=self.run, open_id=self._open_id, take_over=True
        )
        opened = await self._ask(0, lambda pod: pod.coordination.open("writer", request))
        assert isinstance(opened, WriterOpened)
        return opened

    async def _write(self, opened: WriterOpened, batch: int) -> None:
        chunks: dict[str, tuple[ChunkReference, ...]] = {}
        rows: list[Slice] = []
        # Some partitions get no rows of some batches.
        partitions = [one for one in range(PARTITIONS) if (batch + one) % 4]
        if self._random.random() < 0.5:
            rows = [self._rows(opened, batch, partition) for partition in partitions]
        else:
            try:
                for partition in partitions:
                    chunks[str(partition)] = (await self._stage(opened, batch, partition),)
            except BatchClosedError:
                chunks = {}
        if self._is_mortal and self._random.random() < 0.05:
            await self._abort(opened, batch)
        request = CommitRequest(
            generation=opened.generation,
            chunks=chunks,
            position={"flights": {"0": batch}},
            fingerprint=f"{opened.generation}/{batch}",
        )
        epoch = opened.writer_epoch
        await self._ask(
            0,
            lambda pod: pod.coordination.commit("writer", epoch, batch, request, tuple(rows)),
        )

    def _rows(self, opened: WriterOpened, batch: int, partition: int) -> Slice:
        key = f"{opened.generation}/{batch}".encode()
        value = self.run.encode()
        rows = pa.table({"key": pa.array([key]), "value": pa.array([value])})
        return encode_slice(partition, rows)

    async def _stage(self, opened: WriterOpened, batch: int, partition: int) -> ChunkReference:
        one = self._rows(opened, batch, partition)
        stage = Stage(
            writer="writer",
            generation=opened.generation,
            batch=batch,
            writer_epoch=opened.writer_epoch,
            chunk=f"{opened.writer_epoch}.t{self._random.randrange(3)}-{batch}.0",
        )
        for _ in range(ATTEMPTS_MAX):
            answer = await self._ask(partition, lambda pod: pod.batches.stage(stage, [one]))
            result = answer.partitions[str(partition)]
            if result.failure is None:
                return ChunkReference(id=stage.chunk, records=1, checksum=one.checksum)
            error = error_of(result.failure)
            if error.retry is Retry.NEVER:
                raise error
            await asyncio.sleep(0)
        raise DriverEndedError

    async def _abort(self, opened: WriterOpened, batch: int) -> None:
        request = AbortRequest(generation=opened.generation)
        epoch = opened.writer_epoch
        await self._ask(0, lambda pod: pod.coordination.abort("writer", epoch, batch, request))
        raise DriverEndedError

    async def _ask(self, partition: int, deliver: Callable[[Services], Awaitable[Any]]) -> Any:
        """Repeats a request as the client's rules say."""
        host = self._cluster.active(partition)
        for _ in range(ATTEMPTS_MAX):
            if self._is_mortal and self._random.random() < 0.01:
                raise DriverEndedError  # It died.
            try:
                return await self._cluster.network.carry(host, deliver)
            except (StaleWriterError, OtherCheckpointError, ChunkMissingError) as error:
                raise DriverEndedError from error
            except StoreError as error:
                if error.retry is Retry.NEVER:
                    raise
                for _ in range(self._random.randrange(30)):
                    await asyncio.sleep(0)
        raise DriverEndedError


async def crash_pods(cluster: FaultyCluster, random: Random, times: int) -> None:
    """Crashes pods one after the other and starts each again a little later."""
    for _ in range(times):
        for _ in range(random.randrange(400)):
            await asyncio.sleep(0)
        ordinal = random.randrange(PODS)
        await cluster.crash(ordinal)
        for _ in range(random.randrange(50)):
            await asyncio.sleep(0)
        await cluster.start(ordinal)


def rows_by_partition(cluster: FaultyCluster) -> list[dict[str, str]]:
    """What readers see in each partition."""
    shown = []
    for partition in range(PARTITIONS):
        replica = cluster.services(int(cluster.active(partition))).pod.registry.local(partition)
        assert replica.view is not None
        shown.append(
            {key.decode(): value[8:].decode() for key, value in replica.view.snapshot.scan()}
        )
    return shown


def assert_whole(cluster: FaultyCluster, drivers: list[Driver]) -> None:
    """Every acknowledged batch is there, every batch everywhere or nowhere, of one run."""
    shown = rows_by_partition(cluster)
    runs: dict[str, set[str]] = {}
    for rows in shown:
        for batch, run in rows.items():
            runs.setdefault(batch, set()).add(run)
    for batch, of_runs in runs.items():
        assert len(of_runs) == 1, f"batch {batch} is mixed from {of_runs}"
        number = int(batch.split("/")[1])
        wanted = [(number + partition) % 4 != 0 for partition in range(PARTITIONS)]
        assert [batch in rows for rows in shown] == wanted, f"batch {batch} is not whole"
    for driver in drivers:
        for generation, number in driver.acknowledged:
            assert f"{generation}/{number}" in runs, f"acknowledged {generation}/{number} is lost"


def assert_one_state(cluster: FaultyCluster) -> None:
    """All partitions are at one sequence and position; nothing is left to do or to sweep."""
    replicas = [
        cluster.services(int(cluster.active(partition))).pod.registry.local(partition)
        for partition in range(PARTITIONS)
    ]
    coordinator = replicas[0].machine.coordinator
    assert coordinator is not None
    assert coordinator.unfinished is None
    for replica in replicas:
        assert replica.view is not None
        assert replica.view.sequence == coordinator.decided
        assert replica.view.position == replicas[0].machine.participant.position


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_every_batch_is_whole_and_no_acknowledged_one_is_lost(
    seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    cluster = FaultyCluster(tmp_path, random, partitions=PARTITIONS, pods=PODS, fault_rate=0.05)
    for ordinal in range(PODS):
        await cluster.start(ordinal)
    queries = ["query-a", "query-a", "query-b" if seed % 3 == 0 else "query-a", "query-a"]
    drivers = [Driver(cluster, random, query, number) for number, query in enumerate(queries)]

    async def later(driver: Driver, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await driver.live(batches=6)

    await asyncio.gather(
        crash_pods(cluster, random, times=random.randrange(6)),
        *(later(driver, number * random.randrange(300)) for number, driver in enumerate(drivers)),
    )
    await cluster.network.settle()
    # Faults are over: the youngest run must be able to finish.
    cluster.network.fault_rate = 0.0
    last = Driver(cluster, random, "query-c", 99, is_mortal=False)
    await last.live(batches=2)
    assert len(last.acknowledged) == 2, "the youngest run could not go on"
    assert_whole(cluster, [*drivers, last])
    await cluster.services(int(cluster.active(0))).coordination.finish()
    assert_one_state(cluster)
    for ordinal in range(PODS):
        await cluster.crash(ordinal)
        await cluster.start(ordinal)
    assert_whole(cluster, [*drivers, last])
    for ordinal in range(PODS):
        await cluster.crash(ordinal)
