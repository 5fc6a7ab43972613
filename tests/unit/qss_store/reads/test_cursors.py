"""Cursors: encoding, and refusal of wrong ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedCursorError
from qss_core.model import Partitioner, PartitionId, Sequence, StoreId, StoreType
from qss_core.text import decode_base64url, encode_base64url
from qss_store.reads.codec import BARE, codec_of
from qss_store.reads.plans.keys import ScanPlan
from qss_store.reads.plans.times import plan_windows
from qss_store.reads.scans.cursors import Piece, bounds_after, decode_cursor, encode_cursor
from qss_testing.pods.stores import make_definition

CODEC = codec_of(make_definition(8))
PLAN = ScanPlan(b"a", b"m", reverse=False, shape=BARE)
PIECES = (Piece(PartitionId(2), b"key\x00", Sequence(9)), Piece(PartitionId(5)))


def token(pieces: tuple[Piece, ...] = PIECES) -> str:
    made = encode_cursor(pieces, PLAN, CODEC)
    assert made is not None
    return made


def test_nothing_left_is_no_cursor() -> None:
    assert encode_cursor((), PLAN, CODEC) is None


def test_the_bytes_stay_what_they_are() -> None:
    assert token() == ("AWTY0bvcui-hw8wfDgdzdG9yZS0xAAIAAgAAAAAAAAAJAAAABWtleQAABQAAAAAAAAAAAAAAAA")


@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.none() | st.binary(max_size=50), st.integers(0, 2**63)),
        min_size=1,
        max_size=8,
        unique_by=lambda part: part[0],
    )
)
def test_every_piece_comes_back(parts: list[tuple[int, bytes | None, int]]) -> None:
    pieces = tuple(Piece(PartitionId(p), key, Sequence(s)) for p, key, s in parts)
    assert decode_cursor(token(pieces), PLAN, CODEC) == pieces


def test_a_page_by_time_ends_in_a_partition_where_the_writers_choose_them() -> None:
    members = {"type": StoreType.WINDOW, "retention_ms": 100_000, "window_size_ms": 1000}
    chosen = codec_of(make_definition(8, partitioner=Partitioner.EXPLICIT, **members))
    plan = plan_windows({"orderBy": "time"}, chosen)
    behind = Piece(PartitionId(2), b"key" + bytes(12), Sequence(9), PartitionId(5))
    made = encode_cursor((behind, PIECES[1]), plan, chosen)
    assert made is not None
    assert decode_cursor(made, plan, chosen) == (behind, PIECES[1])
    hashed = codec_of(make_definition(8, **members))
    with pytest.raises(MalformedCursorError, match="not a cursor"):
        decode_cursor(made, plan, hashed)


def test_a_first_page_by_time_has_a_cursor_that_older_pods_read() -> None:
    """Pods of two versions ask each other for parts of the first page."""
    members = {"type": StoreType.WINDOW, "retention_ms": 100_000, "window_size_ms": 1000}
    chosen = codec_of(make_definition(8, partitioner=Partitioner.EXPLICIT, **members))
    plan = plan_windows({"orderBy": "time"}, chosen)
    first = (Piece(PartitionId(2)), Piece(PartitionId(5)))
    made = encode_cursor(first, plan, chosen)
    assert made is not None
    assert decode_base64url(made)[:1] == b"\x01"
    assert decode_cursor(made, plan, chosen) == first
    older = encode_cursor(
        [Piece(PartitionId(2), b"key" + bytes(12))],
        plan,
        codec_of(make_definition(8, **members)),
    )
    assert older is not None
    with pytest.raises(MalformedCursorError, match="not a cursor"):
        decode_cursor(older, plan, chosen)


@given(st.text(max_size=40))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedCursorError):
        decode_cursor(text, PLAN, CODEC)


def test_any_changed_or_missing_byte_is_refused() -> None:
    data = decode_base64url(token())
    for index in range(len(data)):
        changed = bytearray(data)
        changed[index] ^= 0x10
        for broken in (bytes(changed), data[:index], data + b"\x00"):
            with pytest.raises(MalformedCursorError):
                decode_cursor(encode_base64url(broken), PLAN, CODEC)


@pytest.mark.parametrize(
    "plan",
    [
        ScanPlan(b"b", b"m", reverse=False, shape=BARE),
        ScanPlan(b"a", None, reverse=False, shape=BARE),
        ScanPlan(b"a", b"m", reverse=True, shape=BARE),
    ],
)
def test_a_cursor_of_another_query_is_refused(plan: ScanPlan) -> None:
    with pytest.raises(MalformedCursorError, match="another query"):
        decode_cursor(token(), plan, CODEC)


def test_a_cursor_of_another_store_is_refused() -> None:
    other = codec_of(make_definition(8, store_id=StoreId("store-2")))
    with pytest.raises(MalformedCursorError, match="another store"):
        decode_cursor(token(), PLAN, other)


def test_a_cursor_past_the_partitions_is_refused() -> None:
    with pytest.raises(MalformedCursorError, match="partition"):
        decode_cursor(token(), PLAN, codec_of(make_definition(5)))


def test_a_cursor_that_names_a_partition_twice_is_refused() -> None:
    with pytest.raises(MalformedCursorError, match="twice"):
        decode_cursor(token((*PIECES, PIECES[0])), PLAN, CODEC)


KEYS = st.binary(max_size=3)


@given(KEYS, KEYS, KEYS | st.none(), KEYS | st.none(), st.booleans())
def test_nothing_outside_of_the_bounds_is_left_whatever_a_cursor_says(
    key: bytes, last_key: bytes, lower: bytes | None, upper: bytes | None, reverse: bool
) -> None:
    def within(low: bytes | None, high: bytes | None) -> bool:
        return (low is None or low <= key) and (high is None or key < high)

    left = within(*bounds_after(last_key, lower, upper, reverse=reverse))
    is_behind = key < last_key if reverse else key > last_key
    assert left == (within(lower, upper) and is_behind)
    assert within(*bounds_after(None, lower, upper, reverse=reverse)) == within(lower, upper)
