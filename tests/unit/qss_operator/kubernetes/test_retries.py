"""The rules by which a request is repeated."""

from dataclasses import replace

import pytest

from qss_core.errors import StoreError
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.api.errors import (
    ApiUnavailableError,
    ForbiddenError,
    GoneError,
    InvalidError,
    ThrottledError,
)
from qss_operator.kubernetes.api.kinds import PODS
from qss_operator.kubernetes.api.requests import get_request
from qss_operator.kubernetes.api.retries import Failure, RetryLimits, pause_before_retry

SAFE = get_request(PODS, "shop", "words-0")
UNSAFE = replace(SAFE, is_repeatable=False)
PATIENCE = RetryLimits(pause_s=0.2, pause_s_max=5.0, tries_max=8)


def failure(error: StoreError, tries: int = 1, left_s: float = 30.0) -> Failure:
    return Failure(error=error, tries=tries, left_s=left_s)


def test_pauses_double_up_to_the_longest_and_are_jittered_from_zero() -> None:
    failed = ApiUnavailableError("x")
    longest = [pause_before_retry(failure(failed, n), SAFE, PATIENCE, 1.0) for n in range(1, 8)]
    assert longest == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
    assert pause_before_retry(failure(failed, 7), SAFE, PATIENCE, 0.0) == 0.0


def test_it_ends_with_the_tries_and_with_the_time() -> None:
    failed = ApiUnavailableError("x")
    assert pause_before_retry(failure(failed, 8), SAFE, PATIENCE, 0.0) is None
    assert pause_before_retry(failure(failed, 7, left_s=2.0), SAFE, PATIENCE, 1.0) is None


def test_an_unsafe_request_goes_again_only_if_the_server_did_nothing() -> None:
    assert pause_before_retry(failure(ApiUnavailableError("x")), UNSAFE, PATIENCE, 0.5) is None
    for untouched in (ApiUnavailableError("x", is_untouched=True), ThrottledError("x")):
        assert pause_before_retry(failure(untouched), UNSAFE, PATIENCE, 0.5) is not None


@pytest.mark.parametrize("error", [ConflictError, ForbiddenError, GoneError, InvalidError])
def test_a_refusal_is_final(error: type[StoreError]) -> None:
    assert pause_before_retry(failure(error("x")), SAFE, PATIENCE, 0.0) is None


def test_the_servers_wish_is_the_least_pause() -> None:
    throttled = ThrottledError("x", retry_after_ms=3000)
    assert pause_before_retry(failure(throttled), SAFE, PATIENCE, 0.0) == 3.0
    assert pause_before_retry(failure(throttled, left_s=2.9), SAFE, PATIENCE, 0.0) is None
