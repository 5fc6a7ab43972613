"""Finds the changes of an assignment: failovers, handovers, moves, in-sync replicas. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId

Replica = tuple[PartitionId, Ordinal]
Replicas = frozenset[Replica]
_NONE: Replicas = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """A partition that another pod leads."""

    partition: PartitionId
    by: Ordinal
    before: Ordinal


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes from one assignment to the next, and the moves that are under way after them.

    A move gives a partition a replica on another pod: it is done when that replica is in sync, and
    cancelled when it leaves before.
    """

    failovers: tuple[Led, ...] = ()
    handovers: tuple[Led, ...] = ()
    begun: Replicas = _NONE
    done: Replicas = _NONE
    cancelled: Replicas = _NONE
    removed: Replicas = _NONE  # Excludes replicas of cancelled moves.
    # Replicas that left the in-sync set and remain replicas; excludes replaced actives.
    left_sync: Replicas = _NONE
    rejoined: Replicas = _NONE  # They are in sync again.
    joining: Replicas = _NONE

    @property
    def have_moves(self) -> bool:
        """Whether a replica was added, came in sync or was removed, or an active handed over."""
        return bool(
            self.handovers
            or self.begun
            or self.done
            or self.cancelled
            or self.removed
            or self.rejoined
        )


def changes_of(
    before: Iterable[PartitionConfiguration] | None,
    after: Iterable[PartitionConfiguration] | None,
    joining: Replicas = _NONE,
) -> Changes:
    """The changes from one assignment to the next; `joining` is from the changes before.

    An active that is replaced in a failover leaves the in-sync set, since it does not act; in a
    handover it stays in it.
    """
    old = {entry.partition: entry for entry in before or ()}
    changed = [
        (old[entry.partition], entry)
        for entry in after or ()
        if entry.partition in old and entry != old[entry.partition]
    ]
    led = [
        (Led(partition=now.partition, by=now.active, before=was.active), was.active in now.in_sync)
        for was, now in changed
        if was.active != now.active
    ]
    failovers = tuple(one for one, is_handed_over in led if not is_handed_over)
    held, holds = _held([was for was, _ in changed]), _held([now for _, now in changed])
    followed = _in_sync([was for was, _ in changed])
    follows = _in_sync([now for _, now in changed])
    added, gone = holds - held, held - holds
    done, cancelled = follows & joining, gone & joining
    replaced = {(one.partition, one.before) for one in failovers}
    return Changes(
        failovers=failovers,
        handovers=tuple(one for one, is_handed_over in led if is_handed_over),
        begun=added,
        done=done,
        cancelled=cancelled,
        removed=gone - cancelled,
        left_sync=(followed - follows) & holds - replaced,
        rejoined=(follows - followed) & held - joining,
        joining=(joining | added) - done - cancelled,
    )


def _held(entries: Iterable[PartitionConfiguration]) -> Replicas:
    return frozenset((entry.partition, pod) for entry in entries for pod in entry.replicas)


def _in_sync(entries: Iterable[PartitionConfiguration]) -> Replicas:
    return frozenset((entry.partition, pod) for entry in entries for pod in entry.in_sync)
