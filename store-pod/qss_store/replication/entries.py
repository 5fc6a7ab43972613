"""Changelog entries and their bytes.

Layout of a stored entry, integers big-endian: version (1) | kind (1) | epoch (8) | wall time in
milliseconds (8) | header length (4) | header (JSON) | payload. Only `Stage` has a payload: the
slice's Arrow IPC stream as the writer sent it. An entry's key is its offset (8).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, Offset, Sequence, Wire, WriterEpoch
from qss_core.wire import Decision, PartitionCommit, decode, encode

_VERSION = 1
_HEAD = struct.Struct(">BBQQI")


class Stage(Wire, frozen=True, kw_only=True):
    """A chunk's slice in this partition; its rows are the entry's payload."""

    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    chunk: str
    records: int
    checksum: str
    payload_bytes: int


class Abort(Wire, frozen=True, kw_only=True):
    """Drops staged chunks of this and lower writer epochs, at and above a batch.

    `only_this_batch` (the sweep) drops just the chunks of that run's batch: in a generation that
    began at a higher number, a later batch may be decided already.
    """

    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    only_this_batch: bool = False


class Barrier(Wire, frozen=True, kw_only=True):
    """The first entry of a new active: fixes the log's history at an epoch change."""


class OpenWriter(Wire, frozen=True, kw_only=True):
    """Allots a writer epoch."""

    writer: str
    query_id: str
    run_id: str
    open_id: str
    take_over: bool
    one_off: bool


class Decide(Wire, frozen=True, kw_only=True):
    """The batch will be committed, everywhere."""

    decision: Decision


class Complete(Wire, frozen=True, kw_only=True):
    """The batch of that sequence has been applied everywhere."""

    sequence: Sequence


class CloseWriter(Wire, frozen=True, kw_only=True):
    """That epoch decides nothing more."""

    writer: str
    writer_epoch: WriterEpoch


class ForgetWriter(Wire, frozen=True, kw_only=True):
    """A one-off writer that will never come back."""

    writer: str


class Commit(Wire, frozen=True, kw_only=True):
    """The decided chunks of this partition become visible."""

    commit: PartitionCommit


Command = (
    Stage | Commit | Abort | Barrier | OpenWriter | Decide | Complete | CloseWriter | ForgetWriter
)


class Kind(IntEnum):
    """The byte that says which command an entry carries."""

    STAGE = 1
    COMMIT = 2
    ABORT = 3
    BARRIER = 4
    OPEN_WRITER = 5
    DECIDE = 6
    COMPLETE = 7
    CLOSE_WRITER = 8
    FORGET_WRITER = 9


_CLASSES: dict[Kind, type[Command]] = {
    Kind.STAGE: Stage,
    Kind.COMMIT: Commit,
    Kind.ABORT: Abort,
    Kind.BARRIER: Barrier,
    Kind.OPEN_WRITER: OpenWriter,
    Kind.DECIDE: Decide,
    Kind.COMPLETE: Complete,
    Kind.CLOSE_WRITER: CloseWriter,
    Kind.FORGET_WRITER: ForgetWriter,
}
_KINDS = {command: kind for kind, command in _CLASSES.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; `wall_time_ms` is the active's clock when it was appended, for retention only."""

    epoch: Epoch
    wall_time_ms: int
    command: Command
    payload: bytes = b""


def encode_offset(offset: int) -> bytes:
    """An entry's key: byte order is offset order."""
    return offset.to_bytes(8, "big")


def decode_offset(key: bytes) -> Offset:
    """The offset that a key stands for."""
    return Offset(int.from_bytes(key, "big"))


def encode_entry(entry: Entry) -> bytes:
    """The stored bytes of an entry."""
    header = encode(entry.command)
    kind = _KINDS[type(entry.command)]
    head = _HEAD.pack(_VERSION, kind, entry.epoch, entry.wall_time_ms, len(header))
    return b"".join((head, header, entry.payload))


def decode_entry(data: bytes) -> Entry:
    """The entry in stored bytes; CorruptionError for anything else, CRC errors are RocksDB's."""
    return _decode(data, lambda start: data[start:])


def decode_command(data: bytes) -> Entry:
    """As `decode_entry`, without a copy of the payload."""
    return _decode(data, lambda _: b"")


def payload_of(data: bytes) -> memoryview:
    """The payload of a stored entry, not copied."""
    _, _, _, _, length = _HEAD.unpack_from(data)
    return memoryview(data)[_HEAD.size + length :]


def _decode(data: bytes, payload: Callable[[int], bytes]) -> Entry:
    try:
        version, kind, epoch, wall_time_ms, length = _HEAD.unpack_from(data)
        command_class = _CLASSES[Kind(kind)]
    except (struct.error, ValueError) as error:
        raise CorruptionError("a changelog entry has no valid head") from error
    if version != _VERSION:
        raise CorruptionError(
            f"a changelog entry has version {version}; this program reads {_VERSION}: upgrade it"
        )
    start = _HEAD.size + length
    command = decode(data[_HEAD.size : start], command_class)
    return Entry(Epoch(epoch), wall_time_ms, command, payload(start))
