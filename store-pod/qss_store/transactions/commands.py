"""The commands of changelog entries, and their bytes.

A command is JSON in its entry's body. Rows are the entry's payload: Arrow IPC streams under the
entry's key in a column family of their own, so that a reader of the log can leave them out. A
`Stage` has the writer's slice as payload. Where a small batch carries its rows, its `Decide` has
the rows of all partitions as payload, and each `Commit` those of its own partition.
"""

from dataclasses import dataclass
from enum import IntEnum

from zlib_ng.zlib_ng import crc32

from qss_core.errors import CorruptionError, MalformedRequestError
from qss_core.model import Epoch, Sequence, Wire, WriterEpoch
from qss_core.wire.losses import BatchesHeld
from qss_core.wire.messages import CarriedRows, Decision, PartitionCommit, decode, encode
from qss_store.replication.digest import NO_DIGEST, Digest
from qss_store.replication.entries import Entry, Payload


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
    latest: int | None = None  # The largest time of the rows, where rows have times.
    undated: int = 0  # Versions without a time: they get the time of their batch.


class Abort(Wire, frozen=True, kw_only=True):
    """Drops staged chunks of this and lower writer epochs, at and above a batch.

    `only_this_batch`, which the sweeper sets, drops only the chunks of this batch and writer epoch:
    a later batch may be decided already.
    """

    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    only_this_batch: bool = False


class Barrier(Wire, frozen=True, kw_only=True):
    """The first entry of an epoch: the entries before it are settled when it is applied."""


class OpenWriter(Wire, frozen=True, kw_only=True):
    """Allots a writer epoch that is higher than `above`, the highest that any pod has seen.

    The volume of partition 0 may have lost entries that allotted writer epochs.
    """

    writer: str
    query_id: str
    run_id: str
    open_id: str
    take_over: bool
    one_off: bool
    above: WriterEpoch = WriterEpoch(0)


class Decide(Wire, frozen=True, kw_only=True):
    """Decides that all partitions commit the batch; its payload is the rows that it carries."""

    decision: Decision
    payload_bytes: int = 0


class Complete(Wire, frozen=True, kw_only=True):
    """Notes that all partitions have applied the batch of this sequence."""

    sequence: Sequence


class CloseWriter(Wire, frozen=True, kw_only=True):
    """Closes the run of this writer epoch: it decides no further batch."""

    writer: str
    writer_epoch: WriterEpoch


class ForgetWriter(Wire, frozen=True, kw_only=True):
    """Forgets a one-off writer that is done."""

    writer: str


class DeleteWriter(Wire, frozen=True, kw_only=True):
    """Forgets a writer that a person deleted, if its youngest run still has this epoch."""

    writer: str
    writer_epoch: WriterEpoch


class Commit(Wire, frozen=True, kw_only=True):
    """Makes the decided chunks of this partition visible."""

    commit: PartitionCommit


class AcceptLoss(Wire, frozen=True, kw_only=True):
    """A person accepted that the partition lost batches.

    The partition takes the batches that another partition reported; its rows stay as they are.
    """

    held: BatchesHeld
    is_salvaged: bool = False  # The database was repaired up to its damage, or created anew.


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
    """The byte of an entry that tells the type of its command."""

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
class LoggedCommand:
    """A command with its entry's epoch; `wall_time_ms` is when the active appended it."""

    epoch: Epoch
    wall_time_ms: int
    command: Command


def payload_bytes_of(command: Command) -> int:
    """The size of a command's payload."""
    match command:
        case Stage() | Decide():
            return command.payload_bytes
        case Commit(commit=PartitionCommit(rows=CarriedRows() as rows)):
            return rows.payload_bytes
        case _:
            return 0


def payload_checksum_of(command: Command, payload: bytes | memoryview) -> int:
    """The CRC-32 of a command's payload; a chunk's was computed when the chunk came."""
    if isinstance(command, Stage) and command.checksum:
        return int(command.checksum, 16)
    return crc32(payload)


def entry_of(
    logged: LoggedCommand,
    bytes_before: int,
    digest_before: Digest = NO_DIGEST,
    payload: Payload | None = None,
) -> Entry:
    """The entry of a command, behind all bytes that were appended before and their digest."""
    kind, body = _KINDS[type(logged.command)], encode(logged.command)
    return Entry(
        logged.epoch, logged.wall_time_ms, bytes_before, kind, body, digest_before, payload
    )


def command_of(entry: Entry) -> LoggedCommand:
    """The command of an entry. Raises CorruptionError."""
    try:
        command_class = _CLASSES[Kind(entry.kind)]
    except ValueError as error:
        raise CorruptionError(f"a changelog entry has the unknown kind {entry.kind}") from error
    try:
        command = decode(entry.body, command_class)
    except MalformedRequestError as error:
        raise CorruptionError(f"a changelog entry cannot be read: {error}") from error
    return LoggedCommand(entry.epoch, entry.wall_time_ms, command)
