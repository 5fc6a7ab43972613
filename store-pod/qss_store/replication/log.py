"""The log of one partition: its growth, its high watermark, and its cuts. Pure.

Offsets count from 0. `end` is the next offset to be given; the entries below `watermark` are held
durably by every in-sync replica, and nothing at or above it is ever applied; `applied` is the next
entry to apply. start <= applied <= watermark <= end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from qss_core.errors import CorruptionError, NotActiveError, StaleEpochError
from qss_core.model import Epoch, Offset, Ordinal, PartitionConfiguration, Role

_FIRST = Offset(0)
FIRST_EPOCH = Epoch(1)


class Log(msgspec.Struct, frozen=True, kw_only=True):  # Each entry makes six.
    """One replica's view of the log of its partition."""

    pod: Ordinal
    configuration: PartitionConfiguration
    start: Offset = _FIRST
    end: Offset = _FIRST
    watermark: Offset = _FIRST
    applied: Offset = _FIRST
    durable: Mapping[Ordinal, Offset] = {}  # Replica -> its durable end in this epoch.
    counted: frozenset[Ordinal] = frozenset()  # Learners whose acknowledgements are waited for.

    @property
    def role(self) -> Role | None:
        """The role of this replica in its configuration."""
        return self.configuration.role_of(self.pod)


def is_sole(log: Log) -> bool:
    """Whether this replica is the only one that has to hold an entry."""
    return log.configuration.in_sync == (log.pod,) and not log.counted


def check_active(log: Log, epoch: Epoch | None = None) -> None:
    """Refuses a write that this replica may not take, or that has another `epoch`."""
    held = log.configuration
    if epoch is not None and epoch != held.epoch:
        raise stale_epoch(
            held,
            f"partition {held.partition} is in epoch {held.epoch}, the request in {epoch}",
        )
    if log.role is not Role.ACTIVE:
        raise not_active(log)


def stale_epoch(held: PartitionConfiguration, message: str) -> StaleEpochError:
    """Refuses an older or another epoch, and says which configuration holds."""
    return StaleEpochError(message, partition=held.partition, epoch=held.epoch, active=held.active)


def not_active(log: Log) -> NotActiveError:
    """Refuses a write, and says where the partition's active is."""
    held = log.configuration
    return NotActiveError(
        f"partition {held.partition} has its active on pod {held.active}: write there",
        partition=held.partition,
        epoch=held.epoch,
        active=held.active,
    )


def append(log: Log) -> tuple[Log, Offset]:
    """Gives the next entry its offset; the caller persists the entry before it acknowledges."""
    return replace(log, end=Offset(log.end + 1)), log.end


def acknowledge(log: Log, replica: Ordinal, end: Offset) -> Log:
    """Notes that a replica holds everything below `end` durably; raises the watermark with it."""
    durable = {**log.durable, replica: max(end, log.durable.get(replica, Offset(0)))}
    waited_for = log.counted.union(log.configuration.in_sync)
    everywhere = min(durable.get(member, Offset(0)) for member in waited_for)
    return replace(log, durable=durable, watermark=max(log.watermark, everywhere))


def apply_unsynced(log: Log, end: Offset) -> Log:
    """Lets a sole replica apply entries that the sync at the end of their apply makes durable."""
    assert is_sole(log), "other replicas hold only what was sent to them"
    return replace(log, watermark=max(log.watermark, end))


def applicable(log: Log) -> range:
    """The offsets that may be applied now, in order."""
    return range(log.applied, log.watermark)


def apply(log: Log, offset: Offset) -> Log:
    """Notes that an entry was applied."""
    assert log.applied == offset < log.watermark, (
        "entries are applied in order, under the watermark"
    )
    return replace(log, applied=Offset(offset + 1))


def reconfigure(log: Log, configuration: PartitionConfiguration) -> Log:
    """Takes a configuration.

    Raises StaleEpochError for a lower epoch, and for the same epoch with different content.
    """
    held = log.configuration
    if configuration == held:
        return log
    if configuration.epoch <= held.epoch:
        raise stale_epoch(
            held,
            f"partition {held.partition} holds epoch {held.epoch}; {configuration.epoch} is old",
        )
    # Acknowledgements of other replicas count in the epoch in which they were given. The own
    # durable end stays that of the last sync: a new epoch makes nothing durable.
    own = log.durable.get(log.pod, _FIRST)
    return replace(log, configuration=configuration, durable={log.pod: own}, counted=frozenset())


def cut_tail(log: Log, offset: Offset) -> Log:
    """Removes the entries from `offset` on, which the partition's active does not have.

    Raises CorruptionError where one of them is under the watermark: every in-sync replica held it,
    so this replica or the active has lost data.
    """
    if offset < log.watermark:
        raise CorruptionError(
            f"partition {log.configuration.partition}: entry {offset} differs from the active's, "
            f"and all entries below {log.watermark} were held by every in-sync replica"
        )
    durable = {replica: min(end, offset) for replica, end in log.durable.items()}
    return replace(log, end=offset, durable=durable)


def learn_watermark(log: Log, watermark: Offset) -> Log:
    """Takes the active's watermark, as far as this replica's entries are known to be the active's.

    The caller bounds `watermark` by the last entry that was compared.
    """
    assert watermark <= log.end, "an entry is under the watermark where it is held"
    return replace(log, watermark=max(log.watermark, watermark))


def owes_barrier(log: Log, last_epoch: Epoch) -> bool:
    """Whether the first entry of the held epoch must be a Barrier, and is not logged yet.

    `last_epoch` is the epoch of the log's last entry, 0 if unknown. A partition's first epoch needs
    no Barrier. The answer follows from the log, so a crash between the configuration and its
    Barrier leaves the Barrier owed.
    """
    epoch = log.configuration.epoch
    return log.role is Role.ACTIVE and epoch > FIRST_EPOCH and last_epoch < epoch


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of the applied log that is kept; the first limit that is reached counts."""

    age_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The members of one entry that truncation needs."""

    offset: Offset
    wall_time_ms: int
    bytes_before: int


def truncation_point(
    log: Log,
    entries: Iterable[Stored],
    bytes_total: int,
    open_floor: Offset | None,
    now_ms: int,
    retention: Retention,
) -> Offset:
    """The new start of the log.

    `entries` begin at the start, in order, and are read only as far as needed; an entry that is not
    given is not cut. `bytes_total` counts all bytes ever appended. Entries that are not applied are
    not cut, nor entries at or above `open_floor`, the first Stage of an open batch. While an entry
    is being applied nothing is cut: a commit reads the rows of entries far below its own.

    A wall time ahead of `now_ms` comes from a clock that was wrong, so it says nothing about the
    entry's age; the entries after it decide.
    """
    point = log.start
    if log.applied < log.watermark:
        return point
    floor = log.applied if open_floor is None else min(log.applied, open_floor)
    for entry in entries:
        if entry.offset >= floor:
            break
        is_expired = now_ms - entry.wall_time_ms > retention.age_ms
        is_oversized = bytes_total - entry.bytes_before > retention.size_bytes
        if is_expired or is_oversized:
            point = Offset(entry.offset + 1)
        elif entry.wall_time_ms <= now_ms:
            break
    return point
