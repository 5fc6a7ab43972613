"""Decoding of UTF-8 as in Java, and base64url."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedRequestError
from qss_core.text import (
    allowed_members,
    decode_base64url,
    decode_text,
    encode_base64url,
    encode_text,
    json_problem,
)


def test_a_lone_surrogate_is_written_as_a_question_mark() -> None:
    assert encode_text("a\ud800b") == b"a?b"


def test_two_halves_of_a_pair_are_written_as_one_character() -> None:
    assert encode_text("\ud83d" + "\ude00") == "\U0001f600".encode()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xe6\x97", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        # OpenJDK 25's `new String(bytes, UTF_8)` decodes them in this way.
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xed\xbf", "\ufffd"),
        (b"\xf0\x9f\x98\x80\xff", "\U0001f600\ufffd"),
    ],
)
def test_what_is_not_utf8_is_read_as_java_reads_it(data: bytes, text: str) -> None:
    assert decode_text(data) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_survives(text: str) -> None:
    assert decode_text(encode_text(text)) == text


@given(st.binary())
def test_base64url_survives_and_has_no_padding(data: bytes) -> None:
    text = encode_base64url(data)
    assert decode_base64url(text) == data
    assert not set(text) & set("=+/")


def test_padding_is_accepted() -> None:
    assert decode_base64url("YQ==") == b"a"


@pytest.mark.parametrize("text", ["a", "YR", "Y Q", "+/+/", "Y\u00e9", "=YQ", "YQ=a"])
def test_a_text_that_no_encoder_writes_is_refused(text: str) -> None:
    with pytest.raises(MalformedRequestError):
        decode_base64url(text)


class Pair(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first: int = 0
    last_of: tuple["Pair", ...] = ()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"firs":1}', "; it has first, lastOf"),
        (b'{"lastOf":[{"x":1}]}', ""),
        (b'{"first":"x"}', ""),
    ],
)
def test_who_names_an_unknown_member_is_told_of_the_known_ones(body: bytes, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(body, type=Pair)
    assert allowed_members(Pair, refused.value) == said


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (rb'"\ud800"', r"\ud800 is half of a surrogate pair"),
        (rb'["\ud83d\ude00", "\uDBFFx"]', r"\uDBFF is half of a surrogate pair"),
        (b"[" * 5000 + b"]" * 5000, "it is nested too deeply"),
        (b'["\\ud83d\\ude00", ', "truncated"),
        (b"{", "truncated"),
    ],
)
def test_a_person_is_told_what_is_wrong_with_json(document: bytes, said: str) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)) as caught:
        msgspec.json.decode(document)
    assert said in json_problem(document, caught.value)
