"""Runs a plot's batches on one pod step by step, and checks what readers see.

A plot has a batch that replaces all rows, and batches that are applied in several slices; a
partition may get no rows. Every row of every state is known, so a partly applied batch is noticed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from random import Random  # noqa: TID251 a network without faults rolls no dice.
from typing import Any

import msgspec

from qss_client.chunks.chunk import Slice
from qss_core.errors import BatchClosedError, Retry, StoreError
from qss_core.formats.values import decode_value
from qss_core.model import StoreType
from qss_core.wire.messages import (
    ChunkReference,
    CommitRequest,
    OpenWriterRequest,
    WriterOpened,
    error_of,
)
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.replicas.replica import Replica
from qss_store.runtime.plugins import Extensions
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.views.read_view import ReadView
from qss_store.storage.views.versioned import VersionedView
from qss_store.transactions.commands import Stage
from qss_testing.faults.faulty_cluster import FaultyNetwork, Services, make_assignment
from qss_testing.faults.faulty_engine import Crash, Faults, MemoryDisk, failing
from qss_testing.reference.own_stores import check_index
from qss_testing.reference.plots import KEY_VALUE_PLOT, PARTITIONS, SLICES, Plot
from qss_testing.reference.versions import stored_rows

WRITER = "story"


def run_at_once(waits: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine that only yields to others, without yielding."""
    while True:
        try:
            waits.send(None)
        except StopIteration:
            return


def position_at(sequence: int) -> dict[str, dict[str, int]]:
    """The position after the first `sequence` batches."""
    if not sequence:
        return {}
    return {f"@batch.{WRITER}": {"1": sequence - 1}, "flights": {"0": sequence - 1}}


_value_of = lru_cache(maxsize=None)(decode_value)  # Each check of a row needs its value.


@dataclass(slots=True)
class Story:
    """One pod, and one query whose checkpoint knows the acknowledged batches."""

    directory: Path
    plot: Plot = KEY_VALUE_PLOT
    services: Services | None = None
    faults: Faults | None = None
    acknowledged: int = 0
    runs: int = 0
    uncommitted_seen: int = 0  # The number of checks that had staged rows.
    # A view of rows in memory is a copy, and all of it is frozen: it is read and checked once.
    is_in_memory: bool = False
    _read: dict[tuple[int, bool], ReadView] = field(default_factory=dict)
    assignment: Any = field(init=False)
    extensions: Extensions = field(init=False)  # The installed extensions.

    def __post_init__(self) -> None:
        """Assigns the plot's store to the pod."""
        placed = make_assignment(PARTITIONS, pods=1)
        self.assignment = msgspec.structs.replace(placed, definition=self.plot.definition)
        self.extensions = self.plot.extensions

    async def start(self, open_engine: OpenEngine, faults: Faults) -> None:
        """Starts the pod's process, which may crash at that."""
        self.faults = faults
        network = FaultyNetwork(Random(0), fault_rate=0.0)
        self.services = Services(
            0, self.directory, open_engine, network, extensions=self.extensions, settings=SLICES
        )
        await self.services.pod.start()
        await self.services.pod.assign(self.assignment)
        self.services.coordination.driver.go_on()

    async def stop(self) -> None:
        if self.services is not None:
            await self.services.crash()
            self.services = None

    async def tell(
        self, open_engine: OpenEngine, faults: Faults, *, is_watched: bool = True
    ) -> bool:
        """Starts the pod and a run of the query; returns whether both succeeded.

        Readers are checked at each fault, unless `is_watched` is false.
        """
        faults.look = self.check_readers if is_watched else None
        try:
            await self.start(failing(open_engine, faults), faults)
            self.check_readers(at_least=self.acknowledged)
            await self.drive()
        except Crash:
            return False
        finally:
            if faults.is_dead:
                await self.stop()
        return True

    async def tell_to_the_end(self, open_engine: OpenEngine) -> None:
        """Runs without faults to the end, and checks that a restart finds the same state."""
        assert await self.tell(open_engine, Faults())
        self.check_end()
        await self.stop()
        await self.start(open_engine, Faults())
        self.check_end()
        await self.stop()

    async def tell_after_a_crash(
        self, disk: MemoryDisk, crash_at: int, *, loses_power: bool
    ) -> None:
        """Begins on a disk that a crash left, crashes again, and then runs to the end."""
        await self.tell(disk.open, Faults(crash_at=crash_at))
        await self.stop()
        if loses_power:
            disk.lose_power()
        await self.tell_to_the_end(disk.open)

    async def happens_after(self, number: int) -> None:
        """Called after a batch; subclasses act here."""

    async def happens_at_last(self) -> None:
        """Acts once after all batches of the story."""

    # --- The driver

    async def drive(self) -> None:
        """A new run of the query: opens, and writes the batches that its checkpoint lacks."""
        assert self.services is not None
        self.runs += 1
        coordination = self.services.coordination
        request = OpenWriterRequest(
            query_id="query", run_id=f"run-{self.runs}", open_id=f"open-{self.runs}"
        )
        opened = await self.ask(lambda: coordination.open(WRITER, request))
        for number in range(self.acknowledged, len(self.plot.batches)):
            chunks = {}
            rows = self._carried(number)
            is_new = opened.last_batch is None or number > opened.last_batch
            if is_new and not rows:
                chunks = await self._stage(opened, number)
            commit = CommitRequest(
                generation=opened.generation,
                chunks=chunks,
                position={"flights": {"0": number}},
                fingerprint=f"batch-{number}",
                replace=self.plot.batches[number].replace,
            )
            await self._commit(opened, number, commit, rows)
            self.acknowledged = number + 1
            self.check_readers(at_least=self.acknowledged)
            await self.ask(partial(self.happens_after, number))
        await self.ask(self.happens_at_last)
        await self.ask(coordination.driver.finish)

    def _carried(self, number: int) -> tuple[Slice, ...]:
        """The rows of a batch that its commit carries."""
        slices = self.plot.slices[number].values()
        if not self.plot.carries_rows or any(len(of_it) > 1 for of_it in slices):
            return ()
        return tuple(one for of_it in slices for one in of_it)

    async def _commit(
        self,
        opened: WriterOpened,
        number: int,
        commit: CommitRequest,
        rows: tuple[Slice, ...],
    ) -> None:
        assert self.services is not None
        coordination = self.services.coordination
        epoch = opened.writer_epoch
        answer = await self.ask(lambda: coordination.commit(WRITER, epoch, number, commit, rows))
        assert answer.sequence == number + 1
        assert answer.position == position_at(number + 1)

    async def _stage(
        self, opened: WriterOpened, number: int
    ) -> dict[str, tuple[ChunkReference, ...]]:
        chunks: dict[str, tuple[ChunkReference, ...]] = {}
        for partition, slices in self.plot.slices[number].items():
            for index, one in enumerate(slices):
                chunk = f"{opened.writer_epoch}.t{number}-{partition}.{index}"
                await self._stage_one(opened, number, chunk, one)
                reference = ChunkReference(id=chunk, records=one.records, checksum=one.checksum)
                chunks[str(partition)] = (*chunks.get(str(partition), ()), reference)
        return chunks

    async def _stage_one(self, opened: WriterOpened, number: int, chunk: str, one: Slice) -> None:
        assert self.services is not None
        batches = self.services.batches
        stage = Stage(
            writer=WRITER,
            generation=opened.generation,
            batch=number,
            writer_epoch=opened.writer_epoch,
            chunk=chunk,
        )

        async def staged() -> None:
            answer = await batches.stage(stage, [one])
            if failure := answer.partitions[str(one.partition)].failure:
                raise error_of(failure)

        await self.ask(staged)

    async def ask(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """A request that ends with the process, repeated by the client's rules."""
        assert self.services is not None
        assert self.faults is not None
        while True:
            asked = asyncio.ensure_future(self.services.run(request()))
            died = asyncio.ensure_future(self.faults.crashed.wait())
            await asyncio.wait({asked, died}, return_when=asyncio.FIRST_COMPLETED)
            died.cancel()
            if not asked.done():
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
                raise Crash
            try:
                return asked.result()
            except BatchClosedError as error:
                raise AssertionError("a batch was applied that nobody had decided") from error
            except StoreError as error:
                if error.retry is Retry.NEVER:
                    raise
                await asyncio.sleep(0.05)

    # --- Readers

    def check_readers(self, at_least: int = 0) -> None:
        """Readers of each partition see the state of a whole batch."""
        assert self.services is not None
        for partition, replica in self.services.pod.registry.replicas.items():
            if (view := replica.view) is None:
                continue
            assert at_least <= view.sequence <= len(self.plot.batches)
            if self._is_new(partition, view):
                self._check_committed(partition, view)
            self._check_uncommitted(replica, view)

    def _is_new(self, partition: int, view: ReadView) -> bool:
        """Whether a view has to be read; notes it as read."""
        place = (partition, bool(view.staged))
        if self.is_in_memory and self._read.get(place) is view:
            return False
        self._read[place] = view
        return True

    def _check_committed(self, partition: int, view: ReadView) -> None:
        assert view.position.to_json() == position_at(view.sequence)
        state = self.plot.states[view.sequence][partition]
        assert view.stream_time == state.stream_time
        assert self._rows_of(view) == state.rows, f"a half batch at {view.sequence}"
        self._check_index(view)

    def _check_uncommitted(self, replica: Replica, committed: ReadView) -> None:
        """Readers of uncommitted rows also see the first chunks of the next batch."""
        run_at_once(replica.uncommitted.prepare(1.0))
        view = replica.uncommitted.view_of(committed)
        if not view.staged:
            assert view is committed
            return
        self.uncommitted_seen += 1
        if not self._is_new(replica.partition, view):
            return
        assert (view.sequence, view.position) == (committed.sequence, committed.position)
        states = self.plot.uncommitted[view.sequence][replica.partition]
        seen = (view.stream_time, self._rows_of(view))
        assert seen in [(one.stream_time, one.rows) for one in states]
        self._check_index(view)

    def _check_index(self, view: ReadView) -> None:
        if self.plot.definition.type is StoreType.CUSTOM:
            assert self.services is not None
            check_index(view, self.services.pod.indexing)

    def _rows_of(self, view: ReadView) -> dict[bytes, bytes]:
        if isinstance(view.rows, VersionedView):
            return stored_rows(view.rows)
        return {key: _value_of(view.format, row) for key, row in view.rows.scan()}

    def check_end(self) -> None:
        """All batches are applied once, and nothing else is left."""
        assert self.services is not None
        batches = len(self.plot.batches)
        self.check_readers(at_least=batches)
        for replica in self.services.pod.registry.replicas.values():
            indexing = self.services.pod.indexing
            families = ColumnFamilies.of(self.plot.definition, self.plot.generation, indexing)
            stream_time = replica.machine.participant.stream_time
            present = replica.engine.families()
            assert families.leftovers(present, stream_time) == []
            indexes = [] if families.index is None else [families.index]
            assert [name for name in present if name.startswith("index-")] == indexes
        coordinator = self.services.pod.registry.local(0).machine.coordinator
        assert coordinator is not None
        assert coordinator.unfinished is None
        assert (coordinator.decided, coordinator.completed) == (batches, batches)
        assert self.services.batches.staged_bytes() == 0
