"""A follower is as fresh as the active's answers to what it said, whenever these answers come."""

from qss_core.model import Offset
from qss_store.replicas.peers.freshness import Freshness
from qss_store.replication.follower import Append, Moment
from qss_testing.pods.one_replica import BEGINNING
from qss_testing.pods.stores import configuration

_CONFIGURATION = configuration(0, 0, standbys=[1])


def sent(after: Moment | None, watermark: int = 0) -> Append:
    return Append(
        configuration=_CONFIGURATION,
        previous=BEGINNING,
        watermark=Offset(watermark),
        after=after,
    )


def test_a_message_that_comes_late_counts_from_what_the_active_had_heard() -> None:
    freshness = Freshness("now")
    freshness.heard(sent(freshness.now(3.0)), Offset(0))
    assert freshness.level_s(Offset(0)) == 3.0


def test_an_active_that_may_not_act_says_nothing_of_freshness() -> None:
    freshness = Freshness("now")
    freshness.heard(sent(freshness.now(3.0)), Offset(0))
    freshness.heard(sent(None, watermark=9), Offset(0))
    assert freshness.level_s(Offset(0)) == 3.0


def test_a_moment_of_an_earlier_process_says_nothing() -> None:
    freshness = Freshness("now")
    freshness.heard(sent(Moment("before", 99.0)), Offset(0))
    assert freshness.level_s(Offset(0)) == float("-inf")


def test_an_older_message_that_comes_after_a_newer_one_changes_nothing() -> None:
    freshness = Freshness("now")
    freshness.heard(sent(freshness.now(5.0), watermark=2), Offset(2))
    freshness.heard(sent(freshness.now(4.0), watermark=1), Offset(2))
    assert freshness.level_s(Offset(2)) == 5.0


def test_a_replica_is_level_again_once_it_has_applied_what_the_active_named() -> None:
    freshness = Freshness("now")
    freshness.heard(sent(freshness.now(3.0), watermark=1), Offset(1))
    freshness.heard(sent(freshness.now(5.0), watermark=7), Offset(1))
    assert freshness.level_s(Offset(6)) == 3.0
    assert freshness.level_s(Offset(7)) == 5.0
