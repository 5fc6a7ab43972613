"""The state of a client between requests: routes and position. Pure."""

from dataclasses import dataclass, field

from qss_client.reads.json_values import JsonReader, read_json
from qss_client.reads.requests import HttpRequest
from qss_client.reads.routing import active_of
from qss_core.positions import BATCH_TOPICS, Position, decode_token
from qss_core.wire.messages import StoreMetadata

_COMPONENTS_KEPT = 256


@dataclass(slots=True)
class SessionState:
    """A client's routes, and the newest position seen, which bounds later reads from below."""

    urls: tuple[str, ...]
    store: str
    monotonic: bool
    only_url: bool = False  # If the pods' own addresses cannot be reached from here.
    read: JsonReader = read_json
    metadata: StoreMetadata | None = None
    position: Position = field(default_factory=Position.empty)
    _turn: int = 0

    @property
    def discovery_urls(self) -> list[str]:
        """The URLs for discovery: first the known pods, then the given addresses."""
        instances = self.metadata.instances if self.metadata and not self.only_url else ()
        known = [one.query for one in instances]
        return [
            f"{base}/state/instances/{self.store}" for base in dict.fromkeys((*known, *self.urls))
        ]

    def target(self, request: HttpRequest) -> str:
        """The request's URL: at the active of its partition, or at the pods in turn."""
        assert self.metadata is not None, "routes are discovered before the first request"
        bounded = request.bounded(self.position if self.monotonic else None)
        return self._base(self.metadata, request) + bounded.target

    def _base(self, metadata: StoreMetadata, request: HttpRequest) -> str:
        if request.partition is not None and not self.only_url:
            return active_of(metadata, request.partition).query
        self._turn += 1
        if self.only_url:
            return self.urls[self._turn % len(self.urls)]
        return metadata.instances[self._turn % len(metadata.instances)].query

    def data(self, request: HttpRequest) -> bytes | None:
        """The request's body, with the position bound."""
        return request.bounded(self.position if self.monotonic else None).data

    def saw(self, position: Position) -> None:
        """Merges the position of an answer.

        If it has very many components, it drops the batches of writers that the store has
        forgotten.
        """
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
