"""Reads a database's files without opening the database."""

import errno
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_store.storage.engine import SyncedFiles

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
# A write-ahead log consists of blocks. A record has a batch of writes, in one piece or in several,
# none of which passes the end of a block: CRC-32C, length and kind, then the bytes. A batch begins
# with the number of its first write, and says how many writes it has.
_BLOCK_BYTES = 32 * 1024
_PIECE, _BATCH = struct.Struct("<IHB"), struct.Struct("<QI")
_EMPTY, _WHOLE, _FIRST, _MIDDLE, _LAST = range(5)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def make_directory(path: Path, sync: Callable[[Path], None] = sync_directory) -> None:
    """Makes a directory and its parents, and syncs each parent."""
    if path.is_dir():
        return
    make_directory(path.parent, sync)
    path.mkdir(exist_ok=True)
    sync(path.parent)


def newest_log(path: Path) -> tuple[int, int]:
    """Number and bytes of the newest write-ahead log of a database; (0, 0) if there is none.

    Empty logs are left out: nothing in them was synced.
    """
    return max((one for one in _logs(path).items() if one[1]), default=(0, 0))


class ShortLogError(CorruptionError):
    """A database was not opened: its write-ahead log holds less than was synced."""


def check_log(path: Path, synced: SyncedFiles) -> None:
    """Raises ShortLogError if a write-ahead log holds less than was synced.

    Call it before the database is opened, which may delete the log. A missing log is no damage if a
    newer one exists: its rows are in tables.
    """
    logs = _logs(path)
    held = logs.get(synced.log_number)
    if held is None and max(logs, default=0) > synced.log_number:
        return
    if held is None:
        raise ShortLogError(
            f"the write-ahead log {synced.log_number:06}.log is gone{_newest_of(logs)}; bring the "
            "files back that hold it"
        )
    if held < synced.log_bytes:
        raise ShortLogError(
            f"the write-ahead log {synced.log_number:06}.log has {held} bytes, and "
            f"{synced.log_bytes} were synced: it was cut short"
        )


class _Hole(NamedTuple):
    """A place in a write-ahead log before which writes are missing: the log's number, and bytes."""

    log: int
    place: int


class _OtherRecordError(Exception):
    """A write-ahead log has a record of another kind than this module knows."""


def check_no_hole(path: Path) -> None:
    """Raises CorruptionError if the write-ahead logs lack writes before others.

    A power loss may keep later writes and lose earlier ones that were not synced. RocksDB refuses
    most of such logs. It opens a log that ends early although a newer log exists, and a log with
    empty pages between two records. Call it before the database is opened.
    """
    if hole := _hole_in(path):
        raise CorruptionError(
            f"the write-ahead log {hole.log:06}.log lacks writes before those at byte "
            f"{hole.place}, as after a loss of power, or by damage; bring the whole files back"
        )


def cut_behind_hole(path: Path) -> None:
    """Cuts the write-ahead logs where writes are missing, so that RocksDB reads no later ones."""
    if hole := _hole_in(path):
        for number in sorted(_logs(path), reverse=True):
            if number > hole.log:
                _log_at(path, number).unlink()
        os.truncate(_log_at(path, hole.log), hole.place)
        sync_directory(path)


def _hole_in(path: Path) -> _Hole | None:
    """The first hole; None where there is none, or a log has records of an unknown kind."""
    following: int | None = None  # The number of the next write.
    try:
        for number in sorted(_logs(path)):
            for place, first, writes in _batches_in(_log_at(path, number)):
                if following is not None and first > following:
                    return _Hole(number, place)
                following = first + writes
    except _OtherRecordError:
        return None
    return None


def _batches_in(log: Path) -> Iterator[tuple[int, int, int]]:
    """The place of each whole batch of a log, the number of its first write, and its writes."""
    block_at, begun, head = 0, -1, b""
    with log.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            for at, size, kind in _pieces_of(block):
                data_at = at + _PIECE.size
                if kind == _WHOLE and size >= _BATCH.size:  # Nearly all pieces: copy no bytes.
                    yield block_at + at, *_BATCH.unpack_from(block, data_at)
                    continue
                if kind == _FIRST:
                    begun, head = block_at + at, b""
                head += block[data_at : data_at + min(size, _BATCH.size - len(head))]
                if kind == _LAST and begun >= 0 and len(head) == _BATCH.size:
                    yield begun, *_BATCH.unpack(head)
                    begun = -1
            block_at += len(block)


def _pieces_of(block: bytes) -> list[tuple[int, int, int]]:
    """The place of each piece of a record in a block, the number of its bytes, and its kind.

    Behind an empty page, or a piece that was cut, RocksDB goes on with the next block.
    """
    found = []
    at, last = 0, len(block) - _PIECE.size
    while at <= last:
        _, size, kind = _PIECE.unpack_from(block, at)
        if kind > _LAST:
            raise _OtherRecordError
        if kind == _EMPTY or at + size > last:
            break
        found.append((at, size, kind))
        at += _PIECE.size + size
    return found


def _log_at(path: Path, number: int) -> Path:
    return path / f"{number:06}.log"


def _newest_of(logs: Mapping[int, int]) -> str:
    if not logs:
        return ""
    return f", and the newest one here is {max(logs):06}.log: these files are older than the data"


def _logs(path: Path) -> dict[int, int]:
    """The bytes of each write-ahead log, by its number."""
    logs = {}
    for file in path.glob("*.log"):
        try:
            logs[int(file.stem)] = file.stat().st_size
        except FileNotFoundError:
            continue  # It was deleted meanwhile; its rows are in tables.
    return logs


def translated_os_error(error: OSError) -> StoreError:
    """The StoreError for an OSError of a database's files or their directory."""
    if error.errno in _FULL:
        return DiskFullError(f"the volume is full: {error}")
    if error.errno in _PASSING:
        return StoreError(f"the replica's files cannot be opened now: {error}")
    return CorruptionError(f"the replica's files cannot be read or written: {error}")
