"""Decides whether a follower takes entries of its active, refuses them, or cuts its own. Pure.

The scheme is PacificA's (primary and backups with an external configuration manager), with the
comparison of logs of Raft. A follower acknowledges only what it compared with the active's log in
the active's epoch: entries behind these may come from an older active.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from zlib_ng.zlib_ng import crc32

from qss_core.errors import CorruptionError, MalformedRequestError
from qss_core.model import Epoch, Offset, PartitionConfiguration, Role
from qss_store.replication.digest import LogPoint, digest_after
from qss_store.replication.entries import decode_head
from qss_store.replication.log import Log, stale_epoch

PointAt = Callable[[Offset], LogPoint | None]  # None where the log does not reach there.


class SentEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry and its payload, in the bytes that the active stores."""

    data: bytes
    payload: bytes = b""


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """A moment of a follower's own monotonic clock, in seconds, and the process that has the clock.

    It goes with an answer to the active, and comes back with later entries.
    """

    process: str
    at_s: float


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Entries from an active; without entries it asks where the logs are equal.

    `after` is the follower's last moment that the active knew when it made this. Then everything
    acknowledged until that moment is below the `watermark`. It is None where that is not sure: the
    active's lease may have run out, or it has not begun its epoch. An active that `is_damaged` has
    a damaged block, which a copy of its database would have, too.
    """

    configuration: PartitionConfiguration
    previous: LogPoint  # Where the first entry goes.
    entries: tuple[SentEntry, ...] = ()
    watermark: Offset = Offset(0)
    after: Moment | None = None
    is_damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """The follower's log is equal to the active's up to `matched`, after these changes.

    Acknowledge `matched` after a sync.
    """

    cut_from: Offset | None  # The follower's entries from here on differ from the active's.
    first: Offset  # The offset of the first of `entries`.
    entries: tuple[SentEntry, ...]
    matched: Offset
    watermark: Offset


@dataclass(frozen=True, slots=True)
class StepBack:
    """Nothing was taken of the entries from `refused` on: the active has to send from `end` on."""

    end: Offset
    refused: Offset


def receive(log: Log, point_at: PointAt, append: Append) -> Take | StepBack:
    """Decides about an append of the epoch that the follower holds; take a newer epoch before.

    Raises StaleEpochError for another epoch, and where this replica has no follower's role,
    MalformedRequestError where the entries do not continue each other, and CorruptionError where
    the logs differ under the watermark: then the replica has to be made anew.
    """
    check_follows(log, append.configuration)
    points = _points_of(append)
    at, previous = log.start, append.previous
    if previous.offset > log.end:
        return StepBack(log.end, previous.offset)
    # Entries below the start were applied: their place can no longer be compared.
    first = max(at, previous.offset)
    if first > points[-1].offset:
        return StepBack(at, previous.offset)
    held = point_at(first)
    if held != points[first - previous.offset]:
        if first <= log.watermark:
            raise _unlike(log, first)
        return StepBack(log.watermark, previous.offset)
    return _compared(log, point_at, append, points, first)


def _compared(
    log: Log, point_at: PointAt, append: Append, points: Sequence[LogPoint], first: Offset
) -> Take:
    base = append.previous.offset
    matched = points[-1].offset
    new, cut_from = Offset(min(log.end, matched)), None
    for offset in range(first + 1, new + 1):
        if point_at(Offset(offset)) != points[offset - base]:
            new = cut_from = Offset(offset - 1)
            break
    if cut_from is not None and cut_from < log.watermark:
        raise _unlike(log, cut_from)
    return Take(
        cut_from=cut_from,
        first=new,
        entries=append.entries[new - base :],
        matched=matched,
        watermark=min(append.watermark, matched),
    )


def check_follows(log: Log, sent: PartitionConfiguration) -> None:
    """Raises StaleEpochError unless this replica follows the sender in this epoch."""
    held = log.configuration
    if sent == held and log.role not in (None, Role.ACTIVE):
        return
    raise stale_epoch(
        held,
        f"partition {held.partition} is in epoch {held.epoch} with its active on pod "
        f"{held.active}; the entries were sent in epoch {sent.epoch} by pod {sent.active}",
    )


def _points_of(append: Append) -> list[LogPoint]:
    """The places before each entry that was sent, and behind the last one."""
    points = [append.previous]
    for entry in append.entries:
        here = points[-1]
        try:
            head = decode_head(entry.data)
        except CorruptionError as error:
            raise MalformedRequestError(f"entry {here.offset}: {error.message}") from error
        if head.digest_before is not None:
            checksum = crc32(entry.payload)
            if (head.payload_bytes, head.payload_checksum) != (len(entry.payload), checksum):
                raise MalformedRequestError(f"the payload of entry {here.offset} is damaged")
            if head.digest_before != here.digest:
                raise MalformedRequestError(f"entry {here.offset} does not continue the log")
        behind = Offset(here.offset + 1)
        points.append(LogPoint(behind, Epoch(head.epoch), digest_after(entry.data)))
    return points


def _unlike(log: Log, offset: Offset) -> CorruptionError:
    return CorruptionError(
        f"partition {log.configuration.partition}: the changelog differs from the active's below "
        f"entry {offset}, and all entries below {log.watermark} were held by every in-sync replica"
    )
