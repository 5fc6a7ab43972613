"""Requests and answers of IQv2 as JSON."""

import msgspec
import pytest

from qss_core.errors import (
    AccessUnknownError,
    DiskFullError,
    MalformedBytesError,
    MalformedRequestError,
    NotActiveError,
    NotUpToBoundError,
    PartitionDoesNotExistError,
    StaleEpochError,
    StoreError,
    TooLargeError,
)
from qss_core.errors import UnknownQueryTypeError as UnknownType
from qss_core.model import PodName
from qss_core.queries.requests import (
    Failure,
    PartitionAnswer,
    QueryRequest,
    Reason,
    decode_mark,
    encode_mark,
    error_of_failure,
    failure_of,
)
from qss_core.queries.types import (
    QUERY_TYPES,
    KeyQuery,
    Order,
    PrefixQuery,
    RangeQuery,
    decode_query,
)


def decode(text: str) -> object:
    return decode_query(msgspec.Raw(text.encode()))


def test_queries_have_kafkas_names() -> None:
    assert set(QUERY_TYPES) == {
        "KeyQuery",
        "RangeQuery",
        "PrefixQuery",
        "CountQuery",
        "IndexQuery",
        "WindowKeyQuery",
        "WindowRangeQuery",
        "TimestampedWindowKeyWithHeadersQuery",
        "TimestampedWindowRangeWithHeadersQuery",
        "SessionQuery",
        "VersionedKeyQuery",
        "MultiVersionedKeyQuery",
        "TimestampedKeyQuery",
        "TimestampedRangeQuery",
        "TimestampedKeyWithHeadersQuery",
        "TimestampedRangeWithHeadersQuery",
    }
    assert decode('{"type":"KeyQuery","key":[1],"skipCache":true}') == KeyQuery(
        key=[1], skip_cache=True
    )
    assert decode('{"type":"RangeQuery","lower":"a","order":"DESCENDING"}') == RangeQuery(
        lower="a", order=Order.DESCENDING
    )
    assert decode('{"type":"PrefixQuery","prefix":"a"}') == PrefixQuery(prefix="a")


@pytest.mark.parametrize("kind", ["versionedKeyQuery", "TopQuery", "windowKeyQuery", "keyQuery"])
def test_another_type_is_unknown_whatever_else_it_says(kind: str) -> None:
    with pytest.raises(UnknownType, match=kind):
        decode(f'{{"type":"{kind}","key":1,"timeFrom":2,"order":"no order"}}')


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"type":"KeyQuery","kee":1}', "kee"),
        ('{"type":"CountQuery","key":1}', "key"),
        ('{"type":"RangeQuery","order":"UP"}', "order"),
        ('{"type":"KeyQuery","skipCache":"yes"}', "skipCache"),
        ('{"key":1}', "type"),
        ('{"type":7}', "type"),
        ("[]", "array"),
        ("null", "null"),
    ],
)
def test_a_malformed_query_says_where(text: str, word: str) -> None:
    with pytest.raises(MalformedRequestError, match=word):
        decode(text)


def test_a_request_refuses_what_it_does_not_know() -> None:
    with pytest.raises(msgspec.ValidationError, match="requireactive"):
        msgspec.json.decode(b'{"query":{},"requireactive":true}', type=QueryRequest)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotActiveError("x"), Reason.NOT_ACTIVE),
        (PartitionDoesNotExistError("x"), Reason.DOES_NOT_EXIST),
        (TooLargeError("x"), Reason.LIMIT_EXCEEDED),
        (MalformedBytesError("x"), Reason.STORE_EXCEPTION),
        (StaleEpochError("x"), Reason.STORE_EXCEPTION),
        (DiskFullError("x"), Reason.DISK_FULL),
        (AccessUnknownError("x"), Reason.NOT_READY),  # It passes: a reader tries again.
        (StoreError("x"), Reason.STORE_EXCEPTION),
    ],
)
def test_every_error_has_a_reason(error: StoreError, reason: Reason) -> None:
    assert failure_of(error).reason is reason


def test_a_failure_keeps_whom_to_ask_and_when() -> None:
    failure = failure_of(NotActiveError("x", active="words-1", epoch=7))
    assert (failure.active, failure.epoch, failure.retry_after_ms) == ("words-1", 7, None)
    assert failure_of(NotUpToBoundError("x")).retry_after_ms == 50
    back = error_of_failure(failure)
    assert isinstance(back, NotActiveError)
    assert back.details == {"active": "words-1", "epoch": 7}


def test_a_mark_begins_with_its_partition_so_that_it_is_no_row() -> None:
    answer = PartitionAnswer(end=True, position={}, served_by=PodName("words-0"))
    line = encode_mark(3, answer, None)
    assert line == b'{"partition":3,"end":true,"position":{},"servedBy":"words-0","cursor":null}'
    mark = decode_mark(line)
    assert (mark.partition, mark.end, mark.cursor) == (3, True, None)
    failed = PartitionAnswer(end=False, failure=Failure(reason=Reason.UNREACHABLE, message="x"))
    assert decode_mark(encode_mark(0, failed, "next")).cursor == "next"
    for line in (b'{"partition":3', b'{"partition":3}', b'{"partition":3,"end":true}'):
        with pytest.raises(MalformedBytesError):
            decode_mark(line)
