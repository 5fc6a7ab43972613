"""The rules by which a candidate takes the lease, and the content that it writes."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.leadership.lease_rules import (
    LeaseSettings,
    MakeLease,
    TakeLease,
    WaitForLease,
    decide,
    look,
    new_lease,
    released_lease,
    taken_lease,
)
from qss_operator.times import micro_time_of, time_of

NOW = datetime(2026, 11, 21, 12, 0, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=5, microseconds=7)


def settings(identity: str = "one") -> LeaseSettings:
    return LeaseSettings(namespace="qss", name="operator", identity=identity)


def stored(lease: Object, version: int = 1) -> Object:
    return {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(version)}}


LEASE = stored(new_lease(settings(), NOW))


def test_a_new_lease_is_one_that_an_api_server_takes() -> None:
    assert LEASE["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T12:00:00.000000Z",
        "renewTime": "2026-11-21T12:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_times_are_in_utc_and_keep_their_zeros() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=timezone(timedelta(hours=2)))
    assert micro_time_of(moment) == "2026-01-02T01:04:05.000060Z"
    assert time_of(moment) == "2026-01-02T01:04:05Z"
    with pytest.raises(AssertionError):
        time_of(moment.replace(tzinfo=None))


def test_anothers_lease_is_taken_once_it_did_not_change_for_its_duration() -> None:
    sighting = look(None, LEASE, 100.0)
    assert decide(sighting, LEASE, settings("two"), 114.9) == WaitForLease("one")
    assert decide(sighting, LEASE, settings("two"), 115.0) == TakeLease()


def test_any_change_starts_the_count_anew() -> None:
    sighting = look(look(None, LEASE, 100.0), stored(LEASE, 2), 110.0)
    assert decide(sighting, LEASE, settings("two"), 124.9) == WaitForLease("one")


def test_the_holders_promise_counts_not_the_candidates_setting() -> None:
    long = stored({**LEASE, "spec": {**LEASE["spec"], "leaseDurationSeconds": 60}})
    sighting = look(None, long, 0.0)
    assert decide(sighting, long, settings("two"), 59.0) == WaitForLease("one")
    nothing = stored({**LEASE, "spec": {"holderIdentity": "one"}})
    assert decide(look(None, nothing, 0.0), nothing, settings("two"), 15.0) == TakeLease()


def test_a_lease_of_nobody_or_of_its_own_is_taken_at_once() -> None:
    free = stored(released_lease(LEASE, LATER), 2)
    for lease, identity in (
        (free, "two"),
        (LEASE, "one"),
        (stored({**LEASE, "spec": None}), "two"),
    ):
        assert decide(look(None, lease, 0.0), lease, settings(identity), 0.0) == TakeLease()
    assert decide(look(None, None, 0.0), None, settings(), 0.0) == MakeLease()


def test_a_renewal_keeps_when_it_was_acquired_and_a_take_over_counts() -> None:
    renewed = taken_lease(LEASE, settings("one"), LATER)["spec"]
    assert (renewed["acquireTime"], renewed["leaseTransitions"]) == (micro_time_of(NOW), 0)
    assert renewed["renewTime"] == "2026-11-21T12:00:05.000007Z"
    taken = taken_lease(LEASE, settings("two"), LATER)
    assert taken["spec"]["acquireTime"] == taken["spec"]["renewTime"]
    assert (taken["spec"]["holderIdentity"], taken["spec"]["leaseTransitions"]) == ("two", 1)
    assert taken["metadata"]["resourceVersion"] == "1"


def test_a_released_lease_is_nobodys() -> None:
    spec = released_lease(LEASE, LATER)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    assert spec["leaseTransitions"] == 0


def test_a_deadline_after_the_leases_end_is_refused() -> None:
    with pytest.raises(AssertionError):
        LeaseSettings(namespace="q", name="o", identity="i", duration_s=10, renew_deadline_s=10)
