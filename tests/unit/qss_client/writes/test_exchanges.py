"""An exchange with the coordinator, step by step; the test gives the answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from qss_client.chunks.carried_batch import decode_batch
from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import RetryAt, RetryLimits, after_failure
from qss_client.http.unreachable import not_connected
from qss_client.writes import exchanges
from qss_client.writes.exchanges import Run
from qss_client.writes.routes import (
    CONNECT_TIMEOUT_S,
    LATE_AFTER_S,
    PROBE_TIMEOUT_S,
    Routes,
)
from qss_client.writes.steps import Exchange, Pause, PodRequest
from qss_core.errors import (
    MalformedRequestError,
    NotActiveError,
    NotReadyError,
    StoreError,
    UnreachableError,
    WrongStoreError,
)
from qss_core.model import PartitionId, Sequence
from qss_core.wire.messages import (
    AbortAnswer,
    AbortRequest,
    CommitAnswer,
    CommitRequest,
    OpenWriterRequest,
    RenewAnswer,
    StoreMetadata,
    decode,
)
from qss_testing.writers.exchange_steps import (
    AT_ONCE,
    BUSY,
    LOST,
    REFRESH,
    after,
    answer,
    asked,
    metadata,
    opened,
    paused,
    pod_and_path,
    query,
    result,
    rows,
    run_of,
    silence,
    staged,
)

COMMITTED = CommitAnswer(sequence=Sequence(5), already_applied=False, position={})
ABORTED = AbortAnswer(decided=False)


def open_job(known: StoreMetadata) -> Exchange[Run]:
    return exchanges.open_writer(known, "job", query_id="q", run_id="r", open_id="o", one_off=True)


def commit(known: StoreMetadata) -> Exchange[CommitAnswer]:
    return exchanges.commit(
        run_of(known),
        7,
        [staged(2, "b"), staged(0, "a"), staged(2, "c")],
        position={"in": {"0": 9}},
        fingerprint="print",
        replace=True,
    )


def write_batch(known: StoreMetadata) -> Exchange[CommitAnswer]:
    return exchanges.write_batch(
        run_of(known), 7, [rows(2), rows(0)], position={"in": {"0": 9}}, fingerprint="print"
    )


def abort(known: StoreMetadata) -> Exchange[AbortAnswer]:
    return exchanges.abort(run_of(known), 7)


def renew(known: StoreMetadata) -> Exchange[None]:
    return exchanges.renew(run_of(known))


Begin = Callable[[StoreMetadata], Exchange[Any]]
COORDINATED: list[tuple[Begin, str, object, object]] = [
    (open_job, "writers/job", opened(metadata(1, 2, 0)), run_of(metadata(1, 2, 0))),
    (commit, "writers/job/1000001/batches/7/commit", COMMITTED, COMMITTED),
    (write_batch, "writers/job/1000001/batches/7/commit", COMMITTED, COMMITTED),
    (abort, "writers/job/1000001/batches/7/abort", ABORTED, ABORTED),
    (renew, "writers/job/1000001/renew", RenewAnswer(closes_after_s=60.0), None),
]
coordinated = pytest.mark.parametrize("begin", [row[0] for row in COORDINATED])


@pytest.mark.parametrize(("begin", "path"), [row[:2] for row in COORDINATED])
def test_the_active_of_partition_0_coordinates(begin: Begin, path: str) -> None:
    request = asked(next(begin(metadata(1, 2, 0))))
    assert request.method == "POST"
    assert pod_and_path(request) == f"pod-1/changelog/stores/words/{path}"
    assert query(request) == {"storeId": "id-1"}
    assert (request.timeout_s, request.tell_after_s) == (LATE_AFTER_S, 10.0)


@pytest.mark.parametrize(("begin", "path", "message", "ended"), COORDINATED)
def test_what_the_coordinator_answers_ends_the_exchange(
    begin: Begin, path: str, message: object, ended: object
) -> None:
    exchange = begin(metadata(1, 2, 0))
    next(exchange)
    assert result(exchange, answer(message)) == ended


@coordinated
def test_a_repeat_is_the_same_request(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    for failure in (BUSY, LOST, BUSY):
        assert paused(after(exchange, failure)) is failure
        assert after(exchange, AT_ONCE) == request


@coordinated
def test_a_repeat_asks_the_coordinator_of_the_refreshed_routes(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    after(exchange, NotActiveError("moved"))
    assert after(exchange, REFRESH) == PodRequest(
        method="GET",
        url="http://pod-0/state/instances/words",
        timeout_s=PROBE_TIMEOUT_S,
        connect_timeout_s=CONNECT_TIMEOUT_S,
        tell_after_s=2.0,
    )
    moved = asked(after(exchange, answer(metadata(2, 2, 0))))
    assert moved == replace(request, url=request.url.replace("pod-1", "pod-2"))


@coordinated
def test_a_coordinator_that_works_and_needs_long_gets_the_request_again(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    probe = asked(after(exchange, silence()))
    assert probe.url == "http://pod-1/state/instances/words"
    again = asked(after(exchange, answer(metadata(1, 2, 0))))
    assert again == replace(request, timeout_s=75.0, connect_timeout_s=None)


@coordinated
def test_a_silent_coordinator_gets_no_request_again_before_it_answers(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    late = silence()
    after(exchange, late)
    assert paused(after(exchange, silence())) is late
    for other, limit_s in (("pod-0", 0.1), ("pod-2", 0.2)):
        discovery = asked(after(exchange, REFRESH))
        assert pod_of(discovery) == other, "the silent one is asked last"
        probe = asked(after(exchange, answer(metadata(1, 2, 0))))
        assert (pod_of(probe), probe.timeout_s) == ("pod-1", limit_s)
        assert paused(after(exchange, silence())) is late
    after(exchange, REFRESH)
    after(exchange, answer(metadata(1, 2, 0)))
    assert after(exchange, answer(metadata(1, 2, 0))) == request, "it answers again"


@coordinated
def test_the_active_that_follows_a_silent_one_gets_the_request_at_once(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    after(exchange, silence())
    after(exchange, silence())
    after(exchange, REFRESH)
    moved = asked(after(exchange, answer(metadata(2, 2, 0, epoch=2))))
    assert moved == replace(request, url=request.url.replace("pod-1", "pod-2"))


@coordinated
def test_where_nobody_takes_a_connection_the_other_pods_are_asked_at_once(begin: Begin) -> None:
    """The address of a pod that is gone: no packet comes back."""
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    assert request.connect_timeout_s == CONNECT_TIMEOUT_S
    gone = not_connected(request.url, TimeoutError(), CONNECT_TIMEOUT_S)
    assert paused(after(exchange, gone)) is gone
    assert pod_of(asked(after(exchange, REFRESH))) == "pod-0"
    moved = asked(after(exchange, answer(metadata(2, 2, 0, epoch=2))))
    assert moved == replace(request, url=request.url.replace("pod-1", "pod-2"))


@coordinated
def test_a_pod_that_takes_connections_late_has_up_to_a_second_for_that_of_a_question(
    begin: Begin,
) -> None:
    """The request takes that connection then: a pod may be far away, or drop first packets."""
    exchange = begin(metadata(1, 2, 0))
    request = asked(next(exchange))
    late = not_connected(request.url, TimeoutError(), CONNECT_TIMEOUT_S)
    late.__cause__ = TimeoutError()
    assert paused(after(exchange, late)) is late
    limits: list[float] = []
    for _ in range(5):
        after(exchange, REFRESH)
        question = asked(after(exchange, answer(metadata(1, 2, 0))))
        assert pod_of(question) == "pod-1"
        limits.append(min(question.timeout_s, question.connect_timeout_s or question.timeout_s))
        assert paused(after(exchange, late)) is late
    assert limits == [0.1, 0.2, 0.4, 0.8, PROBE_TIMEOUT_S]


def pods_asked(
    known: StoreMetadata, outcome: Callable[[PodRequest], HttpAnswer | StoreError]
) -> set[str]:
    """The pods that a renewal asks in a hundred steps."""
    exchange = renew(known)
    step, met = next(exchange), set[str]()
    for attempt in range(100):
        if isinstance(step, Pause):
            again = after_failure(step.failure, attempt, 0.0, 0.5, RetryLimits())
            assert again is not None
            step = after(exchange, again)
        else:
            met.add(pod_of(asked(step)))
            step = after(exchange, outcome(asked(step)))
    return met


def test_routes_are_looked_for_beyond_a_pod_that_knows_nothing_newer() -> None:
    """Pod 0 has not taken the newest assignment, pod 1 has ended, and pod 2 is the active."""
    known = metadata(1, 1, 1)
    met = pods_asked(known, lambda one: silence() if pod_of(one) == "pod-1" else answer(known))
    assert met == {"pod-0", "pod-1", "pod-2"}


def test_an_active_that_is_cut_off_from_the_others_is_not_asked_alone() -> None:
    known = metadata(1, 1, 1)
    cut_off = NotReadyError("the active did not hear from its standbys within its lease")
    met = pods_asked(known, lambda one: answer(known) if one.method == "GET" else cut_off)
    assert met == {"pod-0", "pod-1", "pod-2"}


def test_a_request_with_a_large_body_may_take_longer_before_its_pod_is_looked_at() -> None:
    routes = Routes(metadata(0, 0, 0))
    request = PodRequest(
        method="PUT", url="http://pod-0", body=bytes(32 << 20), timeout_s=60.0, tell_after_s=10.0
    )
    first = asked(next(routes.answer(routes.coordinator(), PartitionId(0), request)))
    assert first.timeout_s == LATE_AFTER_S + 4


def test_a_late_coordinator_that_names_another_one_is_not_asked_again() -> None:
    exchange = renew(metadata(1, 2, 0))
    next(exchange)
    late = silence()
    after(exchange, late)
    assert paused(after(exchange, answer(metadata(2, 2, 0, epoch=2)))) is late


def test_a_run_keeps_the_newest_routes() -> None:
    run = run_of(metadata(1, 2, 0))
    exchange = exchanges.renew(run)
    next(exchange)
    after(exchange, NotActiveError("moved"))
    after(exchange, REFRESH)
    moved = asked(after(exchange, answer(metadata(2, 2, 0, epoch=5))))
    assert pod_of(moved) == "pod-2"
    assert pod_of(asked(next(exchanges.abort(run, 7)))) == "pod-2"
    # A pod that was cut off tells what was true before.
    after(exchange, NotActiveError("moved"))
    after(exchange, REFRESH)
    after(exchange, answer(metadata(1, 2, 0, epoch=3)))
    assert run.opened.metadata.assignment == metadata(2, 2, 0, epoch=5).assignment


def pod_of(request: PodRequest) -> str:
    return pod_and_path(request).partition("/")[0]


@coordinated
def test_a_failure_that_the_shell_gives_up_on_ends_the_exchange(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    next(exchange)
    failure = paused(after(exchange, LOST))
    with pytest.raises(UnreachableError) as raised:
        exchange.throw(failure)
    assert raised.value is LOST


@coordinated
def test_an_answer_that_is_none_is_a_failure(begin: Begin) -> None:
    exchange = begin(metadata(1, 2, 0))
    next(exchange)
    failure = paused(after(exchange, HttpAnswer(200, {}, b"welcome to the proxy")))
    assert isinstance(failure, MalformedRequestError)


@pytest.mark.parametrize("name", ["", "-job", "a/b", "w" * 201])
def test_a_name_that_no_writer_has_is_refused_before_anybody_is_asked(name: str) -> None:
    exchange = exchanges.open_writer(metadata(0), name, query_id="q", run_id="r", open_id="o")
    with pytest.raises(MalformedRequestError, match="name"):
        next(exchange)


def test_an_open_carries_its_ids() -> None:
    request = asked(next(open_job(metadata(0))))
    assert decode(request.body or b"", OpenWriterRequest) == OpenWriterRequest(
        query_id="q", run_id="r", open_id="o", one_off=True
    )


def test_an_abort_names_the_generation() -> None:
    request = asked(next(abort(metadata(0))))
    assert decode(request.body or b"", AbortRequest) == AbortRequest(generation=3)


def test_a_commit_lists_the_chunks_of_each_partition_in_order() -> None:
    request = asked(next(commit(metadata(0, 1, 2))))
    assert decode(request.body or b"", CommitRequest) == CommitRequest(
        generation=3,
        chunks={"2": (staged(2, "b").chunk, staged(2, "c").chunk), "0": (staged(0, "a").chunk,)},
        position={"in": {"0": 9}},
        fingerprint="print",
        replace=True,
    )


def test_a_commit_may_carry_the_rows() -> None:
    request = asked(next(write_batch(metadata(0, 1, 2))))
    said, carried = decode_batch(request.body or b"")
    assert said == CommitRequest(
        generation=3, chunks={}, position={"in": {"0": 9}}, fingerprint="print"
    )
    assert carried == b"[rows of 2][rows of 0]"
    assert request.headers == {"Content-Type": "application/vnd.queryablestate.batch"}


def test_pods_are_asked_for_the_routes_until_one_tells() -> None:
    exchange = renew(metadata(1, 2, 0))
    next(exchange)
    after(exchange, LOST)
    outcomes: list[RetryAt | StoreError | HttpAnswer] = [REFRESH, LOST, HttpAnswer(200, {}, b"{")]
    for number, outcome in enumerate(outcomes):
        discovery = asked(after(exchange, outcome))
        assert discovery.url == f"http://pod-{number}/state/instances/words"
    moved = asked(after(exchange, answer(metadata(0, 2, 0))))
    assert pod_and_path(moved).startswith("pod-0/changelog")


def test_routes_that_no_pod_tells_stay() -> None:
    exchange = renew(metadata(1, 2, 0))
    request = next(exchange)
    after(exchange, LOST)
    after(exchange, REFRESH)
    after(exchange, BUSY)
    after(exchange, LOST)
    assert after(exchange, LOST) == request


def test_a_store_that_was_made_again_ends_the_exchange() -> None:
    exchange = renew(metadata(1, 2, 0))
    next(exchange)
    wrong = WrongStoreError("another store id")
    after(exchange, wrong)
    after(exchange, REFRESH)
    with pytest.raises(WrongStoreError) as raised:
        exchange.send(answer(metadata(1, 2, 0, store_id="id-2")))
    assert raised.value is wrong
