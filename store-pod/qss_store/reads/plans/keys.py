"""Plans requests for one key, a range of keys, or a count, in bytes. Pure.

The checks here need only the request, so they come before any check of a replica: an unknown query
type is reported rather than an unmet bound.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

import msgspec

from qss_client.chunks.chunk import KEY_BYTES_MAX
from qss_client.chunks.key_hashes import partitions_of_list
from qss_core.errors import (
    MalformedRequestError,
    NullKeyError,
    RangeReversedError,
    TooLargeError,
    UnknownQueryTypeError,
)
from qss_core.keys import prefix_upper_bound
from qss_core.model import Partitioner, PartitionId, StoreType
from qss_core.partitioning import partition_of
from qss_core.queries.parameters import order_of
from qss_core.queries.types import (
    CountQuery,
    KeyQuery,
    KeyValueQuery,
    Order,
    PrefixQuery,
    RangeQuery,
    TimestampedKeyQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeQuery,
    TimestampedRangeWithHeadersQuery,
)
from qss_core.text import decode_base64url, encode_text
from qss_core.times import Times
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Codec, Shape

_DIGEST_BYTES = 8
_HASHED_AT_ONCE_MIN = 16
INSTEAD = {
    StoreType.KEY_VALUE: "; ask /state/stores, or KeyQuery and RangeQuery",
    StoreType.WINDOW: "; ask /state/windows, or WindowKeyQuery and WindowRangeQuery",
    StoreType.SESSION: "; ask /state/sessions, or SessionQuery",
    StoreType.VERSIONED: "; ask /state/versions, or VersionedKeyQuery and MultiVersionedKeyQuery",
}
# The stored bytes of these serdes begin like their text.
_TEXT_SERDES = ("string", "uuid", "json")
_SHAPE_OF: dict[type[KeyValueQuery], Shape] = {
    KeyQuery: BARE,
    RangeQuery: BARE,
    TimestampedKeyQuery: TIMESTAMPED,
    TimestampedRangeQuery: TIMESTAMPED,
    TimestampedKeyWithHeadersQuery: FULL,
    TimestampedRangeWithHeadersQuery: FULL,
}


class PointPlan(msgspec.Struct, frozen=True):  # Each point read makes one.
    key: bytes
    shape: Shape


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """One key at one time, in milliseconds; None: the latest version."""

    key: bytes
    as_of: int | None
    times: Times = Times.MILLIS


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """Keys with lower <= key < upper, in order or in reverse; None is open."""

    lower: bytes | None
    upper: bytes | None
    reverse: bool
    shape: Shape

    @property
    def digest(self) -> bytes:
        """A digest of the query; a cursor with another digest is refused."""
        hasher = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        for bound in (self.lower, self.upper):
            length = -1 if bound is None else len(bound)
            hasher.update(length.to_bytes(8, "big", signed=True))
            hasher.update(bound or b"")
        # The digest omits the shape: a scan continues after the store's format has changed.
        hasher.update(bytes((self.reverse,)))
        return hasher.digest()


@dataclass(frozen=True, slots=True)
class CountPlan:
    """The number of keys, estimated or exact."""

    exact: bool = False


OnePlan = PointPlan | VersionPlan  # Plans of one row.
Plan = OnePlan | ScanPlan | CountPlan


def check_type(codec: Codec, wanted: StoreType = StoreType.KEY_VALUE) -> None:
    """Raises UnknownQueryTypeError for a store of another type."""
    if codec.type is not wanted:
        raise UnknownQueryTypeError(
            f"store {codec.name} is a {codec.type} store: it does not answer {wanted} queries"
            + INSTEAD.get(codec.type, "")
        )


def plan_query(query: KeyValueQuery, codec: Codec) -> PointPlan | ScanPlan | CountPlan:
    """The plan of a key query. Raises UnknownQueryTypeError if the format lacks what it needs."""
    check_type(codec)
    shape = _SHAPE_OF.get(type(query), codec.shape)
    if (shape.timestamp, shape.headers) > (codec.shape.timestamp, codec.shape.headers):
        raise UnknownQueryTypeError(
            f"{type(query).__name__} asks for more than the format {codec.format} of store "
            f"{codec.name} keeps"
        )
    match query:
        case KeyQuery() | TimestampedKeyQuery() | TimestampedKeyWithHeadersQuery():
            return PointPlan(key_of_json(query.key, codec), shape)
        case RangeQuery() | TimestampedRangeQuery() | TimestampedRangeWithHeadersQuery():
            lower = None if query.lower is None else key_of_json(query.lower, codec)
            upper = None if query.upper is None else key_of_json(query.upper, codec)
            return _range(lower, upper, query.order, shape)
        case PrefixQuery():
            return _prefix(_prefix_of_json(query.prefix, codec), query.order, shape)
        case CountQuery():
            return CountPlan(query.exact)
    assert_never(query)


def plan_scan(parameters: dict[str, str], codec: Codec) -> ScanPlan:
    check_type(codec)
    order = order_of(parameters)
    if "prefix" in parameters:
        if "from" in parameters or "to" in parameters:
            raise MalformedRequestError("give either prefix, or from and to")
        return _prefix(_prefix_of_text(parameters["prefix"], codec), order, codec.shape)
    lower, upper = (
        key_of_text(parameters[name], codec) if name in parameters else None
        for name in ("from", "to")
    )
    return _range(lower, upper, order, codec.shape)


def _range(lower: bytes | None, upper: bytes | None, order: Order, shape: Shape) -> ScanPlan:
    if lower is not None and upper is not None and lower > upper:
        raise RangeReversedError(
            "the lower bound lies above the upper one. Keys are ordered by their serialized bytes "
            "(negative numbers come after positive ones); for the reverse order say DESCENDING"
        )
    end = None if upper is None else upper + b"\x00"  # The upper bound is inclusive.
    return ScanPlan(lower, end, order is Order.DESCENDING, shape)


def _prefix(prefix: bytes, order: Order, shape: Shape) -> ScanPlan:
    return ScanPlan(prefix or None, prefix_upper_bound(prefix), order is Order.DESCENDING, shape)


# --- Keys


def key_of_text(text: str, codec: Codec) -> bytes:
    """The stored bytes of a key in a path or parameter."""
    return _checked(codec.key.key_from_text(text))


def key_of_json(obj: object, codec: Codec) -> bytes:
    """The stored bytes of a key in a body."""
    if obj is None:
        raise NullKeyError("key is missing or null: every row of a store has a key")
    return _checked(codec.key.encode(codec.key.from_json(obj)))


def keys_of_json(objs: Sequence[object], codec: Codec) -> list[bytes]:
    """The stored bytes of many keys in a body."""
    if codec.key.name == "string":
        # The usual case, without three calls for each key.
        with suppress(AttributeError, TypeError, UnicodeEncodeError):
            keys = [*map(str.encode, objs)]  # type: ignore[arg-type]
            if max(map(len, keys), default=0) <= KEY_BYTES_MAX:
                return keys
    return [key_of_json(obj, codec) for obj in objs]


def _checked(key: bytes) -> bytes:
    if len(key) > KEY_BYTES_MAX:
        raise TooLargeError(
            f"a key of {len(key)} bytes: at most {KEY_BYTES_MAX} are allowed", limit=KEY_BYTES_MAX
        )
    return key


def _prefix_of_text(text: str, codec: Codec) -> bytes:
    if codec.key.name == "bytes":
        return _checked(decode_base64url(text))
    if codec.key.name in _TEXT_SERDES:
        return _checked(encode_text(text))
    raise MalformedRequestError(
        f"a prefix of {codec.key.name} keys selects no useful range: use from and to"
    )


def _prefix_of_json(obj: object, codec: Codec) -> bytes:
    if obj is None:
        raise NullKeyError("prefix is null: the empty prefix selects all keys")
    if codec.key.name == "bytes":
        return _checked(codec.key.encode(codec.key.from_json(obj)))
    if not isinstance(obj, str):
        raise MalformedRequestError("prefix is a string")
    return _prefix_of_text(obj, codec)


# --- Partitions


def partitions_of_keys(
    keys: Sequence[bytes], partition: PartitionId | None, codec: Codec
) -> list[PartitionId]:
    """The partitions of many keys; enough keys are hashed in one call."""
    hashed = codec.partitioner is Partitioner.MURMUR2 and partition is None
    if not hashed or len(keys) < _HASHED_AT_ONCE_MIN:
        return [partition_of_key(key, partition, codec) for key in keys]
    found: list[PartitionId] = partitions_of_list(keys, codec.partitions).tolist()
    return found


def partition_of_key(key: bytes, partition: PartitionId | None, codec: Codec) -> PartitionId:
    """The partition of a key: by its hash, or with the partitioner Explicit from the request."""
    if codec.partitioner is Partitioner.EXPLICIT:
        if partition is None:
            raise MalformedRequestError(
                f"store {codec.name} has the partitioner Explicit: give the key's `partition`"
            )
        return partition
    if partition is not None:
        raise MalformedRequestError(
            f"`partition` is for the partitioner Explicit; store {codec.name} hashes its keys"
        )
    return PartitionId(partition_of(key, codec.partitions))


def check_count(keys: Sequence[object], keys_max: int) -> None:
    """Raises TooLargeError for a batch of too many keys."""
    if len(keys) > keys_max:
        raise TooLargeError(f"{len(keys)} keys: at most {keys_max} in one request", limit=keys_max)
