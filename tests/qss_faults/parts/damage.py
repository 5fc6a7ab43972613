"""Damages the database of one partition of a pod that does not run."""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random  # noqa: TID251 a seed chooses.

_PAGE = 4096
_TORN_BYTES_MAX = 3000


def tear_wal(database: Path, random: Random) -> str | None:
    """Cuts off the end of the newest WAL."""
    wal = _newest(database.glob("*.log"))
    if wal is None:
        return None
    size = wal.stat().st_size
    cut = random.randint(1, min(size, _TORN_BYTES_MAX))
    with wal.open("r+b") as file:
        file.truncate(size - cut)
    return f"{_name(wal)}: {cut} of {size} bytes"


def hole_wal(database: Path, random: Random) -> str | None:
    """Makes one page of the newest WAL zeros; later pages stay."""
    wal = _newest(database.glob("*.log"))
    if wal is None:
        return None
    size = wal.stat().st_size
    last = (size - 1) // _PAGE
    page = random.randint(max(0, last - 4), max(0, last - 1))
    length = min(_PAGE, size - page * _PAGE)
    with wal.open("r+b") as file:
        file.seek(page * _PAGE)
        file.write(bytes(length))
    return f"{_name(wal)}: {length} bytes at {page * _PAGE} of {size}"


def flip_wal(database: Path, random: Random) -> str | None:
    """Flips a bit of the newest WAL."""
    return _flip(_newest(database.glob("*.log")), random, 1.0)


def flip_sst(database: Path, random: Random) -> str | None:
    """Flips a bit in the first half of an SST, where its rows are."""
    tables = sorted(database.glob("*.sst"))
    return _flip(random.choice(tables) if tables else None, random, 0.5)


def _flip(file: Path | None, random: Random, share: float) -> str | None:
    if file is None:
        return None
    size = file.stat().st_size
    place = random.randrange(max(1, int(size * share)))
    bit = random.randrange(8)
    with file.open("r+b") as opened:
        opened.seek(place)
        byte = opened.read(1)[0]
        opened.seek(place)
        opened.write(bytes([byte ^ 1 << bit]))
    return f"{_name(file)}: bit {bit} of byte {place} of {size}"


Damage = Callable[[Path, Random], str | None]


def _newest(files: Iterable[Path]) -> Path | None:
    """The newest file that is not empty."""
    found = [file for file in files if file.stat().st_size]
    return max(found, key=lambda file: file.name, default=None)


def _name(file: Path) -> str:
    return f"partition {file.parent.name} {file.name}"
