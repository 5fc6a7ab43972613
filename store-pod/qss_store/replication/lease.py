"""Who may act as the active, by the clocks of both sides (Gray and Cheriton 1989). Pure.

An active acts while every in-sync follower supports it. Support lasts for the lease's duration,
counted from when the active *sent* what the follower acknowledged. A follower supports nobody else
for that duration and a tenth more, counted from when it *answered*: the tenth covers clocks that
run at different rates. Times are seconds of each process's own monotonic clock.
"""

from collections.abc import Collection, Mapping

import msgspec

from qss_core.model import Epoch, Ordinal

DURATION_S = 5.0
_MARGIN = 1.1


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """An active's support in one epoch: when it sent what each follower acknowledged last."""

    epoch: Epoch
    sent_s: Mapping[Ordinal, float] = {}


def supported(lease: Lease, follower: Ordinal, epoch: Epoch, sent_s: float) -> Lease:
    """A follower acknowledged a request of this epoch that was sent at `sent_s`."""
    if epoch != lease.epoch:
        return lease
    latest = max(sent_s, lease.sent_s.get(follower, sent_s))
    return Lease(epoch=epoch, sent_s={**lease.sent_s, follower: latest})


def may_act(
    lease: Lease, followers: Collection[Ordinal], now_s: float, duration_s: float = DURATION_S
) -> bool:
    """Whether all in-sync followers support the active; check it after the work, too."""
    return all(one in lease.sent_s and now_s < lease.sent_s[one] + duration_s for one in followers)


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """A follower's promise: until `until_s` it takes part in no other active's term."""

    epoch: Epoch = Epoch(0)
    until_s: float = 0.0


def answered(
    support: Support, epoch: Epoch, now_s: float, duration_s: float = DURATION_S
) -> Support:
    """The follower acknowledges an active of this epoch at `now_s`."""
    until_s = now_s + duration_s * _MARGIN
    return Support(epoch=epoch, until_s=max(until_s, support.until_s))


def released(support: Support, epoch: Epoch) -> Support:
    """The active of this epoch said that it no longer acts, and never will in this epoch."""
    return support if epoch != support.epoch else Support(epoch=epoch)


def may_begin(support: Support, now_s: float) -> bool:
    """Whether a promoted follower may act: the old active has stopped by then."""
    return now_s >= support.until_s
