"""A client keeps routes and the newest position, which bounds its next reads."""

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from qss_client.addresses import checked_urls
from qss_client.http.answer import check_status
from qss_client.reads import calls
from qss_client.reads.requests import (
    DEFAULTS,
    ReadOptions,
    count_request,
    get_request,
    many_request,
)
from qss_client.reads.routing.known_pods import SILENT_S
from qss_client.reads.session import SessionState
from qss_core.errors import KeyNotFoundError, MalformedBytesError, MalformedRequestError
from qss_core.model import PartitionId, StoreId
from qss_core.positions import Position, decode_token, encode_token
from qss_core.wire.messages import encode, problem_of
from qss_testing.pods.pod_process import PodCluster

SEEN = Position.of({"in": {0: 5, 1: 7}})
ASKED = Position.of({"in": {0: 9, 1: 3}, "other": {0: 1}})


@pytest.fixture
def cluster(tmp_path: Path) -> PodCluster:
    """A cluster that is never started; the tests use its addresses only."""
    return PodCluster(tmp_path, pods=3, partitions=6)


@pytest.fixture
def state(cluster: PodCluster) -> SessionState:
    return SessionState(
        ("http://given:1",), "words", monotonic=True, turn=Lock(), metadata=cluster.metadata
    )


def bound_of(url: str) -> Position | None:
    """The bound in a URL."""
    given = parse_qs(urlsplit(url).query).get("positionBound")
    return None if given is None else decode_token(given[0])


def test_the_known_pods_are_asked_where_the_store_is_before_the_address_given(
    state: SessionState, cluster: PodCluster
) -> None:
    found = [f"{pod.query}/state/instances/words" for pod in cluster.pods]
    given = "http://given:1/state/instances/words"
    assert state.discovery_urls(0.0) == [*found, given]
    state.pods.was_silent(cluster.pods[0].query, 0.0, 0.0, is_point=False)
    assert state.discovery_urls(SILENT_S / 2) == [*found[1:], given, found[0]]
    assert state.discovery_urls(SILENT_S) == [found[2], *found[:2], given], "each is first once"
    state.metadata = None
    assert state.discovery_urls(0.0) == [given]


def test_a_key_is_asked_of_its_active(state: SessionState, cluster: PodCluster) -> None:
    request = get_request(cluster.metadata.definition, "k", DEFAULTS)
    assert request.partition is not None
    assert state.target(request) == "/state/stores/words/k"
    assert state.choices(request, 0.0) == [cluster.pods[request.partition % 3].query]


def test_what_any_pod_answers_is_asked_of_each_in_turn(
    state: SessionState, cluster: PodCluster
) -> None:
    request = count_request(cluster.metadata.definition, DEFAULTS)
    assert state.target(request) == "/state/count/words"
    pods = {pod.query for pod in cluster.pods}
    choices = [state.choices(request, 0.0) for _ in range(3)]
    assert {first for first, *_ in choices} == pods
    assert all(set(one) == pods for one in choices)
    state.pods.was_silent(cluster.pods[1].query, 0.0, 0.0, is_point=False)
    assert [state.choices(request, 0.0)[-1] for _ in range(3)] == [cluster.pods[1].query] * 3


def test_the_newest_position_bounds_every_request(state: SessionState, cluster: PodCluster) -> None:
    point = get_request(cluster.metadata.definition, "k", DEFAULTS)
    many = many_request(cluster.metadata.definition, ["k"], DEFAULTS)
    assert bound_of(state.target(point)) is None
    state.saw(Position.of({"in": {0: 5}}))
    state.saw_token(encode_token(Position.of({"in": {0: 2, 1: 7}})))
    state.saw_token(None)
    assert state.position == SEEN
    assert bound_of(state.target(point)) == SEEN
    data = state.data(many)
    assert data is not None
    assert json.loads(data) == {"keys": ["k"], "positionBound": encode_token(SEEN)}


@pytest.mark.parametrize("ask", [calls.get, partial(calls.get_newer, etag=None)])
def test_the_position_of_a_state_without_the_key_bounds_the_next_requests(
    state: SessionState, cluster: PodCluster, ask: Callable[..., calls.Exchange[Any]]
) -> None:
    """In an older state the key may be there: a row that was deleted would come back."""
    exchange = ask(state, cluster.metadata.definition, "k", options=DEFAULTS)
    next(exchange)
    headers = {"queryable-state-position": encode_token(SEEN)}
    body = encode(problem_of(KeyNotFoundError("no such key")))
    with pytest.raises(KeyNotFoundError) as refused:
        check_status(404, headers, body, "http://pod:1/k")
    with pytest.raises(StopIteration):
        exchange.throw(refused.value)
    assert state.position == SEEN


def test_the_position_of_a_store_that_was_deleted_bounds_no_request(
    state: SessionState, cluster: PodCluster
) -> None:
    """A store that was made again under its name may never reach it."""
    state.saw(SEEN)
    state.learn(cluster.metadata, state.store_id)
    assert state.position == SEEN
    definition = msgspec.structs.replace(cluster.metadata.definition, store_id=StoreId("another"))
    state.learn(msgspec.structs.replace(cluster.metadata, definition=definition), state.store_id)
    assert bound_of(state.target(get_request(definition, "k", DEFAULTS))) is None
    state.saw(SEEN)
    assert state.position == SEEN


def test_a_bound_of_ones_own_joins_it(state: SessionState, cluster: PodCluster) -> None:
    state.saw(SEEN)
    options = ReadOptions(position_bound=ASKED)
    both = Position.of({"in": {0: 9, 1: 7}, "other": {0: 1}})
    point = get_request(cluster.metadata.definition, "k", options)
    assert bound_of(state.target(point)) == both
    data = state.data(many_request(cluster.metadata.definition, ["k"], options))
    assert data is not None
    assert json.loads(data)["positionBound"] == encode_token(both)


def test_a_client_that_is_not_monotonic_asks_for_what_it_is_told_only(
    state: SessionState, cluster: PodCluster
) -> None:
    state.monotonic = False
    state.saw(SEEN)
    definition = cluster.metadata.definition
    assert bound_of(state.target(get_request(definition, "k", DEFAULTS))) is None
    asked = get_request(definition, "k", ReadOptions(position_bound=ASKED))
    assert bound_of(state.target(asked)) == ASKED


def test_a_position_that_is_none_is_refused(state: SessionState) -> None:
    with pytest.raises((MalformedBytesError, MalformedRequestError)):
        state.saw_token("!")


def test_a_request_for_a_partition_that_a_store_made_again_lacks_is_asked_of_any_pod(
    state: SessionState, cluster: PodCluster
) -> None:
    request = get_request(cluster.metadata.definition, "k", DEFAULTS)
    beyond = dataclasses.replace(request, partition=PartitionId(6))
    assert {*state.choices(beyond, 0.0)} == {pod.query for pod in cluster.pods}


def test_the_answers_of_two_threads_are_merged_one_after_the_other(state: SessionState) -> None:
    has_turn: list[bool] = []

    class Watched(Position):
        """A position that tells whether another thread may merge meanwhile."""

        def merge(self, other: Position) -> Self:
            has_turn.append(not state.turn.acquire(blocking=False))  # type: ignore[attr-defined]
            return super().merge(other)

    state.position = Watched.of({"in": {0: 5, 1: 7}})
    state.saw(ASKED)
    assert state.position.topics == SEEN.merge(ASKED).topics
    assert has_turn == [True]


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "https://a/b//"])
def test_a_url_has_no_slash_at_its_end(url: str) -> None:
    assert checked_urls(url) == (url.rstrip("/"),)


@pytest.mark.parametrize("url", ["", "a:1", "//a", "http:", "ftp://a", "http:///x"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(MalformedRequestError, match="a URL like"):
        checked_urls(url)


def test_writers_that_the_store_forgot_are_forgotten_where_they_are_many(
    state: SessionState,
) -> None:
    def answer(*batches: int) -> Position:
        topics = {f"@batch.job-{number}": {1: 0} for number in batches}
        return Position.of({"in": {0: max(batches)}, **topics})

    for number in range(1000):
        state.saw(answer(*range(max(0, number - 99), number + 1)))
    assert state.position.component_count <= 257
    assert state.position.merge(answer(*range(900, 1000))) == state.position
    inputs = Position.of({f"in-{number}": {0: 1} for number in range(400)})
    state.saw(inputs)
    assert state.position.merge(inputs) == state.position
