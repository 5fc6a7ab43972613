"""Counts the changes of a published assignment: failovers, handovers and moves. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId

Joining = frozenset[tuple[PartitionId, Ordinal]]  # Replicas that moves have added.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The numbers of changes, by partition, and the moves that are under way after them.

    A move gives a partition a replica on another pod: it is done when that replica is in sync, and
    cancelled when it leaves before.
    """

    failovers: int = 0
    handovers: int = 0
    begun: int = 0
    done: int = 0
    cancelled: int = 0
    joining: Joining = frozenset()


def tally_of(
    before: Iterable[PartitionConfiguration] | None,
    after: Iterable[PartitionConfiguration] | None,
    joining: Joining = frozenset(),
) -> Tally:
    """The changes from one assignment to the next; `joining` is that of the tally before.

    An active that is replaced in a failover leaves the in-sync set, since it does not act; in a
    handover it stays in it.
    """
    old = {entry.partition: entry for entry in before or ()}
    changed = [
        (old[entry.partition], entry)
        for entry in after or ()
        if entry.partition in old and entry != old[entry.partition]
    ]
    led = [(was, now) for was, now in changed if was.active != now.active]
    handovers = sum(was.active in now.in_sync for was, now in led)
    added = {
        (now.partition, pod)
        for was, now in changed
        for pod in now.replicas
        if pod not in was.replicas
    }
    done = {(now.partition, pod) for _, now in changed for pod in now.in_sync} & joining
    cancelled = {
        (was.partition, pod)
        for was, now in changed
        for pod in was.replicas
        if pod not in now.replicas
    } & joining
    return Tally(
        failovers=len(led) - handovers,
        handovers=handovers,
        begun=len(added),
        done=len(done),
        cancelled=len(cancelled),
        joining=(joining | added) - done - cancelled,
    )
