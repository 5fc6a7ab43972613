"""Many stored values as JSON: the same bytes as one by one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError
from qss_core.serdes.registry import serde_of
from qss_store.reads.encode.objects import show_of

JSON = serde_of("json")
PARTS = [b"1", b'{"a":[1,2]}', b" 2", b"[1,\n2]", b'"a', b'b"', b"1,2", b"", b"\xff", b"]", b"["]


def shown(serde: str, values: list[bytes]) -> bytes:
    return msgspec.json.encode(list(show_of(serde_of(serde))(values)))


@given(st.lists(st.sampled_from(PARTS), max_size=6))
def test_json_texts_are_shown_as_one_by_one(values: list[bytes]) -> None:
    try:
        expected = b"[%b]" % b",".join(map(JSON.json_bytes, values))
    except MalformedBytesError:
        with pytest.raises(MalformedBytesError):
            shown("json", values)
    else:
        assert shown("json", values) == expected


def test_texts_that_are_json_only_together_are_refused() -> None:
    with pytest.raises(MalformedBytesError):
        shown("json", [b'"a', b'b"', b"1,2"])


@pytest.mark.parametrize(
    ("serde", "values", "expected"),
    [
        ("bytes", [b"\x00", b"abc"], b'["AA==","YWJj"]'),
        ("string", ["ä".encode(), b""], '["ä",""]'.encode()),
        ("int64", [(7).to_bytes(8, "big")], b"[7]"),
        ("json", [], b"[]"),
    ],
)
def test_other_serdes_are_shown_as_their_json(
    serde: str, values: list[bytes], expected: bytes
) -> None:
    assert shown(serde, values) == expected


def test_a_text_that_is_not_utf_8_is_shown_as_one_by_one() -> None:
    expected = serde_of("string").json_bytes(b"\xff")
    assert shown("string", [b"a", b"\xff"]) == b'["a",%b]' % expected
