"""Disks of machines: they keep what was synced, and of the rest what a power loss leaves.

A process that ends loses nothing of what it wrote. A machine without power loses writes that no
sync covered: all after some point, or (`holes`) also some before others that stay. RocksDB does not
open a write-ahead log with a hole; salvaged, it is read up to the hole.
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random  # noqa: TID251 seeded by the story.

import msgspec

from qss_core.errors import CorruptionError, DiskFullError
from qss_simulation.parts.seeded_loop import SeededLoop
from qss_simulation.parts.trace import Trace
from qss_store.storage.engine import FIXED_FAMILIES, Batch, Engine
from qss_testing.memory_engine import CHECKPOINT, MemoryBatch, MemoryEngine

_NAME = "engine-id"


class SimulatedDisk:
    """The disk of one machine, with the databases of one pod."""

    def __init__(self, loop: SeededLoop, random: Random, trace: Trace) -> None:
        """An empty disk; `random` chooses what a power loss leaves."""
        self.syncs = 0  # That are under way.
        self.heal()
        self.loop = loop
        self.trace = trace
        self._random = random
        self._files: dict[str, DatabaseFiles] = {}
        self._names = count()

    def heal(self) -> None:
        """Has room from now on, and calls nobody in the middle of a commit.

        `on_part` gets the name of a partition after each write behind which its commit goes on.
        """
        self.is_full = False
        self.on_part: Callable[[str], None] = lambda _: None

    @property
    def has_data(self) -> bool:
        """Whether it has a database."""
        return bool(self._files)

    def open(self, path: Path) -> Engine:
        """Opens a database, or makes one. Raises CorruptionError where its log has a hole."""
        files = self._files_at(path)
        if files.has_hole:
            raise CorruptionError("the write-ahead log has a hole")
        return SimulatedEngine(self, files, path.name)

    def salvage(self, path: Path) -> Engine:
        """Opens a database with what its log has before a hole."""
        files = self._files_at(path)
        files.has_hole = False
        return SimulatedEngine(self, files, path.name)

    def erase(self) -> None:
        """The volume is deleted, and another one takes its place."""
        self._files.clear()

    def lose_power(self, *, holes: bool, all_of_it: bool = False) -> None:
        """Loses writes that no sync covered: all of them, or an end of them."""
        for files in self._files.values():
            files.lose(self._random, holes=holes, all_of_it=all_of_it)

    def lose_unsynced(self) -> None:
        """Loses all writes that no sync covered."""
        for files in self._files.values():
            files.log = [
                one for at, one in enumerate(files.log) if at < files.durable or one[0] != "write"
            ]
            files.durable = len(files.log)

    def databases(self) -> list[str]:
        """The names of its databases."""
        return sorted(self._files)

    def synced_copy(self, name: str) -> "DatabaseFiles":
        """The database as a snapshot of the volume has it."""
        files = self._files[name]
        return DatabaseFiles(files.log[: files.durable])

    def files(self) -> "dict[str, DatabaseFiles]":
        """All databases, as they are."""
        return dict(self._files)

    def replace(self, files: "dict[str, DatabaseFiles]") -> None:
        """Puts other databases in the place of all."""
        self._files = dict(files)

    def swap(self, name: str, files: "DatabaseFiles") -> "DatabaseFiles":
        """Puts other files in the place of a database's; returns those that were there."""
        held, self._files[name] = self._files[name], files
        return held

    def damage(self, path: Path) -> None:
        """Makes a hole in the log of the database in a directory."""
        self._files_at(path).has_hole = True

    def _files_at(self, path: Path) -> "DatabaseFiles":
        """The files of a directory, which a salvage may rename."""
        marker = path / _NAME
        if not marker.exists():
            path.mkdir(parents=True, exist_ok=True)
            marker.write_text(str(next(self._names)))
        copied = path / CHECKPOINT
        if copied.exists():
            self._files[marker.read_text()] = DatabaseFiles.of_checkpoint(copied.read_bytes())
            copied.unlink()
        return self._files.setdefault(marker.read_text(), DatabaseFiles())


class DatabaseFiles:
    """The write-ahead log of one database, as a list of operations."""

    def __init__(self, log: list[tuple[str, object]] | None = None) -> None:
        """All of `log` is durable."""
        self.log: list[tuple[str, object]] = log or []
        self.durable = len(self.log)
        self.has_hole = False

    @classmethod
    def of_checkpoint(cls, data: bytes) -> "DatabaseFiles":
        """The database that a checkpoint's file has; all of it is durable."""
        rows = msgspec.msgpack.decode(data, type=dict[str, list[tuple[bytes, bytes]]])
        batch = MemoryBatch()
        for family, pairs in rows.items():
            batch.put_rows(family, [key for key, _ in pairs], [value for _, value in pairs])
        created: list[tuple[str, object]] = [("create", family) for family in rows]
        return cls([*created, ("write", batch)])

    def lose(self, random: Random, *, holes: bool, all_of_it: bool = False) -> None:
        """Families are made and dropped durably, as in RocksDB."""
        kept, unsynced = self.log[: self.durable], self.log[self.durable :]
        writes = sum(what == "write" for what, _ in unsynced)
        # As many of the writes stay, from the first on.
        stays = 0 if all_of_it else random.randint(0, writes)
        for what, operand in unsynced:
            if what != "write":
                kept.append((what, operand))
            elif stays > 0:
                stays -= 1
                kept.append((what, operand))
        self.has_hole = self.has_hole or (holes and len(kept) < len(self.log))
        self.log, self.durable = kept, len(kept)


class SimulatedEngine(MemoryEngine):
    """An engine over files that outlive it."""

    def __init__(self, disk: SimulatedDisk, files: DatabaseFiles, name: str = "") -> None:
        """Repeats the operations in the log; `name` is the partition's, as its directory has it."""
        super().__init__()
        self._disk = disk
        self._name = name
        self._files = files
        for what, operand in files.log:
            _REPEAT[what](self, operand)

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Durable after the next sync. Raises DiskFullError."""
        assert isinstance(batch, MemoryBatch), "a batch belongs to its engine"
        if self._disk.is_full and not makes_room:
            raise DiskFullError("the volume is full")
        super().write(batch)
        self._files.log.append(("write", batch))
        families = {family for family, _, _ in batch.writes}
        if families and not families & set(FIXED_FAMILIES):
            self._disk.on_part(self._name)

    def sync(self) -> None:
        """Makes the writes before this moment durable when the thread that syncs ends."""
        files, covered = self._files, len(self._files.log)
        self._disk.trace.note("sync")
        self._disk.syncs += 1

        def become_durable() -> None:
            self._disk.syncs -= 1
            files.durable = max(files.durable, covered)

        self._disk.loop.at_end(become_durable)

    def mark(self) -> None:
        """Syncs; there are no files to look at."""
        self.sync()

    def create_family(self, family: str) -> None:
        """Creates a family that is durable at once."""
        if family not in self.families():
            self._files.log.append(("create", family))
        super().create_family(family)

    def drop_family(self, family: str) -> None:
        """Drops a family; the drop is durable at once."""
        if family in self.families():
            self._files.log.append(("drop", family))
        super().drop_family(family)


def _write(engine: SimulatedEngine, batch: object) -> None:
    assert isinstance(batch, MemoryBatch)
    MemoryEngine.write(engine, batch)


def _create(engine: SimulatedEngine, family: object) -> None:
    MemoryEngine.create_family(engine, str(family))


def _drop(engine: SimulatedEngine, family: object) -> None:
    MemoryEngine.drop_family(engine, str(family))


_REPEAT: dict[str, Callable[[SimulatedEngine, object], None]] = {
    "write": _write,
    "create": _create,
    "drop": _drop,
}
