"""An active acts while all in-sync followers support it; a follower supports one at a time."""

import random  # noqa: TID251 seeded below.

from qss_core.model import Epoch, Ordinal
from qss_store.replication import lease
from qss_store.replication.lease import Lease, Support, Term

B, C = Ordinal(1), Ordinal(2)
FIRST, SECOND, THIRD = Epoch(1), Epoch(2), Epoch(3)
OLD, NEW = Term(FIRST, "a process"), Term(SECOND, "another one")


def test_an_active_acts_while_every_in_sync_follower_supports_it() -> None:
    held = Lease(epoch=FIRST)
    assert lease.may_act(held, (), 100.0), "a sole replica needs nobody"
    assert not lease.may_act(held, (B, C), 0.0)
    held = lease.supported(held, B, FIRST, 10.0)
    assert not lease.may_act(held, (B, C), 10.0)
    held = lease.supported(held, C, FIRST, 11.0)
    assert lease.may_act(held, (B, C), 14.9)
    assert not lease.may_act(held, (B, C), 15.0), "counted from when the oldest request was sent"
    assert lease.may_act(held, (C,), 15.0)


def test_a_late_answer_takes_no_support_back_and_one_of_another_epoch_says_nothing() -> None:
    held = lease.supported(Lease(epoch=SECOND), B, SECOND, 10.0)
    held = lease.supported(held, B, SECOND, 8.0)
    held = lease.supported(held, B, FIRST, 20.0)
    assert lease.may_act(held, (B,), 14.9)
    assert not lease.may_act(held, (B,), 15.0)


def test_a_follower_waits_longer_than_the_active_acts() -> None:
    given = lease.answered(lease.started(0.0), OLD, 100.0)
    assert not lease.may_begin(given, 105.4)
    assert lease.may_begin(given, 105.5)
    assert not lease.may_begin(lease.answered(given, OLD, 99.0), 105.4), "an older answer"


def test_an_active_that_holds_a_later_epoch_is_not_waited_for() -> None:
    given = lease.answered(lease.started(0.0), OLD, 100.0)
    assert lease.may_begin(lease.released(given, OLD.process, SECOND), 100.0)
    assert not lease.may_begin(lease.released(given, OLD.process, FIRST), 100.0), "it may act"
    later = lease.answered(given, NEW, 101.0)
    released = lease.released(later, NEW.process, THIRD)
    assert not lease.may_begin(released, 105.0), "the first one still acts"
    assert lease.may_begin(released, 105.5)


def test_another_process_of_the_same_pod_releases_nothing() -> None:
    """The process that was promised support may have been paused, and may act when it goes on."""
    given = lease.answered(lease.started(0.0), OLD, 100.0)
    assert not lease.may_begin(lease.released(given, "started later", SECOND), 105.0)


def test_a_replica_is_bound_by_promises_that_its_active_will_not_release() -> None:
    assert lease.is_bound(lease.started(100.0), FIRST, 105.4)
    assert not lease.is_bound(lease.started(100.0), FIRST, 105.5)
    given = lease.answered(Support({}), OLD, 100.0)
    assert not lease.is_bound(given, FIRST, 101.0), "its active answers the next one"
    assert lease.is_bound(given, SECOND, 101.0), "the active of the second epoch is another process"
    both = lease.answered(given, NEW, 101.0)
    assert lease.is_bound(both, NEW.epoch, 102.0)
    nameless = lease.answered(Support({}), Term(FIRST, ""), 100.0)
    assert lease.is_bound(nameless, FIRST, 101.0)


def test_promises_of_an_earlier_process_are_released_by_nobody() -> None:
    given = lease.answered(lease.started(100.0), Term(FIRST, ""), 100.0)
    assert not lease.may_begin(lease.released(given, "", SECOND), 105.4)


def test_a_process_that_starts_keeps_the_promises_that_an_earlier_one_may_have_given() -> None:
    assert not lease.may_begin(lease.started(100.0), 105.4)
    assert lease.may_begin(lease.started(100.0), 105.5)


def test_no_two_actives_act_at_once_whatever_the_clocks_and_delays_are() -> None:
    """Rates up to 5 % apart; a request arrives after it was sent, and its answer later still."""
    drawn = random.Random(7)
    for _ in range(2000):
        rates = [drawn.uniform(0.95, 1.0), drawn.uniform(0.95, 1.0)]
        held, given, now_s = Lease(epoch=FIRST), Support({}), 0.0
        for _ in range(4):
            sent_s = now_s
            now_s += drawn.expovariate(1)
            given = lease.answered(given, OLD, now_s * rates[1])
            held = lease.supported(held, B, FIRST, sent_s * rates[0])
        begins_s = given.until_s[OLD] / rates[1]
        assert lease.may_begin(given, begins_s * rates[1] + 1e-9)
        assert not lease.may_act(held, (B,), begins_s * rates[0])


def test_the_seconds_left_of_a_lease_are_those_of_the_follower_that_was_heard_longest_ago() -> None:
    held = lease.supported(Lease(epoch=FIRST), B, FIRST, 10.0)
    held = lease.supported(held, C, FIRST, 11.0)
    assert lease.left_s(held, (B, C), 12.0) == 3.0
    assert lease.left_s(held, (C,), 12.0) == 4.0
    assert lease.left_s(held, (B, C), 15.5) == 0.0, "no less than nothing is left"
    assert lease.left_s(held, (B, C, Ordinal(3)), 12.0) == 0.0, "one was never heard"
    assert lease.left_s(held, (), 12.0) == float("inf"), "a sole replica needs none"
