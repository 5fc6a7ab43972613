"""Positions: their algebra, bounds, bytes, tokens and JSON."""

import pickle
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.positions import (
    COMPONENTS_MAX,
    TOKEN_BYTES_MAX,
    Position,
    UnmetComponent,
    decode_position,
    decode_token,
    encode_position,
    encode_token,
    parse_bound,
    unmet_components,
)
from qss_core.text import decode_base64url, encode_base64url

TOPICS = st.sampled_from(["a", "b", "é", "@batch.w", ""])
OFFSETS = st.dictionaries(st.integers(0, 3) | st.just(2**31 - 1), st.integers(0, 2**63 - 1))
POSITIONS = st.dictionaries(TOPICS, OFFSETS).map(Position.of)
INPUTS = Position.of({"flights": {0: 10, 1: 20}, "weather": {}, "@batch.w": {1: 57}})


@given(POSITIONS)
def test_a_position_survives_as_bytes_token_json_and_pickle(position: Position) -> None:
    assert decode_position(encode_position(position)) == position
    assert decode_token(encode_token(position)) == position
    assert Position.from_json(position.to_json()) == position
    assert pickle.loads(pickle.dumps(position)) == position
    assert Position.of(position.offsets()) == position


@given(POSITIONS)
def test_a_truncated_position_is_refused(position: Position) -> None:
    data = encode_position(position)
    for size in range(len(data)):
        with pytest.raises(MalformedBytesError):
            decode_position(data[:size])


@given(st.binary(max_size=60))
def test_any_bytes_are_a_position_or_refused(data: bytes) -> None:
    try:
        position = decode_position(b"\x00" + data)
    except MalformedBytesError:
        return
    assert decode_position(encode_position(position)) == position


@given(POSITIONS, POSITIONS, POSITIONS)
def test_merge_is_the_least_position_above_both(a: Position, b: Position, c: Position) -> None:
    merged = a.merge(b)
    assert merged == b.merge(a)
    assert merged.merge(c) == a.merge(b.merge(c))
    assert merged.merge(a) == merged
    assert merged.merge(Position.empty()) == merged
    assert hash(merged) == hash(b.merge(a))
    if merged.topics:
        assert not unmet_components(merged, a)
        assert not unmet_components(merged, b)


def test_a_smaller_offset_changes_nothing() -> None:
    assert INPUTS.with_component("flights", 0, 9) == INPUTS
    assert INPUTS.with_component("flights", 0, 11).offset_of("flights", 0) == 11


def test_a_declared_input_is_a_topic_without_partitions() -> None:
    position = Position.of({"flights": {}})
    assert position.to_json() == {"flights": {}}
    assert position.with_component("flights", 2, 5).to_json() == {"flights": {"2": 5}}
    assert position.offset_of("flights", 2) is None


def test_equal_positions_have_equal_tokens_whatever_their_order() -> None:
    one = Position.of({"b": {2: 1, 0: 3}, "a": {}})
    other = Position.of({"a": {}, "b": {0: 3, 2: 1}})
    assert one == other
    assert encode_token(one) == encode_token(other)


@pytest.mark.parametrize(
    "bound",
    [
        {},
        {"flights": {0: 10}},
        {"flights": {0: 9, 1: 20}, "@batch.w": {1: 56}},
        {"weather": {}},
        {"other": {0: 10**9}},
    ],
)
def test_a_bound_is_met(bound: dict[str, dict[int, int]]) -> None:
    assert not unmet_components(INPUTS, Position.of(bound))


@pytest.mark.parametrize(
    ("bound", "unmet"),
    [
        ({"flights": {0: 11, 1: 20}}, [("flights", 0, 11, 10)]),
        ({"flights": {7: 0}}, [("flights", 7, 0, None)]),
        ({"weather": {0: 0}, "other": {0: 0}}, [("weather", 0, 0, None)]),
        ({"@batch.w": {1: 58}}, [("@batch.w", 1, 58, 57)]),
    ],
)
def test_every_component_of_an_input_is_checked(
    bound: dict[str, dict[int, int]], unmet: list[UnmetComponent]
) -> None:
    assert unmet_components(INPUTS, Position.of(bound)) == unmet


@pytest.mark.parametrize("position", [None, Position.empty()])
def test_a_store_without_a_commit_meets_no_component(position: Position | None) -> None:
    bound = Position.of({"flights": {0: 0}, "none": {}})
    assert unmet_components(position, bound) == [("flights", 0, 0, None)]
    assert not unmet_components(position, Position.empty())


def test_unordered_bytes_are_read() -> None:
    data = bytes.fromhex(
        "0000000002"
        "0000000162000000020000000100000000000000040000000000000000000000"
        "03000000016100000000"
    )
    assert decode_position(data) == Position.of({"a": {}, "b": {0: 3, 1: 4}})


@pytest.mark.parametrize(
    ("rule", "data_hex"),
    [
        ("no bytes", ""),
        ("another version", "0100000000"),
        ("a negative topic count", "00ffffffff"),
        ("too many topics", "0000000401"),
        ("a negative name length", "0000000001ffffffff"),
        ("a name beyond the bytes", "00000000017fffffff"),
        ("a name that is not UTF-8", "000000000100000001ff00000000"),
        ("a negative pair count", "00000000010000000174ffffffff"),
        ("too many pairs", "0000000001000000017400000401"),
        ("a negative partition", "00000000010000000174 00000001 ffffffff 0000000000000005"),
        ("a negative offset", "00000000010000000174 00000001 00000000 ffffffffffffffff"),
        ("a topic twice", "0000000002 0000000174 00000000 0000000174 00000000"),
        (
            "a partition twice",
            "00000000010000000174 00000002 000000000000000000000005 000000000000000000000006",
        ),
        ("a tail that is not zeros", "000000000000000001"),
    ],
)
def test_malformed_bytes_are_refused(rule: str, data_hex: str) -> None:
    with pytest.raises(MalformedBytesError):
        decode_position(bytes.fromhex(data_hex))


def test_a_large_position_has_a_short_token() -> None:
    names = [f"team-orders-aggregate-{number:04}.source-0" for number in range(COMPONENTS_MAX)]
    large = Position.of({name: {0: number} for number, name in enumerate(names)})
    token = encode_token(large)
    assert len(token) < TOKEN_BYTES_MAX / 2 < len(encode_position(large)) / 2
    assert decode_token(token) == large
    small = Position.of({"in": {0: 7}})
    assert decode_base64url(encode_token(small)) == encode_position(small)


def test_a_damaged_compressed_token_is_refused() -> None:
    plain = encode_position(Position.of({"in": {0: 7}}))
    whole = b"\x01" + zlib.compress(plain)
    assert decode_token(encode_base64url(whole)) == Position.of({"in": {0: 7}})
    bomb = b"\x01" + zlib.compress(bytes(64 * 1024 * 1024))
    for data in (b"\x01", whole[:-1], whole + b"\x00", b"\x01" + plain, bomb):
        with pytest.raises(MalformedBytesError):
            decode_token(encode_base64url(data))


def test_the_components_have_a_limit_everywhere() -> None:
    full = Position.of({"a": dict.fromkeys(range(COMPONENTS_MAX), 1)})
    assert decode_position(encode_position(full)) == full
    over = full.merge(Position.of({"b": {}}))
    assert over.component_count == COMPONENTS_MAX + 1
    with pytest.raises(MalformedRequestError):
        encode_position(over)
    with pytest.raises(MalformedRequestError):
        Position.from_json(over.to_json())
    data = bytearray(encode_position(full))
    data[4] = 2
    with pytest.raises(MalformedBytesError):
        decode_position(bytes(data) + bytes.fromhex("000000016200000000"))


@pytest.mark.parametrize(
    "position",
    [Position.of({"a": {0: 2**63}}), Position.of({"a": {2**31: 0}}), Position.of({"\ud800": {}})],
)
def test_a_position_that_has_no_bytes_is_not_written(position: Position) -> None:
    with pytest.raises(MalformedRequestError):
        encode_position(position)


@pytest.mark.parametrize(
    "bound",
    [
        None,
        7,
        [],
        {"t": None},
        {"t": {"0": "5"}},
        {"t": {"0": True}},
        {"t": {"0": 1.0}},
        {"t": {"0": -1}},
        {"t": {"0": 2**63}},
        {"t": {"-1": 5}},
        {"t": {"01": 5}},
        {"t": {"": 5}},
        {"t": {"²": 5}},
        {"t": {"2147483648": 5}},
        {"t": {0: 5}},
        {1: {}},
        {"\ud800": {}},
        "",
        "not a token",
        "AQAAAAA",
        "AAAA",
    ],
)
def test_a_malformed_bound_is_a_malformed_request(bound: Any) -> None:
    with pytest.raises(MalformedRequestError, match="positionBound"):
        parse_bound(bound)


@given(POSITIONS)
def test_a_bound_is_a_token_or_an_object(position: Position) -> None:
    assert parse_bound(encode_token(position)) == position
    assert parse_bound(position.to_json()) == position
