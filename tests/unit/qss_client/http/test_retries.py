"""After a failed request a client repeats the request, or gives up."""

import pytest

from qss_client.http.retries import (
    HANDOVER_WAIT_MAX_S,
    ROUTES_WAIT_MAX_S,
    RetryAt,
    RetryLimits,
    after_failure,
    no_answer,
    still_trying,
)
from qss_core.errors import (
    BatchInProgressError,
    KeyNotFoundError,
    NotPresentError,
    NotReadyError,
    NotUpToBoundError,
    RequestTimeoutError,
    StoreError,
    UnreachableError,
)

LIMITS = RetryLimits(deadline_s=10.0, first_wait_s=0.1, longest_wait_s=1.0)
TINY = RetryLimits(deadline_s=0.0)


def waits(error: StoreError, jitter: float, elapsed_s: float = 0.0) -> list[float]:
    """The pauses after the first failures, as if each of them came after `elapsed_s`."""
    again = [after_failure(error, attempt, elapsed_s, jitter, LIMITS) for attempt in range(6)]
    return [round(one.wait_s, 6) for one in again if one is not None]


def test_what_no_repeat_mends_is_given_up() -> None:
    assert after_failure(KeyNotFoundError("k"), 0, 0.0, 0.0, LIMITS) is None
    assert after_failure(StoreError("?"), 0, 0.0, 0.0, LIMITS) is None


def test_a_body_that_came_too_slowly_is_sent_again() -> None:
    """The client has the whole body before it sends it: the machine or the network paused."""
    late = RequestTimeoutError("0 bytes")
    assert after_failure(late, 0, 0.0, 1.0, LIMITS) == RetryAt(0.1, refresh=False)
    assert after_failure(late, 0, 10.0, 1.0, LIMITS) is None


def test_waits_double_up_to_a_bound() -> None:
    error = BatchInProgressError("wait")
    assert waits(error, 1.0) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert waits(error, 0.0) == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert after_failure(error, 10_000, 0.0, 1.0, LIMITS) == RetryAt(1.0, refresh=False)


@pytest.mark.parametrize("kind", [NotPresentError, NotReadyError, UnreachableError])
def test_a_new_active_is_looked_for_ten_times_a_second_and_later_four_times(
    kind: type[StoreError],
) -> None:
    error = kind("elsewhere", retry_after_ms=10)
    assert waits(error, 1.0) == [HANDOVER_WAIT_MAX_S] * 6
    assert waits(error, 1.0, elapsed_s=1.0) == [0.1, 0.2, 0.25, 0.25, 0.25, 0.25]
    asked = kind("elsewhere", retry_after_ms=5000)
    assert waits(asked, 1.0)[0] == HANDOVER_WAIT_MAX_S
    assert waits(asked, 1.0, elapsed_s=1.0)[0] == ROUTES_WAIT_MAX_S


def test_the_first_wait_is_at_least_what_the_store_asks_for() -> None:
    assert waits(NotUpToBoundError("behind"), 0.0)[0] == 0.05
    asked = NotUpToBoundError("behind", retry_after_ms=700)
    assert waits(asked, 0.0)[:2] == [0.7, 0.1]


def test_a_wait_that_ends_after_the_deadline_is_not_begun() -> None:
    error = BatchInProgressError("wait")
    assert after_failure(error, 0, 9.95, 0.0, LIMITS) is not None
    assert after_failure(error, 0, 9.96, 0.0, LIMITS) is None
    assert after_failure(error, 0, 0.0, 0.0, RetryLimits(deadline_s=0.0)) is None


@pytest.mark.parametrize(
    ("error", "refresh"),
    [
        (NotPresentError("elsewhere"), True),
        (UnreachableError("gone"), True),
        (NotUpToBoundError("behind"), False),
        (BatchInProgressError("wait"), False),
    ],
)
def test_routes_are_refreshed_where_the_pod_may_be_another(
    error: StoreError, refresh: bool
) -> None:
    again = after_failure(error, 0, 0.0, 0.0, LIMITS)
    assert again is not None
    assert again.refresh is refresh


def test_routes_are_refreshed_once_where_a_pod_stays_behind() -> None:
    """The store may have been made again: then the position is one of the store before."""
    behind = NotUpToBoundError("behind")
    again = [after_failure(behind, attempt, 0.0, 1.0, LIMITS) for attempt in range(6)]
    assert [one is not None and one.refresh for one in again] == [False] * 3 + [True, False, False]


def test_limits_end_with_the_request() -> None:
    assert LIMITS.within(3.0).deadline_s == 3.0
    assert LIMITS.within(30.0) == LIMITS


def test_a_first_contact_without_any_answer_is_over_within_5_s() -> None:
    gone, starting = UnreachableError("gone"), NotReadyError("no assignment yet")
    limits = RetryLimits(deadline_s=120.0)
    assert after_failure(gone, 3, 4.6, 0.0, limits.of_first_contact([gone, gone])) is None
    assert after_failure(gone, 3, 4.0, 0.0, limits.of_first_contact([gone])) is not None
    assert limits.of_first_contact([gone, starting]) == limits, "somebody is there"
    assert TINY.of_first_contact([gone]).deadline_s == 0.0


def test_addresses_share_the_time_of_a_first_contact() -> None:
    limits = RetryLimits(first_contact_s=4.0)
    assert limits.share_of_first_contact(0.0, 1) == 4.0
    assert limits.share_of_first_contact(1.0, 6) == 0.5
    assert limits.share_of_first_contact(0.0, 2) == 1.0, "one that works answers sooner"
    assert limits.share_of_first_contact(9.0, 1) > 0, "an address is asked once at least"


def test_a_first_contact_tells_of_each_address_in_one_sentence() -> None:
    silence = [UnreachableError("http://a: connection refused"), UnreachableError("http://b: gone")]
    assert no_answer("words", [*silence, silence[0]]).message == (
        "no pod of store words answers (http://a: connection refused; http://b: gone): check the "
        "URL, and that the store runs"
    )
    told = NotReadyError("no assignment yet")
    assert no_answer("words", [*silence, told]) is told


def test_what_goes_on_is_said_with_its_end() -> None:
    told = still_trying(UnreachableError("http://a: connection refused"), 2.2, LIMITS)
    assert told == "http://a: connection refused; asked again for up to 8 s"
    told = still_trying(UnreachableError("http://a: connection refused"), 9.8, LIMITS)
    assert told == "http://a: connection refused; asked again now"
    first = no_answer("words", [UnreachableError("http://a: connection refused")])
    told = still_trying(first, 2.2, LIMITS)
    assert told == "store words has not answered yet; asked again for up to 8 s"
