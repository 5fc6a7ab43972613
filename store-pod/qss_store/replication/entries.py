"""Changelog entries and their bytes.

Layout of a stored entry, integers big-endian: version (1) | kind (1) | epoch (8) | wall time in
milliseconds (8) | bytes before (8) | the command as JSON. An entry's key is its offset (8). The
rows of a `Stage`, the slice's Arrow IPC stream as the writer sent it, lie under the same key in a
family of their own, so that the log can be read without them; so do those that a small batch's
`Decide` (all partitions') and `Commit` (this one's) carry.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from qss_core.errors import CorruptionError, MalformedRequestError
from qss_core.model import Epoch, Offset, Sequence, Wire, WriterEpoch
from qss_core.wire.losses import BatchesHeld
from qss_core.wire.messages import CarriedRows, Decision, PartitionCommit, decode, encode

_VERSION = 1
_HEAD = struct.Struct(">BBQQQ")


class Stage(Wire, frozen=True, kw_only=True):
    """A chunk's slice in this partition; its rows are the entry's payload."""

    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    chunk: str
    records: int = 0
    checksum: str = ""
    payload_bytes: int = 0
    deletes: int = 0  # Rows without a value.
    latest: int | None = None  # The largest time of the rows, where rows have one.
    undated: int = 0  # Versions that have the time of their batch.


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
    """Allots a writer epoch, one `above` all that any pod has seen.

    Partition 0 may have gone back behind an entry that allotted one.
    """

    writer: str
    query_id: str
    run_id: str
    open_id: str
    take_over: bool
    one_off: bool
    above: WriterEpoch = WriterEpoch(0)


class Decide(Wire, frozen=True, kw_only=True):
    """The batch will be committed, everywhere; its rows are the payload where it carries them."""

    decision: Decision
    payload_bytes: int = 0


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


class DeleteWriter(Wire, frozen=True, kw_only=True):
    """A person has said that no run of the writer will come back; the one looked at is that of
    the epoch.
    """

    writer: str
    writer_epoch: WriterEpoch


class Commit(Wire, frozen=True, kw_only=True):
    """The decided chunks of this partition become visible."""

    commit: PartitionCommit


class AcceptLoss(Wire, frozen=True, kw_only=True):
    """A person has said to go on without the batches that a partition lost.

    The partition takes over what another one knows of batches; its rows stay as they are.
    """

    held: BatchesHeld
    is_salvaged: bool = False  # Its database was opened up to damage, or begun anew.


Command = (
    Stage
    | Commit
    | Abort
    | Barrier
    | OpenWriter
    | Decide
    | Complete
    | CloseWriter
    | ForgetWriter
    | DeleteWriter
    | AcceptLoss
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
    DELETE_WRITER = 10
    ACCEPT_LOSS = 11


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
    Kind.DELETE_WRITER: DeleteWriter,
    Kind.ACCEPT_LOSS: AcceptLoss,
}
_KINDS = {command: kind for kind, command in _CLASSES.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `wall_time_ms` is the active's clock when it was appended, for retention only.

    `bytes_before` counts all bytes ever appended before it: a log knows its size by its two ends.
    """

    epoch: Epoch
    wall_time_ms: int
    bytes_before: int
    command: Command

    @property
    def payload_bytes(self) -> int:
        """Bytes of the rows that the entry has in the payload family."""
        match self.command:
            case Stage() | Decide():
                return self.command.payload_bytes
            case Commit(commit=PartitionCommit(rows=CarriedRows() as rows)):
                return rows.payload_bytes
            case _:
                return 0


def encode_offset(offset: int) -> bytes:
    """An entry's key: byte order is offset order."""
    return offset.to_bytes(8, "big")


def decode_offset(key: bytes) -> Offset:
    """The offset that a key stands for."""
    return Offset(int.from_bytes(key, "big"))


def encode_entry(entry: Entry) -> bytes:
    """The stored bytes of an entry."""
    kind = _KINDS[type(entry.command)]
    head = _HEAD.pack(_VERSION, kind, entry.epoch, entry.wall_time_ms, entry.bytes_before)
    return head + encode(entry.command)


class EntryHead(NamedTuple):
    """What retention needs to know of an entry."""

    kind: int
    epoch: int
    wall_time_ms: int
    bytes_before: int


def decode_head(data: bytes) -> EntryHead:
    """The head of the entry in stored bytes; CorruptionError where it has none."""
    try:
        version, *members = _HEAD.unpack_from(data)
    except struct.error as error:
        raise CorruptionError("a changelog entry has no valid head") from error
    if version != _VERSION:
        raise CorruptionError(
            f"a changelog entry has version {version}; this program reads {_VERSION}: upgrade it"
        )
    return EntryHead(*members)


def decode_entry(data: bytes) -> Entry:
    """The entry in stored bytes; CorruptionError for anything else."""
    head = decode_head(data)
    try:
        command_class = _CLASSES[Kind(head.kind)]
    except ValueError as error:
        raise CorruptionError("a changelog entry has no valid head") from error
    try:
        command = decode(data[_HEAD.size :], command_class)
    except MalformedRequestError as error:
        raise CorruptionError(f"a changelog entry cannot be read: {error}") from error
    return Entry(Epoch(head.epoch), head.wall_time_ms, head.bytes_before, command)
