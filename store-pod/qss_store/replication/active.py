"""Decides from which entry on an active sends to each replica of its partition. Pure.

`log.durable` has what each replica holds in the epoch; this module adds where to send from. The
scheme is PacificA's: an entry is held when every in-sync replica acknowledged it, and every learner
that was asked for.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from qss_core.model import Epoch, Offset, Ordinal, Role
from qss_store.replication import log as logs
from qss_store.replication.follower import StepBack
from qss_store.replication.log import Log


class Peers(msgspec.Struct, frozen=True, kw_only=True):
    """The next entry that an active sends to each replica, as an offset, in one epoch."""

    epoch: Epoch
    next: Mapping[Ordinal, Offset]


def peers_of(log: Log) -> Peers:
    """At the start of an epoch: each replica is first asked whether it has the whole log."""
    held = log.configuration
    others = (replica for replica in held.replicas if replica != log.pod)
    return Peers(epoch=held.epoch, next={one: send_until(log, one) for one in others})


def send_from(peers: Peers, log: Log, replica: Ordinal) -> Offset | None:
    """The offset of the first entry to send; None where the log no longer has it.

    Then the replica has to copy the active's database first. An in-sync replica holds all entries
    that were cut: they were under the watermark.
    """
    first = max(peers.next[replica], log.durable.get(replica, Offset(0)))
    if first < log.start:
        return log.start if replica in log.configuration.in_sync else None
    return first


def send_until(log: Log, replica: Ordinal) -> Offset:
    """The offset below which entries are sent to a replica.

    A learner that does not count gets synced entries alone. A sole active that loses its unsynced
    entries goes on in the same epoch: its learners must not hold the lost entries.
    """
    if replica in log.counted or replica in log.configuration.in_sync:
        return log.end
    return log.durable.get(log.pod, log.start)


def sent(peers: Peers, replica: Ordinal, end: Offset) -> Peers:
    """Entries below `end` are on their way: the next request begins there."""
    return replace(peers, next={**peers.next, replica: end})


def acknowledged(
    peers: Peers, log: Log, replica: Ordinal, epoch: Epoch, matched: Offset
) -> tuple[Peers, Log]:
    """A replica holds everything below `matched` durably; an answer of another epoch says nothing.

    Raises the watermark to the offset that every in-sync replica and counted learner holds.
    """
    if epoch != log.configuration.epoch or log.role is not Role.ACTIVE:
        return peers, log
    assert matched <= log.end, "a follower compares with what this active sent"
    onwards = max(matched, peers.next[replica])
    return sent(peers, replica, onwards), logs.acknowledge(log, replica, matched)


def step_back(peers: Peers, log: Log, replica: Ordinal, epoch: Epoch, back: StepBack) -> Peers:
    """A replica took nothing, and wants earlier entries.

    After a start the replica does not know its watermark, so it may ask for entries that were cut
    though it has them: the active sends from the log's start before it orders a copy.
    """
    if epoch != peers.epoch:
        return peers
    end = log.start if back.end < log.start < back.refused else min(back.end, log.end)
    return sent(peers, replica, Offset(end))


def lacks_acknowledged(log: Log, replica: Ordinal, epoch: Epoch, back: StepBack) -> bool:
    """Whether a replica asks for entries that it must have: its volume went back.

    The replica acknowledged the entries in this epoch, or is in sync and has nothing at the start
    of a log that was cut. It has to leave the in-sync set, and to be made anew.
    """
    if epoch != log.configuration.epoch:
        return False
    is_in_sync = replica in log.configuration.in_sync
    lacks_start = is_in_sync and back.end < log.start and back.refused <= log.start
    return lacks_start or back.end < log.durable.get(replica, Offset(0))


def count(log: Log, learner: Ordinal) -> Log:
    """From now on the watermark waits for the learner, too, until the next configuration.

    So a learner that is a little behind catches up, however much is written.
    """
    held = log.configuration
    assert held.role_of(learner) is Role.LEARNER, "the others are in sync, or not assigned"
    return replace(log, counted=log.counted | {learner})


def forget(log: Log, learner: Ordinal) -> Log:
    """The learner has another database, without the entries that it acknowledged in this epoch."""
    assert log.configuration.role_of(learner) is Role.LEARNER, "an in-sync replica may not forget"
    durable = {pod: end for pod, end in log.durable.items() if pod != learner}
    return replace(log, durable=durable)


def is_caught_up(log: Log, learner: Ordinal, counted_at: Offset) -> bool:
    """Whether the operator may be asked to take a learner into the in-sync set.

    `counted_at` was the log's end when the learner began to count: all later entries wait for it.
    It also has to hold the earlier entries, which may be acknowledged without it. The watermark
    does not name them: a new active's watermark is below the entries that the old active
    acknowledged.
    """
    return learner in log.counted and log.durable.get(learner, Offset(0)) >= counted_at
