"""The replica to read a partition from, and the next one after a failure."""

import pytest

from qss_core.errors import (
    CorruptionError,
    DeadlineExceededError,
    DiskFullError,
    MalformedRequestError,
    NotActiveError,
    NotPresentError,
    NotUpToBoundError,
    RolledBackError,
    StoreError,
    UnreachableError,
)
from qss_core.model import Ordinal, PodAddress, PodName
from qss_core.queries.parameters import ReadOptions, Scope
from qss_store.reads.routing.replica_router import ReplicaRouter
from qss_testing.pods.stores import configuration

PODS = [
    PodAddress(ordinal=Ordinal(number), name=PodName(f"words-{number}"), query="", changelog="")
    for number in range(5)
]
PLACED = configuration(0, active=2, standbys=(0, 1), learners=(3,))


def router(here: int, **options: object) -> ReplicaRouter:
    return ReplicaRouter.of(PLACED, Ordinal(here), ReadOptions(**options))  # type: ignore[arg-type]


def test_this_pod_comes_first_then_the_active_then_the_other_in_sync_replicas() -> None:
    assert router(1).waiting == [1, 2, 0]
    assert router(2).waiting == [2, 0, 1]
    assert router(4).waiting == [2, 0, 1]


def test_a_pod_that_gave_no_answer_a_moment_ago_comes_last() -> None:
    placed = ReplicaRouter.of(PLACED, Ordinal(1), ReadOptions(), {Ordinal(2), Ordinal(1)})
    assert placed.waiting == [1, 0, 2]


def test_a_learner_does_not_answer() -> None:
    assert router(3).waiting == [2, 0, 1]


def test_a_read_of_the_active_asks_nobody_else() -> None:
    assert router(1, require_active=True).waiting == [2]


def test_a_local_read_asks_only_here_even_if_it_is_not_here() -> None:
    local = router(4, scope=Scope.LOCAL)
    assert local.waiting == [4]
    assert local.take() == 4
    local.fail(NotPresentError("x", active="words-2"), PODS)
    assert local.is_over


def test_the_active_that_a_failure_names_is_asked_next_and_once() -> None:
    asked = router(4, require_active=True)
    assert asked.take() == 2
    asked.fail(NotActiveError("x", active="words-3"), PODS)
    assert asked.take() == 3
    asked.fail(NotActiveError("x", active="words-2"), PODS)
    assert asked.is_over


def test_the_active_that_is_named_does_not_come_twice() -> None:
    asked = router(1)
    assert asked.take() == 1
    asked.fail(NotPresentError("x", active="words-0"), PODS)
    assert asked.waiting == [0, 2]


def test_an_active_without_an_address_is_not_asked() -> None:
    asked = router(4, require_active=True)
    asked.take()
    asked.fail(NotActiveError("x", active="words-9"), PODS)
    assert asked.is_over


@pytest.mark.parametrize("error", [RolledBackError("x"), DiskFullError("x")])
def test_where_one_replica_is_rolled_back_or_not_open_the_others_are_asked(
    error: StoreError,
) -> None:
    asked = router(1)
    asked.take()
    asked.fail(error, PODS)
    assert asked.waiting == [2, 0]


def test_an_active_that_is_not_open_here_may_have_a_successor_among_the_in_sync_replicas() -> None:
    options = ReadOptions(require_active=True)
    asked = ReplicaRouter.of(PLACED, Ordinal(2), options, is_open_here=False)
    assert asked.waiting == [2, 0, 1]
    elsewhere = ReplicaRouter.of(PLACED, Ordinal(1), options, is_open_here=False)
    assert elsewhere.waiting == [2], "the active is another pod's, which answers for itself"


@pytest.mark.parametrize("error", [MalformedRequestError("x"), CorruptionError("x")])
def test_a_failure_of_the_request_or_the_rows_is_the_last(error: StoreError) -> None:
    asked = router(1)
    asked.take()
    asked.fail(error, PODS)
    assert asked.is_over
    assert asked.failure is error


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (NotUpToBoundError("x"), UnreachableError("x")),
        (NotUpToBoundError("x"), DeadlineExceededError("x")),
        (NotUpToBoundError("x"), NotActiveError("x")),
        (UnreachableError("x"), NotActiveError("x")),
        (DeadlineExceededError("x"), NotPresentError("x")),
    ],
)
def test_the_failure_that_tells_more_is_kept(more: StoreError, less: StoreError) -> None:
    for errors in ((more, less), (less, more)):
        asked = router(1)
        for error in errors:
            asked.take()
            asked.fail(error, PODS)
        assert asked.failure is more


def test_time_is_kept_for_those_who_wait() -> None:
    asked = router(1)
    asked.take()
    assert asked.share_of(9.0) == 3.0
    asked.skip(Ordinal(2))
    assert asked.share_of(9.0) == 4.5
