"""Positions: how far a job has read its inputs; as bytes, token and JSON; bounds (KIP-796).

Bytes: 00, topics (4), per topic: name length (4), name, pairs (4), per pair: partition (4), offset
(8); all big-endian. Topics and partitions are sorted, so equal positions have equal bytes; Kafka
writes them in hash order, with trailing zeros. A token is the unpadded base64url of these bytes. If
they exceed 6000, it is that of 01 and their zlib compression (RFC 1950): topic names are much
alike, and a token must fit into a line of a request.

A topic without partitions is a declared input of which nothing has been read yet.
"""

import re
import struct
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

from qss_core.errors import MalformedBytesError, MalformedRequestError, StoreError
from qss_core.text import decode_base64url, encode_base64url

COMPONENTS_MAX = 1024
BATCH_TOPICS = "@batch."  # `@batch.<writer>`: its partition is a generation, its offset a batch.
TOKEN_BYTES_MAX = 24 * 1024  # A header may have 32 KiB.
POSITION_BYTES_MAX = 512 * 1024  # A token of a few KiB must not decompress to more.

_PARTITION_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1
_VERSION = b"\x00"
_COMPRESSED = b"\x01"
_PLAIN_BYTES_MAX = 6000  # As a token below 8 KiB, which every server accepts in a header.
_GROWN_OFFSETS = 2**40
_COUNT = struct.Struct(">i")
_PAIR = struct.Struct(">iq")
_DECIMAL = re.compile("0|[1-9][0-9]{0,9}")

Offsets = tuple[tuple[int, int], ...]
PositionJson = dict[str, dict[str, int]]
Component = tuple[str, int]  # A topic and a partition; -1 for a topic without partitions.
_NO_PARTITION = -1


@dataclass(frozen=True, slots=True)
class Position:
    """Topic -> partition -> offset, sorted: immutable and hashable."""

    topics: tuple[tuple[str, Offsets], ...] = ()

    @classmethod
    def empty(cls) -> Self:
        """The position of a store without a commit; as a bound: no bound."""
        return cls()

    @classmethod
    def of(cls, offsets: Mapping[str, Mapping[int, int]]) -> Self:
        return cls(tuple((topic, _sorted(offsets[topic])) for topic in sorted(offsets)))

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """From {topic: {partition as text: offset}}. Raises MalformedRequestError."""
        if not isinstance(obj, dict):
            raise MalformedRequestError("a position is an object: topic -> partition -> offset")
        position = cls.of({_topic(topic): _offsets(topic, obj[topic]) for topic in obj})
        if position.component_count > COMPONENTS_MAX:
            raise MalformedRequestError(_over_limit(position.component_count))
        return position

    def to_json(self) -> dict[str, dict[str, int]]:
        """{topic: {partition as text: offset}}, in order."""
        return {
            topic: {str(partition): offset for partition, offset in pairs}
            for topic, pairs in self.topics
        }

    def offsets(self) -> dict[str, dict[int, int]]:
        """A new mapping topic -> partition -> offset."""
        return {topic: dict(pairs) for topic, pairs in self.topics}

    @property
    def component_count(self) -> int:
        """The number of offsets and of topics without partitions, which the limit applies to."""
        return sum(len(pairs) or 1 for _, pairs in self.topics)

    @property
    def components(self) -> frozenset[Component]:
        """The topic and partition of each component; topics without partitions by themselves."""
        return frozenset(
            (topic, partition)
            for topic, pairs in self.topics
            for partition in (
                *(number for number, _ in pairs),
                *(() if pairs else (_NO_PARTITION,)),
            )
        )

    def without(self, components: Collection[Component]) -> Self:
        """Without these components; a topic whose last component goes is removed, too."""
        if not components:
            return self
        kept = []
        for topic, pairs in self.topics:
            left = tuple(pair for pair in pairs if (topic, pair[0]) not in components)
            if left or (not pairs and (topic, _NO_PARTITION) not in components):
                kept.append((topic, left))
        return type(self)(tuple(kept))

    def offset_of(self, topic: str, partition: int) -> int | None:
        """The offset of one component; None if it is unread."""
        return self.offsets().get(topic, {}).get(partition)

    def with_component(self, topic: str, partition: int, offset: int) -> Self:
        """With this offset as a minimum: a smaller one changes nothing."""
        return self.merge(type(self)(((topic, ((partition, offset),)),)))

    def merge(self, other: "Position") -> Self:
        """The larger offset of each component, and the topics of both."""
        if self == other:
            return self
        merged = self.offsets()
        for topic, pairs in other.topics:
            offsets = merged.setdefault(topic, {})
            for partition, offset in pairs:
                offsets[partition] = max(offset, offsets.get(partition, offset))
        return self.of(merged)


class UnmetComponent(NamedTuple):
    """A component of a bound that a store has not reached; `seen` is None if it has no offset."""

    topic: str
    partition: int
    offset: int
    seen: int | None


def unmet_components(position: Position | None, bound: Position) -> list[UnmetComponent]:
    """The components of `bound` that a store partition at `position` has not reached.

    Every component is checked against the whole position. Topics that are not inputs of the store
    are ignored, as KIP-796 intends (Kafka never meets such a bound). A store without a commit (None
    or empty) does not know its inputs yet, and meets no component.
    """
    if not bound.topics:
        return []
    known = position.offsets() if position else {}
    return [
        UnmetComponent(topic, partition, offset, seen)
        for topic, pairs in bound.topics
        if topic in known or not known
        for partition, offset in pairs
        if (seen := known.get(topic, {}).get(partition)) is None or seen < offset
    ]


def encode_position(position: Position) -> bytes:
    """The KIP-796 bytes. Raises MalformedRequestError if the position cannot be encoded."""
    if position.component_count > COMPONENTS_MAX:
        raise MalformedRequestError(_over_limit(position.component_count))
    parts = [_VERSION, _COUNT.pack(len(position.topics))]
    try:
        for topic, pairs in position.topics:
            name = topic.encode()
            parts += (_COUNT.pack(len(name)), name, _COUNT.pack(len(pairs)))
            parts += (_PAIR.pack(partition, offset) for partition, offset in pairs)
    except (struct.error, UnicodeEncodeError) as error:
        raise MalformedRequestError(f"a position that has no bytes: {error}") from error
    return b"".join(parts)


def decode_position(data: bytes) -> Position:
    """Decodes KIP-796 bytes, in any order, with any trailing zeros.

    Raises MalformedBytesError for all other bytes.
    """
    if data[:1] != _VERSION:
        raise MalformedBytesError(f"unknown position version {data[:1].hex() or '(no bytes)'}")
    reader = _Reader(data, 1)
    offsets: dict[str, dict[int, int]] = {}
    for _ in range(reader.count("topics")):
        topic = reader.text(reader.size("topic name"))
        if topic in offsets:
            raise MalformedBytesError(f"a position names the topic {topic!r} twice")
        offsets[topic] = reader.pairs(reader.count("partitions"))
    if data[reader.offset :].strip(b"\0"):
        raise MalformedBytesError("bytes other than zeros follow a position")
    position = Position.of(offsets)
    if position.component_count > COMPONENTS_MAX:
        raise MalformedBytesError(_over_limit(position.component_count))
    return position


def encode_token(position: Position) -> str:
    """The position token of answers and requests; each call makes a new str object."""
    data = encode_position(position)
    return encode_base64url(_compressed(data) if len(data) > _PLAIN_BYTES_MAX else data)


def grown_token_bytes(position: Position) -> int:
    """The maximum length of the token if all offsets grow up to 2**40 and none is added.

    Raises MalformedRequestError as `encode_position`.
    """
    grown = Position(
        tuple(
            (topic, tuple((partition, _grown(topic, partition)) for partition, _ in pairs))
            for topic, pairs in position.topics
        )
    )
    return len(encode_token(grown))


def _grown(topic: str, partition: int) -> int:
    """An offset with digits that zlib cannot compress."""
    return zlib.crc32(f"{partition} of {topic}".encode()) * 2_654_435_761 % _GROWN_OFFSETS


def decode_token(token: str) -> Position:
    """Decodes a token. Raises MalformedRequestError or MalformedBytesError."""
    data = decode_base64url(token)
    return decode_position(_decompressed(data) if data[:1] == _COMPRESSED else data)


@lru_cache(maxsize=16)  # All partitions have the same position after a commit.
def _compressed(data: bytes) -> bytes:
    return _COMPRESSED + zlib.compress(data)


def _decompressed(data: bytes) -> bytes:
    rest = zlib.decompressobj()
    try:
        plain = rest.decompress(data[1:], POSITION_BYTES_MAX)
    except zlib.error as error:
        raise MalformedBytesError(f"a position that cannot be decompressed: {error}") from error
    if not rest.eof or rest.unused_data:
        raise MalformedBytesError("a compressed position is cut off, too long, or bytes follow it")
    return plain


def parse_bound(obj: object) -> Position:
    """A request's position bound, a token or a JSON object. Raises MalformedRequestError."""
    try:
        if isinstance(obj, str):
            return decode_token(obj)
        return Position.from_json(obj)
    except StoreError as error:
        raise MalformedRequestError(f"positionBound: {error.message}") from error


@dataclass(slots=True)
class _Reader:
    data: bytes
    offset: int

    def take(self, size: int) -> bytes:
        start = self.offset
        self.offset = start + size
        if self.offset > len(self.data):
            raise MalformedBytesError("the bytes end inside a position")
        return self.data[start : self.offset]

    def size(self, what: str) -> int:
        size: int = _COUNT.unpack(self.take(_COUNT.size))[0]
        if size < 0:
            raise MalformedBytesError(f"a position with a negative size of its {what}: {size}")
        return size

    def count(self, what: str) -> int:
        count = self.size(what)
        if count > COMPONENTS_MAX:
            raise MalformedBytesError(_over_limit(count))
        return count

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedBytesError("a topic name in a position is not UTF-8") from error

    def pairs(self, count: int) -> dict[int, int]:
        pairs = dict(_PAIR.iter_unpack(self.take(count * _PAIR.size)))
        if len(pairs) != count:
            raise MalformedBytesError("a position names a partition twice")
        if any(partition < 0 or offset < 0 for partition, offset in pairs.items()):
            raise MalformedBytesError("a position with a negative partition or offset")
        return pairs


def _sorted(offsets: Mapping[int, int]) -> Offsets:
    return tuple(sorted(offsets.items()))


def _topic(topic: object) -> str:
    if not isinstance(topic, str):
        raise MalformedRequestError(f"{topic!r} is not a topic name")
    try:
        topic.encode()
    except UnicodeEncodeError as error:
        raise MalformedRequestError(f"topic {topic!r} is not UTF-8") from error
    return topic


def _offsets(topic: str, obj: object) -> dict[int, int]:
    if not isinstance(obj, dict):
        raise MalformedRequestError(f"topic {topic!r}: expected an object: partition -> offset")
    return {_partition(topic, text): _offset(topic, obj[text]) for text in obj}


def _partition(topic: str, text: object) -> int:
    # Each number has one spelling, so that no partition is named twice.
    if isinstance(text, str) and _DECIMAL.fullmatch(text) and int(text) <= _PARTITION_MAX:
        return int(text)
    raise MalformedRequestError(f"topic {topic!r}: {text!r} is not a partition number")


def _offset(topic: str, offset: object) -> int:
    if type(offset) is not int or not 0 <= offset <= _OFFSET_MAX:
        raise MalformedRequestError(
            f"topic {topic!r}: an offset is a whole number from 0 to {_OFFSET_MAX}"
        )
    return offset


def _over_limit(count: int) -> str:
    return f"a position of {count} components; at most {COMPONENTS_MAX} are allowed"
