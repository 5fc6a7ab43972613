"""What a client of one store remembers between requests. Pure: the shells do the talking."""

from dataclasses import dataclass, field

from qss_client.reads.json_values import JsonReader, read_json
from qss_client.reads.requests import HttpRequest
from qss_client.reads.routing import active_of
from qss_core.positions import BATCH_TOPICS, Position, decode_token
from qss_core.wire.messages import StoreMetadata

_COMPONENTS_KEPT = 256


@dataclass(slots=True)
class Conversation:
    """Routes, and the newest position seen: handing it on is what keeps reads from going back."""

    urls: tuple[str, ...]
    store: str
    monotonic: bool
    only_url: bool = False  # The pods' own addresses cannot be reached from here.
    read: JsonReader = read_json
    metadata: StoreMetadata | None = None
    position: Position = field(default_factory=Position.empty)
    _turn: int = 0

    @property
    def discovery_urls(self) -> list[str]:
        """Where to discover: the pods that are known, then the addresses that were given."""
        instances = self.metadata.instances if self.metadata and not self.only_url else ()
        known = [one.query for one in instances]
        return [
            f"{base}/state/instances/{self.store}" for base in dict.fromkeys((*known, *self.urls))
        ]

    def target(self, request: HttpRequest) -> str:
        """The URL to ask: the active of the request's partition, or the pods in turn."""
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
        """Takes a position that an answer carried.

        Where very many writers have come and gone, it lets go of those that the store forgot.
        """
        merged = self.position.merge(position)
        if merged.component_count > _COMPONENTS_KEPT:
            merged = _without_forgotten(merged, position)
        self.position = merged

    def saw_token(self, token: str | None) -> None:
        """Takes a position token of an answer's header."""
        if token:
            self.saw(decode_token(token))


def _without_forgotten(position: Position, newest: Position) -> Position:
    """Without the batches of writers that are not in an answer any more."""
    there = dict(newest.topics)
    kept = (
        one for one in position.topics if one[0] in there or not one[0].startswith(BATCH_TOPICS)
    )
    return Position(tuple(kept))
