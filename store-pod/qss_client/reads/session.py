"""The state of a client between requests: routes and position. Pure."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from qss_client.reads.json_values import JsonReader, read_json
from qss_client.reads.requests import HttpRequest
from qss_client.reads.routing.attempt import Attempt
from qss_client.reads.routing.known_pods import KnownPods
from qss_client.reads.routing.replica_choice import choices_of, newer_of
from qss_core.model import StoreId
from qss_core.positions import BATCH_TOPICS, Position, decode_token
from qss_core.wire.messages import StoreMetadata

_COMPONENTS_KEPT = 256


@dataclass(slots=True)
class SessionState:
    """A client's routes, and the newest position seen, which bounds later reads from below."""

    urls: tuple[str, ...]
    store: str
    monotonic: bool
    turn: AbstractContextManager[object]  # The lock of a client whose threads share the state.
    only_url: bool = False  # If the pods' own addresses cannot be reached from here.
    read: JsonReader = read_json
    metadata: StoreMetadata | None = None
    position: Position = field(default_factory=Position.empty)
    pods: KnownPods = field(default_factory=KnownPods)
    _asked: int = 0
    _discoveries: int = 0

    @property
    def store_id(self) -> StoreId | None:
        """The id of the store that the routes are of; None before they are known."""
        return self.metadata.definition.store_id if self.metadata else None

    def learn(self, found: StoreMetadata, asked_of: StoreId | None) -> None:
        """Keeps the metadata that a pod tells of the store; newer routes stay.

        It drops the position of a store that was deleted: the one of its name may never reach it.

        asked_of: `store_id` as it was when the pod was asked. Where another one was learned since,
            metadata of any but that one come too late.
        """
        with self.turn:
            known, told = self.metadata, found.definition.store_id
            if known is None:
                self.metadata = found
                return
            if told != self.store_id:
                if self.store_id != asked_of:
                    return
                self.position = Position.empty()
            self.metadata = newer_of(known, found)

    def discovery_urls(self, now_s: float) -> list[str]:
        """The URLs for discovery: first the known pods, then the given addresses.

        Each time another one is first: a pod that is cut off tells old routes. Those that gave no
        answer a moment ago come last.
        """
        instances = self.metadata.instances if self.metadata and not self.only_url else ()
        known = [one.query for one in instances]
        first = self._discoveries % max(1, len(known))
        self._discoveries += 1
        every = dict.fromkeys((*known[first:], *known[:first], *self.urls))
        bases = self.pods.in_order(every, now_s)
        return [self.discovery_url(base) for base in bases]

    def discovery_url(self, base: str) -> str:
        """The URL at which one pod tells the store's metadata."""
        return f"{base}/state/instances/{self.store}"

    def choices(self, request: HttpRequest, now_s: float) -> list[str]:
        """The pods that may answer, in the order in which to ask them.

        They are the replicas of the request's partition, the active first, or all pods in turn.
        Pods that gave no answer a moment ago come last.
        """
        assert self.metadata is not None, "routes are discovered before the first request"
        # A store that was made again may have fewer partitions than the request knows of.
        is_placed = request.partition in range(len(self.metadata.assignment))
        if is_placed and not self.only_url:
            return choices_of(self.metadata, request, self.pods, now_s)
        self._asked += 1
        bases = self.urls if self.only_url else [one.query for one in self.metadata.instances]
        first = self._asked % len(bases)
        return self.pods.in_order((*bases[first:], *bases[:first]), now_s)

    def attempt(self, request: HttpRequest, now_s: float) -> Attempt:
        """Begins an attempt of a request, which asks the pods of `choices`."""
        assert self.metadata is not None, "routes are discovered before the first request"
        may_move = any(len(entry.replicas) > 1 for entry in self.metadata.assignment)
        return Attempt(request, self.choices(request, now_s), self.pods, now_s, may_move)

    def target(self, request: HttpRequest) -> str:
        """The request's path and parameters, with the position bound."""
        return request.bounded(self.position if self.monotonic else None).target

    def data(self, request: HttpRequest) -> bytes | None:
        """The request's body, with the position bound."""
        return request.bounded(self.position if self.monotonic else None).data

    def saw(self, position: Position) -> None:
        """Merges the position of an answer.

        If it has very many components, it drops the batches of writers that the store has
        forgotten.
        """
        with self.turn:
            merged = self.position.merge(position)
            if merged.component_count > _COMPONENTS_KEPT:
                merged = _without_forgotten(merged, position)
            self.position = merged

    def saw_token(self, token: str | None) -> None:
        """Merges the position token of an answer's header."""
        if token:
            self.saw(decode_token(token))


def _without_forgotten(position: Position, newest: Position) -> Position:
    """The position without the batches of writers that are not in `newest`."""
    there = dict(newest.topics)
    kept = (
        one for one in position.topics if one[0] in there or not one[0].startswith(BATCH_TOPICS)
    )
    return Position(tuple(kept))
