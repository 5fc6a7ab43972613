"""A client's requests, where routes get no answer or the store is made again meanwhile."""

from contextlib import nullcontext
from typing import Any

from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import RetryLimits
from qss_client.reads import calls
from qss_client.reads.requests import DEFAULTS
from qss_client.reads.responses import Row
from qss_client.reads.session import SessionState
from qss_client.reads.sync_session import Session
from qss_core.errors import NotUpToBoundError, UnreachableError
from qss_core.model import (
    Ordinal,
    PodAddress,
    PodName,
    StoreAssignment,
    StoreId,
    StoreSettings,
)
from qss_core.positions import Position, encode_token
from qss_core.wire.messages import StoreMetadata, encode, metadata_of
from qss_testing.pods.stores import configuration, make_definition

URL, ROW = "http://pod:1", b'{"key":"k","value":1,"timestamp":5}'
BEFORE, AFTER = Position.of({"in": {0: 9}}), Position.of({"in": {0: 1}})


def metadata(store_id: str) -> StoreMetadata:
    """The metadata of a store with one pod."""
    pod = PodAddress(ordinal=Ordinal(0), name=PodName("words-0"), query=URL, changelog=URL)
    return metadata_of(
        StoreAssignment(
            definition=make_definition(1, store_id=StoreId(store_id)),
            settings=StoreSettings(),
            pods=(pod,),
            partitions=(configuration(0, 0),),
        )
    )


class Http:
    """A pod that gives the answers in turn, while another thread may learn of a new store."""

    def __init__(self, *answers: Exception | Position, tells_routes: bool = True) -> None:
        self.state = SessionState(
            (URL,), "words", monotonic=True, turn=nullcontext(), metadata=metadata("first")
        )
        self.answers, self.tells_routes = list(answers), tells_routes
        self.made_again = False  # While the next request is under way.

    def request(self, _: str, url: str, **__: Any) -> HttpAnswer:
        if "/state/instances/" in url:
            if not self.tells_routes:
                raise UnreachableError("no answer")
            return HttpAnswer(200, {}, encode(metadata("second")))
        if self.made_again:
            self.made_again = False
            self.state.learn(metadata("second"), self.state.store_id)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return HttpAnswer(200, {"queryable-state-position": encode_token(answer)}, ROW)

    def get(self) -> Row | None:
        definition = metadata("first").definition
        limits = RetryLimits(deadline_s=10.0)
        session = Session(self.state, self, limits)  # type: ignore[arg-type]
        return session.run(calls.get(self.state, definition, "k", DEFAULTS))


def test_a_request_behind_its_bound_is_asked_again_where_no_pod_tells_routes() -> None:
    pods = Http(*(NotUpToBoundError("behind") for _ in range(5)), AFTER, tells_routes=False)
    row = pods.get()
    assert row is not None
    assert row.value == 1
    assert pods.answers == []


def test_a_late_answer_of_a_store_that_was_made_again_is_not_taken() -> None:
    """The new store may never reach its position."""
    pods = Http(BEFORE, AFTER)
    pods.made_again = True
    assert pods.get() is not None
    assert pods.state.position == AFTER


def test_late_metadata_of_a_store_that_was_made_again_are_not_taken() -> None:
    state = Http().state
    asked_of = state.store_id
    state.learn(metadata("second"), asked_of)
    state.saw(AFTER)
    state.learn(metadata("first"), asked_of)
    assert (state.store_id, state.position) == ("second", AFTER)
    state.learn(metadata("third"), state.store_id)
    assert (state.store_id, state.position) == ("third", Position.empty())
