"""Varints: golden bytes, limits and refused bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.varint import decode_varint, encode_varint


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_survives_inside_other_bytes(value: int, before: bytes, after: bytes) -> None:
    data = encode_varint(value)
    assert decode_varint(before + data + after, len(before)) == (value, len(before + data))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_truncated_varint_is_refused(value: int) -> None:
    data = encode_varint(value)
    for size in range(len(data)):
        with pytest.raises(MalformedBytesError):
            decode_varint(data[:size])


@pytest.mark.parametrize(
    "data_hex",
    [
        "8000",  # 0 in two bytes.
        "8a00",
        "ffffffff7f",  # 35 bits.
        "8080808010",  # Bit 32.
        "808080808001",  # Six bytes.
        "ffffffffffffffffff01",
    ],
)
def test_a_varint_that_kafka_never_writes_is_refused(data_hex: str) -> None:
    with pytest.raises(MalformedBytesError):
        decode_varint(bytes.fromhex(data_hex))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**64])
def test_a_number_beyond_32_bits_is_not_written(value: int) -> None:
    with pytest.raises(MalformedRequestError):
        encode_varint(value)


@given(st.binary(max_size=8))
def test_bytes_are_refused_or_are_what_would_be_written(data: bytes) -> None:
    try:
        value, end = decode_varint(data)
    except MalformedBytesError:
        return
    assert encode_varint(value) == data[:end]
