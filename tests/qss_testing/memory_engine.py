"""The in-memory engine: the reference that the RocksDB engine is tested against."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from sortedcontainers import SortedDict

from qss_store.storage.engine import FIXED_FAMILIES, Batch, Get

CHECKPOINT = "rows"  # The file of a checkpoint.


class MemoryBatch:
    """Writes in order; a None value deletes."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, bytes, bytes | None]] = []

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self.writes.append((family, key, value))

    def put_rows(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        self.writes.extend((family, key, value) for key, value in zip(keys, values, strict=True))

    def delete(self, family: str, key: bytes) -> None:
        self.writes.append((family, key, None))


class MemoryFamilyView:
    """A family at a moment: the engine copies the rows before it changes them."""

    def __init__(self, rows: "SortedDict[bytes, bytes]") -> None:
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._rows.get(key)
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._rows.get(key) for key in keys]

    def reader(self) -> Get:
        return self.get

    def pin(self) -> None: ...

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = self._rows.irange(lower, upper, inclusive=(True, False), reverse=reverse)
        return ((key, self._rows[key]) for key in keys)

    def close(self) -> None: ...


class MemoryEngine:
    """Families as sorted dictionaries; the rows end with the process."""

    def __init__(self) -> None:
        self._families: dict[str, SortedDict[bytes, bytes]] = {
            name: SortedDict() for name in FIXED_FAMILIES
        }
        self._shared: set[str] = set()  # Families whose rows a snapshot has, too.

    def batch(self) -> MemoryBatch:
        return MemoryBatch()

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        assert isinstance(batch, MemoryBatch), "a batch belongs to its engine"
        unknown = {family for family, _, _ in batch.writes} - self._families.keys()
        assert not unknown, f"no such family: {unknown}"
        for family in {family for family, _, _ in batch.writes} & self._shared:
            self._families[family] = self._families[family].copy()
            self._shared.remove(family)
        for family, key, value in batch.writes:
            if value is None:
                self._families[family].pop(key, None)
            else:
                self._families[family][key] = value

    def mark(self) -> None: ...

    def flush(self) -> None: ...

    def checkpoint(self, path: Path) -> None:
        """Writes all rows into one file."""
        rows = {name: list(family.items()) for name, family in self._families.items()}
        path.mkdir()
        (path / CHECKPOINT).write_bytes(msgspec.msgpack.encode(rows))

    def sync(self) -> None: ...

    def get(self, family: str, key: bytes) -> bytes | None:
        value: bytes | None = self._families[family].get(key)
        return value

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = self._families[family]
        keys = rows.irange(lower, upper, inclusive=(True, False))
        return iter([(key, rows[key]) for key in keys])

    def view(self, family: str) -> MemoryFamilyView:
        self._shared.add(family)
        return MemoryFamilyView(self._families[family])

    def check_rows(self, _family: str, _after: bytes | None) -> tuple[bytes | None, int]:
        """It has no files that could be damaged."""
        return None, 0

    def families(self) -> frozenset[str]:
        return frozenset(self._families)

    def create_family(self, family: str) -> None:
        self._families.setdefault(family, SortedDict())

    def drop_family(self, family: str) -> None:
        self._families.pop(family, None)
        self._shared.discard(family)

    def compact_family(self, family: str, below: bytes) -> None:
        """Does nothing: deleted rows are not kept."""

    def approximate_count(self, family: str) -> int:
        return len(self._families[family])

    def size_bytes(self) -> int:
        return sum(
            len(key) + len(value)
            for family in self._families.values()
            for key, value in family.items()
        )

    def close(self) -> None: ...
