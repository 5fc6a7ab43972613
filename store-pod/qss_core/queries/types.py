"""The query types of IQv2, with Kafka's names and members (KIP-796 and later ones).

Unknown members are refused; an unknown type has another error than a malformed query.
"""

from enum import StrEnum
from typing import Any

import msgspec

from qss_core.errors import MalformedRequestError, UnknownQueryTypeError
from qss_core.text import allowed_members


class Order(StrEnum):
    """The order of a scan, by serialized key; ANY is ascending, for versions descending."""

    ANY = "ANY"
    ASCENDING = "ASCENDING"
    DESCENDING = "DESCENDING"


class Member(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """JSON with camelCase members, without unknown ones."""


# --- Query types. Keys are JSON of the store's key serde.


class _KeyMembers(Member, frozen=True):
    key: Any = None
    skip_cache: bool = False  # Accepted without effect: there is no cache.


class KeyQuery(_KeyMembers, frozen=True, tag_field="type", tag="KeyQuery"):
    """The value of a key."""


class TimestampedKeyQuery(_KeyMembers, frozen=True, tag_field="type", tag="TimestampedKeyQuery"):
    """The value and timestamp of a key."""


class TimestampedKeyWithHeadersQuery(
    _KeyMembers, frozen=True, tag_field="type", tag="TimestampedKeyWithHeadersQuery"
):
    """The value, timestamp and headers of a key."""


class _RangeMembers(Member, frozen=True):
    lower: Any = None  # Both bounds are inclusive; null is open.
    upper: Any = None
    order: Order = Order.ANY


class RangeQuery(_RangeMembers, frozen=True, tag_field="type", tag="RangeQuery"):
    """Keys and values of a range."""


class TimestampedRangeQuery(
    _RangeMembers, frozen=True, tag_field="type", tag="TimestampedRangeQuery"
):
    """Keys, values and timestamps of a range."""


class TimestampedRangeWithHeadersQuery(
    _RangeMembers, frozen=True, tag_field="type", tag="TimestampedRangeWithHeadersQuery"
):
    """Keys, values, timestamps and headers of a range."""


class PrefixQuery(Member, frozen=True, tag_field="type", tag="PrefixQuery"):
    """The whole rows of keys that start with a prefix (IQv1's prefixScan)."""

    prefix: Any = None
    order: Order = Order.ANY


class CountQuery(Member, frozen=True, tag_field="type", tag="CountQuery"):
    """The estimated number of keys (IQv1's approximateNumEntries); with `exact` the exact one."""

    exact: bool = False


class IndexQuery(Member, frozen=True, tag_field="type", tag="IndexQuery"):
    """The rows that an index of a custom store type names, by index key and then key."""

    index: str
    lower: Any = None  # Both bounds are index keys, inclusive; null is open.
    upper: Any = None
    order: Order = Order.ANY


# --- Of windows and sessions. Times are milliseconds since 1970, RFC 3339, or dates.


class _WindowKeyMembers(Member, frozen=True):
    key: Any = None
    time_from: Any = None  # Both are window starts, inclusive.
    time_to: Any = None


class WindowKeyQuery(_WindowKeyMembers, frozen=True, tag_field="type", tag="WindowKeyQuery"):
    """The windows of a key that start from `timeFrom` to `timeTo`; both are needed, as in Kafka."""


class TimestampedWindowKeyWithHeadersQuery(
    _WindowKeyMembers, frozen=True, tag_field="type", tag="TimestampedWindowKeyWithHeadersQuery"
):
    """As WindowKeyQuery, with timestamps and headers."""


class WindowRangeQuery(_WindowKeyMembers, frozen=True, tag_field="type", tag="WindowRangeQuery"):
    """Either the windows of all keys by `timeFrom` and `timeTo`, or the sessions of a `key`."""


class TimestampedWindowRangeWithHeadersQuery(
    _WindowKeyMembers, frozen=True, tag_field="type", tag="TimestampedWindowRangeWithHeadersQuery"
):
    """As WindowRangeQuery, with timestamps and headers."""


class SessionQuery(Member, frozen=True, tag_field="type", tag="SessionQuery"):
    """Sessions of a key or of keys (IQv1's findSessions and fetchSession, which IQv2 lacks).

    The sessions with end >= `endFrom` and start <= `startTo`, or the session of exactly `start` and
    `end`.
    """

    key: Any = None
    key_from: Any = None  # Both inclusive; null is open.
    key_to: Any = None
    end_from: Any = None
    start_to: Any = None
    start: Any = None
    end: Any = None
    order: Order = Order.ANY


# --- Of versions.


class VersionedKeyQuery(Member, frozen=True, tag_field="type", tag="VersionedKeyQuery"):
    """The version of a key that was valid at `asOfTimestamp`; without it the latest."""

    key: Any = None
    as_of_timestamp: Any = None


class MultiVersionedKeyQuery(Member, frozen=True, tag_field="type", tag="MultiVersionedKeyQuery"):
    """The versions of a key that were valid at some time in a range; ANY is newest first."""

    key: Any = None
    from_time: Any = None  # Both are inclusive; null is open.
    to_time: Any = None
    order: Order = Order.ANY


PointQuery = KeyQuery | TimestampedKeyQuery | TimestampedKeyWithHeadersQuery
BoundedQuery = RangeQuery | TimestampedRangeQuery | TimestampedRangeWithHeadersQuery
ScanQuery = BoundedQuery | PrefixQuery
KeyValueQuery = PointQuery | ScanQuery | CountQuery
WindowQuery = (
    WindowKeyQuery
    | WindowRangeQuery
    | TimestampedWindowKeyWithHeadersQuery
    | TimestampedWindowRangeWithHeadersQuery
)
VersionQuery = VersionedKeyQuery | MultiVersionedKeyQuery
Query = KeyValueQuery | IndexQuery | WindowQuery | SessionQuery | VersionQuery

QUERY_TYPES: dict[str, type[Query]] = {
    kind.__name__: kind
    for kind in (
        KeyQuery,
        TimestampedKeyQuery,
        TimestampedKeyWithHeadersQuery,
        RangeQuery,
        TimestampedRangeQuery,
        TimestampedRangeWithHeadersQuery,
        PrefixQuery,
        CountQuery,
        IndexQuery,
        WindowKeyQuery,
        WindowRangeQuery,
        TimestampedWindowKeyWithHeadersQuery,
        TimestampedWindowRangeWithHeadersQuery,
        SessionQuery,
        VersionedKeyQuery,
        MultiVersionedKeyQuery,
    )
}
_DECODER: msgspec.json.Decoder[Query] = msgspec.json.Decoder(Query)


class _Tag(msgspec.Struct):
    type: str


def query_type(raw: msgspec.Raw) -> str:
    """The name of the query's type, known or not. Raises MalformedRequestError."""
    try:
        return msgspec.json.decode(raw, type=_Tag).type
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRequestError(f"query: {error}") from error


def decode_query(raw: msgspec.Raw) -> Query:
    """The query. An unknown type raises UnknownQueryTypeError before its members are checked."""
    name = query_type(raw)
    if name not in QUERY_TYPES:
        raise UnknownQueryTypeError(
            f"unknown query type {name[:80]!r}: there are {', '.join(QUERY_TYPES)}"
        )
    try:
        return _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        allowed = allowed_members(QUERY_TYPES[name], error)
        raise MalformedRequestError(f"query: {error}{allowed}") from error
