"""The headers block: round trips and refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError
from qss_core.formats.headers import Headers, decode_headers, encode_headers

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
HEADERS = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=80)), max_size=5).map(tuple)


@given(HEADERS)
def test_headers_survive_in_order_with_duplicates(headers: Headers) -> None:
    assert decode_headers(encode_headers(headers)) == headers


@given(HEADERS)
def test_a_truncated_block_is_refused(headers: Headers) -> None:
    block = encode_headers(headers)
    for size in range(1, len(block)):
        with pytest.raises(MalformedBytesError):
            decode_headers(block[:size])


@given(st.binary(max_size=40))
def test_bytes_are_refused_or_are_what_would_be_written(block: bytes) -> None:
    try:
        headers = decode_headers(block)
    except MalformedBytesError:
        return
    assert encode_headers(headers) == block


@pytest.mark.parametrize(
    ("rule", "block_hex"),
    [
        ("a count of 0", "00"),
        ("a negative count", "01"),
        ("a negative count with headers", "01026b0276"),
        ("more headers than bytes", "feffffff0f026b0276"),
        ("a key without a length", "02"),
        ("a null key", "020100"),
        ("a key length below -1", "02030000"),
        ("a key beyond the block", "02086b0276"),
        ("a key that is not UTF-8", "0202ff00"),
        ("a key with an encoded surrogate", "0206eda08001"),
        ("a value length below -1", "02026b03"),
        ("a value beyond the block", "02026b0476"),
        ("bytes after the last header", "02026b027600"),
        ("a count in too many bytes", "8200026b0276"),
    ],
)
def test_a_malformed_block_is_refused(rule: str, block_hex: str) -> None:
    with pytest.raises(MalformedBytesError):
        decode_headers(bytes.fromhex(block_hex))


def test_a_lone_surrogate_in_a_key_is_written_as_a_question_mark() -> None:
    assert decode_headers(encode_headers((("\udc00", None),))) == (("?", None),)
