"""Checks a commit request before it meets the coordinator's rules. Pure."""

from qss_client.chunks.chunk import Slice
from qss_core.errors import MalformedRequestError, TooLargeError
from qss_core.model import WriterEpoch
from qss_core.positions import BATCH_TOPICS, Position
from qss_core.wire.messages import (
    ChunkReference,
    CommitPartitionsRequest,
    CommitRequest,
    encode,
)
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.participant import Participant
from qss_store.transactions.position_limits import LESS_POSITION, check_position
from qss_store.transactions.writers import Writer


def references(
    writer_epoch: WriterEpoch, rows: tuple[Slice, ...]
) -> dict[str, tuple[ChunkReference, ...]]:
    """The chunk references of carried rows; equal for a repeat of the commit by the same run."""
    return {
        str(one.partition): (
            ChunkReference(
                id=f"{writer_epoch}.carried.0", records=one.records, checksum=one.checksum
            ),
        )
        for one in rows
    }


def check_request(request: CommitRequest, partitions: int) -> None:
    """Raises MalformedRequestError for unknown partitions, repeated chunks or reserved topics."""
    known = {str(partition) for partition in range(partitions)}
    if unknown := set(request.chunks) - known:
        raise MalformedRequestError(
            f"the store has the partitions 0..{partitions - 1}, not {sorted(unknown)[:10]}"
        )
    for partition, listed in request.chunks.items():
        if len({chunk.id for chunk in listed}) < len(listed):
            raise MalformedRequestError(
                f"a chunk is listed twice for partition {partition}: list it once"
            )
    if reserved := [topic for topic in request.position if topic.startswith(BATCH_TOPICS)]:
        raise MalformedRequestError(
            f"topics that begin with {BATCH_TOPICS} are the store's own: leave out "
            f"{reserved[0][:80]!r}"
        )


def check_position_after(
    participant: Participant,
    coordinator: Coordinator,
    held: Writer,
    batch: int,
    request: CommitRequest,
) -> None:
    """Raises TooLargeError for a batch that would make the position of partition 0 too large."""
    after = participant.position_after(
        held.name,
        (held.generation, batch),
        Position.from_json(request.position),
        replace=request.replace,
        forgotten=coordinator.forgotten_by(held.name),
    )
    check_position(participant.position, after)


def check_message(message: CommitPartitionsRequest, carried_bytes: int, bytes_max: int) -> None:
    """Raises TooLargeError for a decision that a pod would not read from its message.

    Call it before the decision is logged: nothing ends a decided batch that a pod cannot take.
    `carried_bytes` are those of the rows, which the message has in base64.
    """
    size = len(encode(message)) + 2 * carried_bytes
    if size > bytes_max:
        raise TooLargeError(
            f"the message that commits the batch would have {size} bytes, at most {bytes_max} are "
            f"read: let fewer tasks write; or its position is too large: {LESS_POSITION}"
        )
