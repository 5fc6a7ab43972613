"""Messages between operator, pods and writers, and the one way to encode and decode them."""

from typing import Annotated, Any, TypeVar

import msgspec

from qss_core.errors import MalformedRequestError, StoreError, error_from_wire
from qss_core.model import (
    Epoch,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodAddress,
    PodName,
    Role,
    Sequence,
    StoreAssignment,
    StoreDefinition,
    StoreId,
    Wire,
    WriterEpoch,
)
from qss_core.positions import PositionJson
from qss_core.text import allowed_members

Message = TypeVar("Message")
# Ids are kept for as long as their writer is: they have a limit.
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


def encode(message: Any) -> bytes:
    """JSON bytes of a message."""
    return msgspec.json.encode(message)


def decode(data: bytes, kind: type[Message]) -> Message:
    """The message in JSON bytes; MalformedRequestError says which member is wrong."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequestError(
            f"the body is not a valid {kind.__name__}: {error}{allowed_members(kind, error)}"
        ) from error


class Problem(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """RFC 9457 problem document; other members travel in `details`."""

    title: str
    status: int
    code: str
    detail: str
    type: str = "about:blank"
    retry: str | None = None
    retry_after_ms: int | None = None
    details: dict[str, Any] = {}


def problem_of(error: StoreError) -> Problem:
    """The document that tells of an error."""
    return Problem(
        title=error.code.replace("_", " ").capitalize(),
        status=error.http_status,
        code=error.code,
        detail=error.message,
        retry=error.retry.value,
        retry_after_ms=error.details.get("retry_after_ms", error.retry_after_ms),
        details={name: value for name, value in error.details.items() if name != "retry_after_ms"},
    )


def error_of(problem: Problem) -> StoreError:
    """The error that a document tells of."""
    return error_from_wire(problem.code, problem.status, problem.detail, dict(problem.details))


# --- Discovery (KIP-67 StreamsMetadata, KIP-535 KeyQueryMetadata).


class Instance(Wire, frozen=True, kw_only=True):
    """One pod of a store and the partitions it serves."""

    pod: PodName
    ordinal: Ordinal
    query: str
    changelog: str
    active: tuple[PartitionId, ...]
    standby: tuple[PartitionId, ...]


class StoreMetadata(Wire, frozen=True, kw_only=True):
    """All that a client needs to route: `GET /state/instances/{store}`."""

    definition: StoreDefinition
    instances: tuple[Instance, ...]
    assignment: tuple[PartitionConfiguration, ...]


class KeyMetadata(Wire, frozen=True, kw_only=True):
    """Where one key lives: `GET /state/instance/{store}/{key}`."""

    partition: PartitionId
    active: Instance
    standbys: tuple[Instance, ...]


def metadata_of(assignment: StoreAssignment) -> StoreMetadata:
    """The discovery document of an assignment."""

    def instance(pod: PodAddress) -> Instance:
        held = {
            role: tuple(
                c.partition for c in assignment.partitions if c.role_of(pod.ordinal) == role
            )
            for role in (Role.ACTIVE, Role.STANDBY)
        }
        return Instance(
            pod=pod.name,
            ordinal=pod.ordinal,
            query=pod.query,
            changelog=pod.changelog,
            active=held[Role.ACTIVE],
            standby=held[Role.STANDBY],
        )

    return StoreMetadata(
        definition=assignment.definition,
        instances=tuple(instance(pod) for pod in assignment.pods),
        assignment=assignment.partitions,
    )


# --- Writers and batches (store-pod/docs/batches.md).


class OpenWriterRequest(Wire, frozen=True, kw_only=True):
    """Opens a writer. `open_id` makes the request repeatable; `query_id` is Spark's checkpoint."""

    query_id: Identifier
    run_id: Identifier
    open_id: Identifier
    take_over: bool = False
    one_off: bool = False  # A batch job's writer, forgotten after seven days.


class WriterOpened(Wire, frozen=True, kw_only=True):
    """The answer to OpenWriterRequest. `last_batch` is the generation's last decided batch."""

    store_id: StoreId
    writer_epoch: WriterEpoch
    generation: int
    last_batch: int | None
    sequence: Sequence
    chunk_bytes_max: int
    metadata: StoreMetadata


class ChunkReference(Wire, frozen=True, kw_only=True, array_like=True):
    """One chunk's slice in one partition, as `[id, records, checksum]`."""

    id: str
    records: int
    checksum: str


class SliceResult(Wire, frozen=True, kw_only=True):
    """What became of one partition's slice of a stage request: staged, or a failure."""

    records: int = 0
    checksum: str = ""
    failure: Problem | None = None


class StageAnswer(Wire, frozen=True, kw_only=True):
    """Slice results by partition number."""

    partitions: dict[str, SliceResult]


class CommitRequest(Wire, frozen=True, kw_only=True):
    """Asks for a decision: the winners' chunks by partition number, in commit order."""

    generation: int
    chunks: dict[str, tuple[ChunkReference, ...]]
    position: PositionJson
    fingerprint: Identifier  # SHA-256 in hex of the batch's raw lines in the offset log.
    replace: bool = False


class CommitAnswer(Wire, frozen=True, kw_only=True):
    """`already_applied` tells a replay from the first commit.

    `dropped` are rows by partition that were older than what the store keeps, as far as the
    coordinator knows: after a restart a replay may be answered without them.
    """

    sequence: Sequence
    already_applied: bool
    position: PositionJson
    dropped: dict[str, int] = msgspec.field(default_factory=dict)


class AbortRequest(Wire, frozen=True, kw_only=True):
    generation: int


class AbortAnswer(Wire, frozen=True, kw_only=True):
    """`decided`: the batch will be, or is, committed, and the abort did nothing."""

    decided: bool


class RenewAnswer(Wire, frozen=True, kw_only=True):
    """The run is open; the coordinator closes one that it has not heard of for that long."""

    closes_after_s: float


class Decision(Wire, frozen=True, kw_only=True):
    """The durable word that a batch will be committed, with which chunks, at which position."""

    sequence: Sequence
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    chunks: dict[str, tuple[ChunkReference, ...]]
    position: PositionJson
    wall_time_ms: int
    fingerprint: str
    replace: bool
    one_off: bool = False
    carries_rows: bool = False  # They are the payload of the Decide entry, and were not staged.
    forgotten: tuple[str, ...] = ()  # Writers that were deleted: every partition forgets them.


class CarriedRows(Wire, frozen=True, kw_only=True):
    """What a Commit entry that carries its rows says of them; see `entries.Stage`."""

    records: int
    payload_bytes: int
    deletes: int = 0
    latest: int | None = None
    undated: int = 0


class PartitionCommit(Wire, frozen=True, kw_only=True):
    """A decision's part for one partition: the payload of its Commit entry."""

    sequence: Sequence
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    chunks: tuple[ChunkReference, ...]
    position: PositionJson
    wall_time_ms: int
    replace: bool
    one_off: bool = False
    rows: CarriedRows | None = None  # They are the entry's payload; `chunks` is empty then.
    forgotten: tuple[str, ...] = ()


def partition_commit(
    decision: Decision, partition: PartitionId, rows: CarriedRows | None = None
) -> PartitionCommit:
    """A decision's part for one partition; `rows` where the decision carries some for it."""
    return PartitionCommit(
        sequence=decision.sequence,
        writer=decision.writer,
        generation=decision.generation,
        batch=decision.batch,
        writer_epoch=decision.writer_epoch,
        chunks=() if decision.carries_rows else decision.chunks.get(str(partition), ()),
        position=decision.position,
        wall_time_ms=decision.wall_time_ms,
        replace=decision.replace,
        one_off=decision.one_off,
        rows=rows,
        forgotten=decision.forgotten,
    )


class PrepareRequest(Wire, frozen=True, kw_only=True):
    """Asks one pod for everything that could refuse a commit, for the partitions in `epochs`."""

    store_id: StoreId
    epochs: dict[str, Epoch]
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    chunks: dict[str, tuple[ChunkReference, ...]]
    carried_bytes: int = 0  # Of rows that were not staged: the commit brings them.
    sequence: Sequence | None = (
        None  # That the batch will have; each partition is at the one before.
    )


class CommitPartitionsRequest(Wire, frozen=True, kw_only=True):
    """Tells one pod of a decision, for the partitions in `epochs`.

    `rows` are the slices that the decision carries for them, as Arrow IPC streams.
    """

    store_id: StoreId
    epochs: dict[str, Epoch]
    decision: Decision
    rows: dict[str, bytes] = msgspec.field(default_factory=dict)


class AbortPartitionsRequest(Wire, frozen=True, kw_only=True):
    """Tells one pod that chunks of this and lower writer epochs, from `batch` on, are dropped."""

    store_id: StoreId
    epochs: dict[str, Epoch]
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch


class PartitionsAnswer(Wire, frozen=True, kw_only=True):
    """One pod's answer by partition number: null for yes, or the failure.

    `dropped` are rows of a commit that were older than what the store keeps; only partitions that
    dropped some are in it. `writer_epoch`, where it was asked to prepare, is the highest that the
    pod has seen.
    """

    partitions: dict[str, Problem | None]
    writer_epoch: WriterEpoch = WriterEpoch(0)
    dropped: dict[str, int] = msgspec.field(default_factory=dict)


class ResolveRequest(Wire, frozen=True, kw_only=True):
    """Asks the coordinator what became of old chunks of one writer's batch."""

    store_id: StoreId
    epoch: Epoch | None = None  # Of partition 0, as the asking pod knows it.
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch


class ResolveAnswer(Wire, frozen=True, kw_only=True):
    """`verdict` is decided, dropped or open."""

    verdict: str
