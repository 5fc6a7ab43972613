"""The order in which a client asks the pods, and the time that it gives each of them."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from qss_client.http.unreachable import unreachable
from qss_client.reads.requests import DEFAULTS, HttpRequest, ReadOptions, count_request, get_request
from qss_client.reads.routing.attempt import Attempt
from qss_client.reads.routing.known_pods import SILENT_S, KnownPods
from qss_client.reads.session import SessionState
from qss_core.errors import NotUpToBoundError, UnreachableError
from qss_testing.pods.pod_process import PodCluster

A, B, C = "http://a", "http://b", "http://c"
POINT = HttpRequest(method="GET", path="/k", timeout_s=2.0, is_point=True)
LONG = HttpRequest(method="GET", path="/all", timeout_s=2.0)


def silence(base: str) -> UnreachableError:
    """The error of the HTTP client where no answer comes."""
    error = unreachable(base, TimeoutError(), 1.0)
    error.__cause__ = TimeoutError()
    return error


@pytest.fixture
def cluster(tmp_path: Path) -> PodCluster:
    """A cluster that is never started; each partition has a standby."""
    return PodCluster(tmp_path, pods=3, standbys=1, partitions=6)


def test_a_point_read_is_asked_of_the_active_and_then_of_the_standbys(cluster: PodCluster) -> None:
    state = SessionState(
        (A,), "words", monotonic=True, turn=nullcontext(), metadata=cluster.metadata
    )
    definition = cluster.metadata.definition
    request = get_request(definition, "k", DEFAULTS)
    assert request.partition is not None
    entry = cluster.metadata.assignment[request.partition]
    active, standby = (
        cluster.pods[pod].query
        for pod in (entry.active, next(one for one in entry.in_sync if one != entry.active))
    )
    assert state.choices(request, 0.0) == [active, standby]
    state.pods.was_silent(active, 0.0, 0.0, is_point=True)
    assert state.choices(request, SILENT_S / 2) == [standby, active]
    assert state.choices(request, SILENT_S) == [active, standby]
    of_active = get_request(definition, "k", ReadOptions(require_active=True))
    assert state.choices(of_active, SILENT_S / 2) == [active]


def test_a_pod_that_stands_still_costs_a_point_read_a_quarter_of_a_second() -> None:
    attempt = Attempt(POINT, [A, B], KnownPods(), 10.0)
    assert attempt.take(10.0) == (A, 0.25)
    assert not attempt.is_watched
    attempt.missed(silence(A), 10.25)
    base, limit_s = attempt.take(10.25)
    assert base == B
    assert limit_s == pytest.approx(1.75 + 2.0), "the last one has all the time left"
    assert attempt.pods.is_silent(A, 10.3)
    assert attempt.answered(10.3), "the routes may be old"
    assert not attempt.pods.is_silent(B, 10.3)


def test_the_time_for_a_point_read_follows_the_times_of_the_answers() -> None:
    pods = KnownPods()
    for _ in range(300):
        pods.answered(A, 1.0, 0.2, is_point=True)
        pods.answered(B, 1.0, 0.001, is_point=True)
    assert 0.6 < pods.point_limit_s(A) < 1.0
    assert pods.point_limit_s(B) == 0.25
    assert pods.quickest_first([A, B]) == [B, A]
    assert Attempt(POINT, [A, B], pods, 0.0).take(0.0)[1] == pods.point_limit_s(A)


def test_a_long_request_has_the_whole_time_while_its_pod_works() -> None:
    attempt = Attempt(LONG, [A, B, C], KnownPods(), 0.0)
    for now_s, asked, limit_s in ((0.0, A, 4.0), (0.75, B, 3.25)):
        assert attempt.take(now_s) == (asked, limit_s)
        assert attempt.is_watched
        attempt.missed(silence(asked), now_s + 0.75)
    assert attempt.take(1.5) == (C, 2.5)
    assert not attempt.is_watched, "nobody else could answer"
    with pytest.raises(UnreachableError, match="http://c"):
        attempt.missed(silence(C), 4.0)


def test_the_only_pod_that_may_answer_is_given_up_where_another_may_take_its_place() -> None:
    point = Attempt(replace(POINT, timeout_s=60.0), [A], KnownPods(), 0.0, may_move=True)
    assert point.take(0.0) == (A, 62.0)
    assert point.is_watched
    long = Attempt(replace(LONG, timeout_s=60.0), [A], KnownPods(), 0.0, may_move=True)
    assert long.take(0.0) == (A, 62.0)
    assert long.is_watched
    alone = Attempt(replace(LONG, timeout_s=60.0), [A], KnownPods(), 0.0)
    assert alone.take(0.0) == (A, 62.0)
    assert not alone.is_watched


def test_what_a_pod_says_is_raised_rather_than_the_silence_of_another() -> None:
    attempt = Attempt(POINT, [A, B], KnownPods(), 0.0)
    attempt.take(0.0)
    behind = NotUpToBoundError("behind")
    attempt.missed(behind, 0.05)
    assert attempt.take(0.05)[0] == B
    with pytest.raises(NotUpToBoundError):
        attempt.missed(silence(B), 2.0)


def test_a_pod_that_has_answered_others_meanwhile_is_not_silent() -> None:
    pods = KnownPods()
    pods.answered(A, 1.5, 0.1, is_point=False)
    pods.was_silent(A, 1.0, 3.0, is_point=False)
    assert not pods.is_silent(A, 3.0)
    pods.was_silent(A, 2.0, 3.0, is_point=False)
    assert pods.is_silent(A, 3.0)


def test_a_pod_that_tells_of_a_silent_pod_is_not_silent_itself() -> None:
    attempt = Attempt(POINT, [A, B], KnownPods(), 0.0)
    attempt.take(0.0)
    attempt.missed(UnreachableError("pod b did not answer"), 0.05)
    assert not attempt.pods.is_silent(A, 0.06)
    assert attempt.take(0.06)[0] == B


def test_a_read_says_whether_it_needs_the_active(cluster: PodCluster) -> None:
    definition = cluster.metadata.definition
    options = ReadOptions(require_active=True)
    assert count_request(definition, options).requires_active
    assert not count_request(definition, DEFAULTS).requires_active
    body = replace(LONG, body={"requireActive": True})
    assert body.requires_active
