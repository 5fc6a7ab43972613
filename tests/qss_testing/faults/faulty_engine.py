"""Engines whose process, machine or disk fails at the n-th thing that a pod writes."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qss_core.errors import CorruptionError, DiskFullError
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.storage.engine import Batch, Engine, FamilyView, SyncedFiles
from qss_store.storage.memory_engine import MemoryBatch, MemoryEngine


class Crash(BaseException):
    """The process ended here."""


@dataclass(slots=True)
class Faults:
    """Counts what all engines of a pod write and sync; fails from the n-th on."""

    crash_at: int = 0  # 0: never.
    full_at: int = 0
    full_times: int = 0
    # Where a process dies before a sync or before the next write is the same to its disk.
    counts_syncs: bool = True
    steps: int = 0
    look: Callable[[], None] | None = None  # Called before each step of the event loop's tasks,
    look_from: int = 0  # from this one on: what other runs have seen before need not be seen again.
    crashed: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    is_dead: bool = False

    def step(self) -> None:
        """One more; raises where it is the one that fails."""
        if self.is_dead:
            raise Crash
        with self._lock:
            self.steps += 1
            number = self.steps
        if self.look is not None and number >= self.look_from and _is_of_a_task():
            self.look()
        if self.crash_at and number >= self.crash_at:
            self.is_dead = True
            self._loop.call_soon_threadsafe(self.crashed.set)
            raise Crash
        if self.full_at <= number < self.full_at + self.full_times:
            raise DiskFullError("the volume is full")


def _is_of_a_task() -> bool:
    """Whether a task runs here, and not what it has handed over to an executor."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False  # Another thread.


class FaultyEngine:
    """An engine that does not get as far as writing when its time has come."""

    def __init__(self, inner: Engine, faults: Faults) -> None:
        self.inner = inner
        self._faults = faults

    def batch(self) -> Batch:
        """An empty batch."""
        return self.inner.batch()

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """A step."""
        self._faults.step()
        self.inner.write(batch, makes_room=makes_room)

    def mark(self) -> SyncedFiles | None:
        """What a disk would say of itself is not a step."""
        return self.inner.mark()

    def sync(self) -> None:
        """A step, in a thread of its own."""
        if self._faults.counts_syncs:
            self._faults.step()
        self.inner.sync()

    def create_family(self, family: str) -> None:
        """A step where the family is new."""
        if family not in self.inner.families():
            self._faults.step()
        self.inner.create_family(family)

    def drop_family(self, family: str) -> None:
        """A step where the family is there."""
        if family in self.inner.families():
            self._faults.step()
        self.inner.drop_family(family)

    def get(self, family: str, key: bytes) -> bytes | None:
        """Reads."""
        return self.inner.get(family, key)

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Reads."""
        return self.inner.scan(family, lower=lower, upper=upper)

    def snapshot(self, family: str) -> FamilyView:
        """Reads."""
        return self.inner.snapshot(family)

    def families(self) -> frozenset[str]:
        """Reads."""
        return self.inner.families()

    def compact_family(self, family: str, below: bytes) -> None:
        """Changes nothing that anybody sees."""
        self.inner.compact_family(family, below)

    def approximate_count(self, family: str) -> int:
        """Reads."""
        return self.inner.approximate_count(family)

    def size_bytes(self) -> int:
        """Reads."""
        return self.inner.size_bytes()

    def close(self) -> None:
        """Lets go of the files."""
        self.inner.close()


class SpoiltWhenTold(FaultyEngine):
    """Files whose damage is met by a write, as RocksDB tells of what it found meanwhile."""

    is_spoilt = False

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """As told."""
        if self.is_spoilt:
            raise CorruptionError("a block is damaged")
        super().write(batch, makes_room=makes_room)


class JournaledEngine(MemoryEngine):
    """Memory that a machine's crash takes back to its last sync.

    As in RocksDB, families come and go at once, also where rows written before are lost.
    """

    def __init__(self, journal: list[tuple[str, object]] | None = None) -> None:
        """Does again what a journal holds."""
        super().__init__()
        self.journal: list[tuple[str, object]] = []
        self._durable = 0
        for what, operand in journal or []:
            match what, operand:
                case "write", MemoryBatch():
                    self.write(operand)
                case "create", str():
                    self.create_family(operand)
                case "drop", str():
                    self.drop_family(operand)
        self.sync()

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Durable after the next sync."""
        super().write(batch, makes_room=makes_room)
        self.journal.append(("write", batch))

    def sync(self) -> None:
        """All that was written is durable."""
        self._durable = len(self.journal)

    def create_family(self, family: str) -> None:
        """Durable at once."""
        super().create_family(family)
        self.journal.append(("create", family))

    def drop_family(self, family: str) -> None:
        """Durable at once."""
        super().drop_family(family)
        self.journal.append(("drop", family))

    def after_power_loss(self) -> "JournaledEngine":
        """What the disk holds when the machine lost its power."""
        lost = self.journal[self._durable :]
        return JournaledEngine(
            self.journal[: self._durable] + [one for one in lost if one[0] != "write"]
        )


class MemoryDisk:
    """The in-memory engines of one pod, by path."""

    def __init__(self) -> None:
        self._engines: dict[Path, JournaledEngine] = {}

    def open(self, path: Path) -> Engine:
        """The engine under a path."""
        return self._engines.setdefault(path, JournaledEngine())

    def lose_power(self) -> None:
        """Takes back what was not synced."""
        self._engines = {path: held.after_power_loss() for path, held in self._engines.items()}


def failing(open_engine: OpenEngine, faults: Faults) -> OpenEngine:
    """Opens the same engines, with faults."""
    return lambda path: FaultyEngine(open_engine(path), faults)
