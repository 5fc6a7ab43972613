"""What a client does after a failure."""

import pytest

from qss_client.routing import Again, RetryLimits, active_of, after_failure
from qss_core.errors import (
    BatchInProgressError,
    KeyNotFoundError,
    NotPresentError,
    NotUpToBoundError,
    StoreError,
    UnreachableError,
)
from qss_core.model import PartitionId
from qss_core.wire import metadata_of
from qss_testing.pod_process import PodCluster

LIMITS = RetryLimits(deadline_s=10.0, first_wait_s=0.1, longest_wait_s=1.0)


def waits(error: StoreError, jitter: float) -> list[float]:
    """The waits after the first failures."""
    again = [after_failure(error, attempt, 0.0, jitter, LIMITS) for attempt in range(6)]
    return [round(one.wait_s, 6) for one in again if one is not None]


def test_what_no_repeat_mends_is_given_up() -> None:
    assert after_failure(KeyNotFoundError("k"), 0, 0.0, 0.0, LIMITS) is None
    assert after_failure(StoreError("?"), 0, 0.0, 0.0, LIMITS) is None


def test_waits_double_up_to_a_bound() -> None:
    error = NotPresentError("elsewhere")
    assert waits(error, 1.0) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert waits(error, 0.0) == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert after_failure(error, 10_000, 0.0, 1.0, LIMITS) == Again(1.0, refresh=True)


def test_the_first_wait_is_at_least_what_the_store_asks_for() -> None:
    assert waits(UnreachableError("gone"), 0.0)[:2] == [0.5, 0.1]
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


def test_limits_end_with_the_request() -> None:
    assert LIMITS.within(3.0).deadline_s == 3.0
    assert LIMITS.within(30.0) == LIMITS


def test_the_active_is_where_the_assignment_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = PodCluster(tmp_path_factory.mktemp("none"), pods=2, partitions=4)
    metadata = metadata_of(cluster.assignment)
    assert [active_of(metadata, PartitionId(number)).ordinal for number in range(4)] == [0, 1, 0, 1]
