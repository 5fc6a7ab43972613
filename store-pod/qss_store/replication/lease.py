"""Decides which replica may act as the active, by leases (Gray and Cheriton 1989). Pure.

An active acts while every in-sync follower supports it. Support lasts for the lease's duration,
counted from when the active *sent* the message that the follower acknowledged. A follower supports
nobody else for that duration and a tenth more, counted from when it *answered*: the tenth covers
clocks that run at different rates. Times are seconds of each process's own monotonic clock.
"""

from collections.abc import Collection, Mapping
from math import inf
from typing import NamedTuple

import msgspec

from qss_core.model import Epoch, Ordinal

DURATION_S = 5.0
MARGIN = 1.1


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """An active's support in one epoch: until when it has that of each follower."""

    epoch: Epoch
    until_s: Mapping[Ordinal, float] = {}


def supported(
    lease: Lease,
    follower: Ordinal,
    epoch: Epoch,
    sent_s: float,
    duration_s: float = DURATION_S,
) -> Lease:
    """A follower acknowledged a request of this epoch that was sent at `sent_s`."""
    if epoch != lease.epoch:
        return lease
    until_s = max(sent_s + duration_s, lease.until_s.get(follower, sent_s))
    return Lease(epoch=epoch, until_s={**lease.until_s, follower: until_s})


def may_act(lease: Lease, followers: Collection[Ordinal], now_s: float) -> bool:
    """Whether all in-sync followers support the active; check it after the work, too."""
    return all(one in lease.until_s and now_s < lease.until_s[one] for one in followers)


def left_s(lease: Lease, followers: Collection[Ordinal], now_s: float) -> float:
    """Seconds for which all of them go on to support the active; infinity where it needs none."""
    lefts = (lease.until_s.get(one, now_s) - now_s for one in followers)
    return max(0.0, min(lefts, default=inf))


class Term(NamedTuple):
    """An active's time in an epoch: the epoch, and the id of the active's process."""

    epoch: Epoch
    process: str


class Support(msgspec.Struct, frozen=True):
    """A follower's promises: by term, until when it takes part in no other active's term."""

    until_s: Mapping[Term, float]


_BEFORE = Term(Epoch(0), "")  # The term of promises that an earlier process may have given.


def started(now_s: float, duration_s: float = DURATION_S) -> Support:
    """At the start of a process, which does not know the lease that an earlier one promised."""
    return Support({_BEFORE: now_s + duration_s * MARGIN})


def answered(support: Support, term: Term, now_s: float, duration_s: float = DURATION_S) -> Support:
    """The follower acknowledges an active in its term at `now_s`."""
    until_s = max(now_s + duration_s * MARGIN, support.until_s.get(term, now_s))
    held = {one: until for one, until in support.until_s.items() if until > now_s}
    return Support({**held, term: until_s})


def released(support: Support, process: str, epoch: Epoch) -> Support:
    """A process said that it holds this epoch, durably: in earlier ones it never acts again.

    Promises to other processes stay: each of them may still act, also one of the same pod. "" is
    the name of no process.
    """
    held = {
        term: until
        for term, until in support.until_s.items()
        if not process or term.process != process or term.epoch >= epoch
    }
    return Support(held)


def is_bound(support: Support, epoch: Epoch, now_s: float) -> bool:
    """Whether a promise holds that an answer of the active of `epoch` will not end.

    That active's process releases its own promises when it answers the next active.
    """
    present = {term.process for term in support.until_s if term.epoch == epoch} - {""}
    return any(
        until > now_s and term.process not in present for term, until in support.until_s.items()
    )


def may_begin(support: Support, now_s: float) -> bool:
    """Whether a promoted follower may act: every older active has stopped by then."""
    return all(now_s >= until for until in support.until_s.values())
