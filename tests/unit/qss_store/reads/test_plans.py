"""The plans of requests, with bounds in bytes."""

import msgspec
import pytest

from qss_core.errors import (
    MalformedRequestError,
    NullKeyError,
    RangeReversedError,
    StoreError,
    TooLargeError,
    UnknownQueryTypeError,
)
from qss_core.model import Partitioner, PartitionId, StoreType
from qss_core.partitioning import partition_of
from qss_core.queries.types import decode_query
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Codec, codec_of
from qss_store.reads.plans.dispatch import plan_of
from qss_store.reads.plans.indexes import IndexPlan
from qss_store.reads.plans.keys import (
    CountPlan,
    Plan,
    PointPlan,
    ScanPlan,
    partition_of_key,
    plan_scan,
)
from qss_store.reads.plans.times import TimedPlan
from qss_testing.pods.stores import make_definition


def codec(**members: object) -> Codec:
    return codec_of(make_definition(**members))  # type: ignore[arg-type]


WINDOW = {"type": StoreType.WINDOW, "retention_ms": 3_600_000, "window_size_ms": 60_000}


def plan(text: str, **members: object) -> Plan:
    made = plan_of(decode_query(msgspec.Raw(text.encode())), codec(**members))
    assert not isinstance(made, TimedPlan | IndexPlan)
    return made


def test_each_query_type_asks_for_its_members() -> None:
    headers = {"format": "TimestampedWithHeaders"}
    assert plan('{"type":"KeyQuery","key":"a"}', **headers) == PointPlan(b"a", BARE)
    assert plan('{"type":"TimestampedKeyQuery","key":"a"}') == PointPlan(b"a", TIMESTAMPED)
    full = plan('{"type":"TimestampedKeyWithHeadersQuery","key":"a"}', **headers)
    assert full == PointPlan(b"a", FULL)
    assert plan('{"type":"CountQuery"}') == CountPlan()


def test_bounds_are_inclusive_and_null_is_open() -> None:
    assert plan('{"type":"RangeQuery","lower":"a","upper":"b"}') == ScanPlan(
        b"a", b"b\x00", False, BARE
    )
    assert plan('{"type":"RangeQuery"}') == ScanPlan(None, None, False, BARE)
    descending = plan('{"type":"TimestampedRangeQuery","upper":"b","order":"DESCENDING"}')
    assert descending == ScanPlan(None, b"b\x00", True, TIMESTAMPED)
    one = plan('{"type":"RangeQuery","lower":"a","upper":"a"}')
    assert one == ScanPlan(b"a", b"a\x00", False, BARE)


def test_a_prefix_ends_before_the_next_one() -> None:
    assert plan('{"type":"PrefixQuery","prefix":"ab"}') == ScanPlan(
        b"ab", b"ac", False, TIMESTAMPED
    )
    everything = ScanPlan(None, None, False, TIMESTAMPED)
    assert plan('{"type":"PrefixQuery","prefix":""}') == everything
    last = plan('{"type":"PrefixQuery","prefix":"/w=="}', key_serde="bytes")
    assert last == ScanPlan(b"\xff", None, False, TIMESTAMPED)
    uuid = plan_scan({"prefix": "550e"}, codec(key_serde="uuid"))
    assert (uuid.lower, uuid.upper) == (b"550e", b"550f")


def test_a_range_upside_down_is_refused_by_bytes() -> None:
    with pytest.raises(RangeReversedError):
        plan('{"type":"RangeQuery","lower":"b","upper":"a"}')
    with pytest.raises(RangeReversedError, match="negative"):
        plan('{"type":"RangeQuery","lower":-1,"upper":1}', key_serde="int64")
    with pytest.raises(RangeReversedError):
        plan_scan({"from": "b", "to": "a"}, codec())


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ('{"type":"TimestampedKeyQuery","key":"a"}', {"format": "Plain"}),
        ('{"type":"TimestampedRangeQuery"}', {"format": "Plain"}),
        ('{"type":"TimestampedKeyWithHeadersQuery","key":"a"}', {}),
        ('{"type":"TimestampedRangeWithHeadersQuery"}', {}),
        ('{"type":"KeyQuery","key":"a"}', WINDOW),
    ],
)
def test_a_query_for_more_than_the_store_keeps_is_unknown(
    text: str, members: dict[str, object]
) -> None:
    with pytest.raises(UnknownQueryTypeError):
        plan(text, **members)


@pytest.mark.parametrize(
    ("text", "members", "error"),
    [
        ('{"type":"KeyQuery"}', {}, NullKeyError),
        ('{"type":"KeyQuery","key":null}', {}, NullKeyError),
        ('{"type":"KeyQuery","key":1}', {}, MalformedRequestError),
        ('{"type":"KeyQuery","key":"1"}', {"key_serde": "int32"}, MalformedRequestError),
        ('{"type":"KeyQuery","key":2147483648}', {"key_serde": "int32"}, MalformedRequestError),
        ('{"type":"KeyQuery","key":"%s"}' % ("k" * 65537), {}, TooLargeError),
        ('{"type":"PrefixQuery"}', {}, NullKeyError),
        ('{"type":"PrefixQuery","prefix":1}', {}, MalformedRequestError),
        ('{"type":"PrefixQuery","prefix":1}', {"key_serde": "int32"}, MalformedRequestError),
        ('{"type":"PrefixQuery","prefix":"1"}', {"key_serde": "int32"}, MalformedRequestError),
        ('{"type":"RangeQuery","lower":{}}', {}, MalformedRequestError),
    ],
)
def test_wrong_keys_are_refused(
    text: str, members: dict[str, object], error: type[StoreError]
) -> None:
    with pytest.raises(error):
        plan(text, **members)


def test_texts_of_bounds_go_by_the_serde() -> None:
    found = plan_scan({"from": "1", "to": "256"}, codec(key_serde="int16"))
    assert (found.lower, found.upper) == (b"\x00\x01", b"\x01\x00\x00")
    assert plan_scan({"from": ""}, codec()).lower == b""
    with pytest.raises(MalformedRequestError):
        plan_scan({"from": "one"}, codec(key_serde="int16"))
    with pytest.raises(MalformedRequestError, match="prefix"):
        plan_scan({"from": "a", "prefix": "a"}, codec())


def test_a_digest_tells_queries_apart() -> None:
    texts = [
        '{"type":"RangeQuery"}',
        '{"type":"RangeQuery","lower":""}',
        '{"type":"RangeQuery","lower":"a"}',
        '{"type":"RangeQuery","upper":"a"}',
        '{"type":"RangeQuery","order":"DESCENDING"}',
    ]
    digests = {found.digest for found in map(plan, texts) if isinstance(found, ScanPlan)}
    assert len(digests) == len(texts)


def test_a_cursor_goes_on_in_another_format() -> None:
    """The format does not change the place of a scan."""
    plain, timestamped = codec(format="Plain"), codec(format="Timestamped")
    assert plan_scan({"from": "a"}, plain).digest == plan_scan({"from": "a"}, timestamped).digest


def test_a_key_says_its_partition_unless_the_partitioner_is_explicit() -> None:
    hashed, explicit = codec(), codec(partitioner=Partitioner.EXPLICIT)
    assert partition_of_key(b"a", None, hashed) == partition_of(b"a", 4)
    assert partition_of_key(b"a", PartitionId(3), explicit) == 3
    for given, store in ((PartitionId(3), hashed), (None, explicit)):
        with pytest.raises(MalformedRequestError, match="Explicit"):
            partition_of_key(b"a", given, store)
