"""Engines whose process, machine or disk fails at the n-th write or sync of a pod."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sortedcontainers import SortedDict

from qss_core.errors import CorruptionError, DiskFullError
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.storage.engine import Batch, Engine, FamilyView, SyncedFiles
from qss_testing.memory_engine import MemoryBatch, MemoryEngine


class Crash(BaseException):
    """Ends the simulated process at a step."""


@dataclass(slots=True)
class Faults:
    """Counts the steps (writes and syncs) of all engines of a pod, and fails at some of them.

    Every step from `crash_at` on raises Crash; `full_times` steps from `full_at` on raise
    DiskFullError.
    """

    crash_at: int = 0  # 0: never.
    full_at: int = 0
    full_times: int = 0
    # False leaves syncs out: a crash before a sync leaves the same disk as a crash before the next
    # write.
    counts_syncs: bool = True
    steps: int = 0
    look: Callable[[], None] | None = None  # Called before each step of the event loop's tasks.
    look_from: int = 0  # The first step that calls `look`: earlier runs have looked before it.
    crashed: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    is_dead: bool = False

    def step(self) -> None:
        """Counts a step; raises where this step fails."""
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
    """Whether a task of the event loop calls, and not a thread of an executor."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False  # A thread without an event loop.


class FaultyEngine:
    """An engine that calls `Faults.step` before it writes or syncs."""

    def __init__(self, inner: Engine, faults: Faults) -> None:
        self.inner = inner
        self._faults = faults

    def batch(self) -> Batch:
        return self.inner.batch()

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        self._faults.step()
        self.inner.write(batch, makes_room=makes_room)

    def mark(self) -> SyncedFiles | None:
        return self.inner.mark()

    def sync(self) -> None:
        """Syncs after a step, in another thread."""
        if self._faults.counts_syncs:
            self._faults.step()
        self.inner.sync()

    def create_family(self, family: str) -> None:
        """Creates a new family after a step."""
        if family not in self.inner.families():
            self._faults.step()
        self.inner.create_family(family)

    def drop_family(self, family: str) -> None:
        """Drops an existing family after a step."""
        if family in self.inner.families():
            self._faults.step()
        self.inner.drop_family(family)

    def get(self, family: str, key: bytes) -> bytes | None:
        return self.inner.get(family, key)

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.inner.scan(family, lower=lower, upper=upper)

    def check_rows(self, family: str, after: bytes | None) -> tuple[bytes | None, int]:
        return self.inner.check_rows(family, after)

    def view(self, family: str) -> FamilyView:
        return self.inner.view(family)

    def families(self) -> frozenset[str]:
        return self.inner.families()

    def compact_family(self, family: str, below: bytes) -> None:
        self.inner.compact_family(family, below)

    def approximate_count(self, family: str) -> int:
        return self.inner.approximate_count(family)

    def flush(self) -> None:
        self.inner.flush()

    def checkpoint(self, path: Path) -> None:
        self.inner.checkpoint(path)

    def size_bytes(self) -> int:
        return self.inner.size_bytes()

    def close(self) -> None:
        self.inner.close()


class SpoiltWhenTold(FaultyEngine):
    """Writes raise CorruptionError while `is_spoilt`.

    RocksDB's writes raise it after RocksDB found damage in the background.
    """

    is_spoilt = False

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Raises an error while `is_spoilt` is set."""
        if self.is_spoilt:
            raise CorruptionError("a block is damaged")
        super().write(batch, makes_room=makes_room)


class Written(NamedTuple):
    """The number of operations of a journaled engine, and of those that are synced."""

    operations: int
    durable: int


class JournaledEngine(MemoryEngine):
    """An in-memory engine that loses the rows after its last sync when the machine crashes.

    As in RocksDB, creating or dropping a family is durable at once, even if rows that were written
    before are lost.
    """

    def __init__(self, journal: list[tuple[str, object]] | None = None) -> None:
        """Repeats the operations of a journal."""
        super().__init__()
        self.journal: list[tuple[str, object]] = list(journal or [])
        families: dict[str, dict[bytes, bytes]] = {name: {} for name in self._families}
        for what, operand in self.journal:
            match what, operand:
                case "write", MemoryBatch():
                    for family, key, value in operand.writes:
                        if value is None:
                            families[family].pop(key, None)
                        else:
                            families[family][key] = value
                case "create", str():
                    families.setdefault(operand, {})
                case "drop", str():
                    families.pop(operand, None)
        # Sorted once for each family.
        self._families = {name: SortedDict(rows) for name, rows in families.items()}
        self._durable = len(self.journal)

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Durable after the next sync."""
        super().write(batch, makes_room=makes_room)
        self.journal.append(("write", batch))

    def sync(self) -> None:
        """Makes all written rows durable."""
        self._durable = len(self.journal)

    def create_family(self, family: str) -> None:
        """Creates a family that is durable at once."""
        super().create_family(family)
        self.journal.append(("create", family))

    def drop_family(self, family: str) -> None:
        """Drops a family; the drop is durable at once."""
        super().drop_family(family)
        self.journal.append(("drop", family))

    def after_power_loss(self) -> "JournaledEngine":
        """The engine with the content of the disk after a power loss."""
        return self.crashed_at(self.written(), loses_power=True)

    def written(self) -> "Written":
        """The length of the journal and of its synced part."""
        return Written(len(self.journal), self._durable)

    def crashed_at(self, then: "Written", *, loses_power: bool) -> "JournaledEngine":
        """A new engine with the content of the disk after a crash at an earlier moment."""
        journal = self.journal[: then.operations]
        if not loses_power:
            left = JournaledEngine(journal)
            left._durable = then.durable
            return left
        lost = journal[then.durable :]
        return JournaledEngine(journal[: then.durable] + [one for one in lost if one[0] != "write"])


class MemoryDisk:
    """The in-memory engines of one pod, by path."""

    def __init__(self) -> None:
        self._engines: dict[Path, JournaledEngine] = {}

    def open(self, path: Path) -> Engine:
        """The engine under a path."""
        return self._engines.setdefault(path, JournaledEngine())

    def lose_power(self) -> None:
        """Loses all rows that were not synced."""
        self._engines = {path: held.after_power_loss() for path, held in self._engines.items()}

    def written(self) -> dict[Path, Written]:
        """The present content of each engine."""
        return {path: held.written() for path, held in self._engines.items()}

    def crashed_at(self, then: Mapping[Path, Written], *, loses_power: bool) -> "MemoryDisk":
        """A new disk with the content after a crash at an earlier moment of this one."""
        left = MemoryDisk()
        left._engines = {
            path: self._engines[path].crashed_at(written, loses_power=loses_power)
            for path, written in then.items()
        }
        return left


def failing(open_engine: OpenEngine, faults: Faults) -> OpenEngine:
    """Opens the same engines, with faults."""
    return lambda path: FaultyEngine(open_engine(path), faults)
