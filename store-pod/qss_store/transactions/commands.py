"""What the changelog's entries tell a partition to do, and their bytes.

A command is JSON in its entry's body. The rows of a `Stage`, the slice's Arrow IPC stream as the
writer sent it, lie under the entry's key in a family of their own, so that the log can be read
without them; so do those that a small batch's `Decide` (all partitions') and `Commit` (this one's)
carry.
"""

from dataclasses import dataclass
from enum import IntEnum

from qss_core.errors import CorruptionError, MalformedRequestError
from qss_core.model import Epoch, Sequence, Wire, WriterEpoch
from qss_core.wire.losses import BatchesHeld
from qss_core.wire.messages import CarriedRows, Decision, PartitionCommit, decode, encode
from qss_store.replication.entries import Entry


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
class LoggedCommand:
    """A command and what its entry says of it; `wall_time_ms` is when the active appended it."""

    epoch: Epoch
    wall_time_ms: int
    command: Command


def payload_bytes_of(command: Command) -> int:
    """Bytes of the rows that a command's entry has in the payload family."""
    match command:
        case Stage() | Decide():
            return command.payload_bytes
        case Commit(commit=PartitionCommit(rows=CarriedRows() as rows)):
            return rows.payload_bytes
        case _:
            return 0


def entry_of(logged: LoggedCommand, bytes_before: int) -> Entry:
    """The entry of a command; `bytes_before` counts all bytes that were appended before it."""
    kind = _KINDS[type(logged.command)]
    return Entry(logged.epoch, logged.wall_time_ms, bytes_before, kind, encode(logged.command))


def command_of(entry: Entry) -> LoggedCommand:
    """The command of an entry; CorruptionError where it has none."""
    try:
        command_class = _CLASSES[Kind(entry.kind)]
    except ValueError as error:
        raise CorruptionError("a changelog entry has no valid head") from error
    try:
        command = decode(entry.body, command_class)
    except MalformedRequestError as error:
        raise CorruptionError(f"a changelog entry cannot be read: {error}") from error
    return LoggedCommand(entry.epoch, entry.wall_time_ms, command)
