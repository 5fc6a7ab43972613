"""Messages between operator, pods and writers, and the one way to encode and decode them."""

from typing import Annotated, Any, TypeVar

import msgspec

from qss_core.codes.catalogue import type_of
from qss_core.codes.error_classes import error_from_wire
from qss_core.errors import MalformedRequestError, StoreError
from qss_core.model import (
    Answer,
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
from qss_core.text import allowed_members, json_problem

Message = TypeVar("Message")
# The length is limited because the coordinator keeps the ids of each writer.
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
# The headers of an assignment.
RESOURCE_UID = "Qss-Resource-Uid"
INCARNATION = "Qss-Incarnation"
GENERATION = "Qss-Generation"


def encode(message: Any) -> bytes:
    """JSON bytes of a message."""
    return msgspec.json.encode(message)


def decode(data: bytes, kind: type[Message]) -> Message:
    """The message in JSON bytes; MalformedRequestError says which member is wrong."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequestError(
            f"the body is not a valid {kind.__name__}: {json_problem(data, error)}"
            f"{allowed_members(kind, error)}"
        ) from error


class Problem(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """RFC 9457 problem document; `details` has the members of our own."""

    title: str
    status: int
    code: str
    detail: str
    type: str = "about:blank"
    retry: str | None = None
    retry_after_ms: int | None = None
    details: dict[str, Any] = {}


def problem_of(error: StoreError) -> Problem:
    """The problem document of an error."""
    return Problem(
        type=type_of(error.code),
        title=error.code.replace("_", " ").capitalize(),
        status=error.http_status,
        code=error.code,
        detail=error.message,
        retry=error.retry.value,
        retry_after_ms=error.details.get("retry_after_ms", error.retry_after_ms),
        details={name: value for name, value in error.details.items() if name != "retry_after_ms"},
    )


def error_of(problem: Problem) -> StoreError:
    """The error of a problem document."""
    return error_from_wire(problem.code, problem.status, problem.detail, dict(problem.details))


# --- Discovery (KIP-67 StreamsMetadata, KIP-535 KeyQueryMetadata).


class Instance(Answer, frozen=True, kw_only=True):
    """One pod of a store and the partitions it serves."""

    pod: PodName
    ordinal: Ordinal
    query: str
    changelog: str
    active: tuple[PartitionId, ...]
    standby: tuple[PartitionId, ...]


class StoreMetadata(Answer, frozen=True, kw_only=True):
    """`GET /state/instances/{store}`: a client routes its requests with it."""

    definition: StoreDefinition
    instances: tuple[Instance, ...]
    assignment: tuple[PartitionConfiguration, ...]


class KeyMetadata(Answer, frozen=True, kw_only=True):
    """`GET /state/instance/{store}/{key}`: the partition of a key, and the pods that have it."""

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


class WriterOpened(Answer, frozen=True, kw_only=True):
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


class SliceResult(Answer, frozen=True, kw_only=True):
    """The result for one partition's slice of a stage request: staged, or a failure."""

    records: int = 0
    checksum: str = ""
    failure: Problem | None = None


class StageAnswer(Answer, frozen=True, kw_only=True):
    """Slice results by partition number."""

    partitions: dict[str, SliceResult]


class CommitRequest(Wire, frozen=True, kw_only=True):
    """Asks for a decision. `chunks` are those of the winning task attempts, by partition number.

    The store applies the chunks in the order of the list.
    """

    generation: int
    chunks: dict[str, tuple[ChunkReference, ...]]
    position: PositionJson
    fingerprint: Identifier  # SHA-256 in hex of the batch's raw lines in the offset log.
    replace: bool = False


class CommitAnswer(Answer, frozen=True, kw_only=True):
    """`already_applied` is true for the replay of a batch that was committed before.

    `dropped` counts, by partition, the rows that no reader sees, because they were older than
    the store's retention. The coordinator keeps the counts in memory: after a restart the answer
    to a replay may lack them.
    """

    sequence: Sequence
    already_applied: bool
    position: PositionJson
    dropped: dict[str, int] = msgspec.field(default_factory=dict)


class AbortRequest(Wire, frozen=True, kw_only=True):
    generation: int


class AbortAnswer(Answer, frozen=True, kw_only=True):
    """`decided` is true where the batch was decided already: then the abort changed nothing."""

    decided: bool


class RenewAnswer(Answer, frozen=True, kw_only=True):
    """The run is open; the coordinator closes it after this many seconds without a request."""

    closes_after_s: float


class Decision(Wire, frozen=True, kw_only=True):
    """The durable decision that a batch will be committed, with these chunks at this position."""

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
    carries_rows: bool = False  # The rows were not staged: the Decide entry has them as payload.
    forgotten: tuple[str, ...] = ()  # Writers that were deleted: every partition forgets them.


def rows_of(decision: Decision) -> int:
    """The number of rows of a batch, in all partitions."""
    return sum(one.records for chunks in decision.chunks.values() for one in chunks)


class CarriedRows(Wire, frozen=True, kw_only=True):
    """Counts of the rows that a Commit entry carries; `transactions.commands.Stage` has the same.

    `latest` is the largest time of the rows; `undated` counts versions with the batch's time.
    """

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
    rows: CarriedRows | None = None  # The entry's payload are rows; `chunks` is empty then.
    forgotten: tuple[str, ...] = ()


def partition_commit(
    decision: Decision, partition: PartitionId, rows: CarriedRows | None = None
) -> PartitionCommit:
    """A decision's part for one partition; `rows` counts the rows that the decision carries."""
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
    """Asks one pod whether the partitions in `epochs` can apply a batch.

    Each partition has to be at the sequence before `sequence`, which the batch will have.
    """

    store_id: StoreId
    epochs: dict[str, Epoch]
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch
    chunks: dict[str, tuple[ChunkReference, ...]]
    carried_bytes: int = 0  # Bytes of rows that were not staged: the commit carries them.
    sequence: Sequence | None = None


class CommitPartitionsRequest(Wire, frozen=True, kw_only=True):
    """Has one pod apply a decision to the partitions in `epochs`.

    `rows` are the slices that the decision carries for them, as Arrow IPC streams.
    """

    store_id: StoreId
    epochs: dict[str, Epoch]
    decision: Decision
    rows: dict[str, bytes] = msgspec.field(default_factory=dict)


class AbortPartitionsRequest(Wire, frozen=True, kw_only=True):
    """Has one pod drop the chunks of this and lower writer epochs from `batch` on."""

    store_id: StoreId
    epochs: dict[str, Epoch]
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch


class PartitionsAnswer(Answer, frozen=True, kw_only=True, omit_defaults=True):
    """One pod's answer by partition number: null for success, or the failure.

    `dropped` counts rows of a commit that no reader sees, because they were older than the
    store's retention, for partitions that have such rows. In the answer to a PrepareRequest
    `writer_epoch` is the highest that the pod has seen.
    """

    partitions: dict[str, Problem | None]
    writer_epoch: WriterEpoch = WriterEpoch(0)
    dropped: dict[str, int] = msgspec.field(default_factory=dict)


class ResolveRequest(Wire, frozen=True, kw_only=True):
    """Asks the coordinator whether a partition may drop old chunks of one writer's batch."""

    store_id: StoreId
    epoch: Epoch | None = None  # The epoch of partition 0 that the asking pod knows.
    writer: str
    generation: int
    batch: int
    writer_epoch: WriterEpoch


class ResolveAnswer(Answer, frozen=True, kw_only=True):
    """`verdict` is decided, dropped or open."""

    verdict: str
