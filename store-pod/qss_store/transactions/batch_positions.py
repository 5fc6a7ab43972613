"""The components of a position that name batches, and the position after a batch. Pure."""

from collections.abc import Collection
from functools import lru_cache

from qss_core.positions import BATCH_TOPICS, Position


def batch_topic(writer: str) -> str:
    """The pseudo-topic whose partition is a writer's generation and whose offset is its batch."""
    return BATCH_TOPICS + writer


def without_writers(position: Position, writers: Collection[str]) -> Position:
    """The position without the batches of these writers."""
    if not writers:
        return position
    topics = {batch_topic(writer) for writer in writers}
    return Position(tuple(one for one in position.topics if one[0] not in topics))


def only_batches(position: Position) -> Position:
    return Position(tuple(pair for pair in position.topics if pair[0].startswith(BATCH_TOPICS)))


@lru_cache(maxsize=16)  # All partitions of a pod compute the same for a batch.
def merged(kept: Position, read: Position, topic: str, ordinal: tuple[int, int]) -> Position:
    """The position `kept` with the offsets that a batch has read, and with the batch itself."""
    return kept.merge(read).with_component(topic, *ordinal)
