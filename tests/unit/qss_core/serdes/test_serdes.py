"""Serdes: names, round trips, refusals, JSON and key text."""

import json
import math
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.serdes.registry import LIST_DEPTH_MAX, SERDE_NAMES, serde_of

NO_SURROGATES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | NO_SURROGATES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NO_SURROGATES, inner, max_size=3),
    max_leaves=8,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=20),
    "string": NO_SURROGATES,
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "json": JSON_VALUES.filter(lambda value: value is not None),
}
VALUES |= {f"list<{name}>": st.lists(st.none() | VALUES[name], max_size=4) for name in VALUES}
VALUES["list<list<int32>>"] = st.lists(st.none() | VALUES["list<int32>"], max_size=3)
VALUES["list<list<string>>"] = st.lists(st.none() | VALUES["list<string>"], max_size=3)
FIXED_SIZE = {"int16": 2, "int32": 4, "int64": 8, "float32": 4, "float64": 8, "boolean": 1}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_a_value_survives_as_bytes_json_and_key_text(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    serde = serde_of(name)
    stored = serde.encode(value)
    assert serde.decode(stored) == value
    assert serde.from_json(serde.to_json(value)) == value
    assert json.loads(serde.json_bytes(stored)) == serde.to_json(value)
    assert b"\n" not in serde.json_bytes(stored)
    assert serde.decode(serde.key_from_text(serde.key_to_text(stored))) == value


@pytest.mark.parametrize("name", [name for name in VALUES if name.startswith("list<")])
@given(data=st.data())
def test_a_truncated_list_is_refused(name: str, data: st.DataObject) -> None:
    stored = serde_of(name).encode(data.draw(VALUES[name]))
    for size in range(len(stored)):
        with pytest.raises(MalformedBytesError):
            serde_of(name).decode(stored[:size])
    with pytest.raises(MalformedBytesError):
        serde_of(name).decode(stored + b"\x00")


@pytest.mark.parametrize("name", VALUES)
@given(data=st.binary(max_size=50))
def test_any_bytes_are_a_value_or_refused(name: str, data: bytes) -> None:
    serde = serde_of(name)
    try:
        value = serde.decode(data)
    except MalformedBytesError:
        for read in (serde.json_bytes, serde.key_to_text):
            with pytest.raises(MalformedBytesError):
                read(data)
        return
    json.loads(serde.json_bytes(data))
    serde.encode(value)


@pytest.mark.parametrize("name", [*FIXED_SIZE, "uuid"])
def test_a_wrong_length_is_refused(name: str) -> None:
    right = FIXED_SIZE.get(name, 36)
    for size in {0, 1, right - 1, right + 1, 40} - {right}:
        with pytest.raises(MalformedBytesError, match=name):
            serde_of(name).decode(bytes(size))


@pytest.mark.parametrize("data", [b"\x02", b"\xff", b"0"])
def test_a_boolean_is_00_or_01(data: bytes) -> None:
    with pytest.raises(MalformedBytesError):
        serde_of("boolean").decode(data)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "String",
        "int",
        "list",
        "list<>",
        "list<int",
        "list<list<>>",
        "list<int8>",
        "int32>",
        " int32",
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(MalformedRequestError, match="int16, int32, int64"):
        serde_of(name)


def test_lists_nest_up_to_a_limit() -> None:
    deepest = "list<" * LIST_DEPTH_MAX + "int16" + ">" * LIST_DEPTH_MAX
    assert serde_of(deepest).name == deepest
    for over in (f"list<{deepest}>", "list<" * 10_000 + "int16" + ">" * 10_000):
        with pytest.raises(MalformedRequestError):
            serde_of(over)


def test_a_serde_knows_its_name() -> None:
    assert [serde_of(name).name for name in SERDE_NAMES] == list(SERDE_NAMES)


@pytest.mark.parametrize(
    ("name", "obj", "expected"),
    [
        ("int64", "5", "int64 expected, got the string '5'"),
        ("int64", True, "int64 expected, got a boolean"),
        ("int64", 1.0, "int64 expected, got the number 1.0"),
        ("int64", None, "int64 expected, got null"),
        ("int64", 2**63, "is no int64"),
        ("int32", -(2**31) - 1, "is no int32"),
        ("int16", 32768, "is no int16"),
        ("float32", 1e39, "is no float32"),
        ("float32", 10**400, "is no float32"),
        ("float64", 10**400, "is no float64"),
        ("float64", math.inf, "is no float64"),
        ("float64", "1.5", "float64 expected, got the string"),
        ("float64", False, "float64 expected, got a boolean"),
        ("boolean", 1, "boolean expected, got the number 1"),
        ("boolean", "true", "boolean expected, got the string"),
        ("string", 1, "string expected, got the number 1"),
        ("uuid", "no", "is no uuid"),
        ("uuid", 1, "uuid expected"),
        ("bytes", "***", "base64"),
        ("bytes", [1], "base64 string\\) expected, got an array"),
        ("list<int32>", {}, "list<int32> \\(an array\\) expected, got an object"),
        ("list<int32>", ["a"], "int32 expected, got the string 'a'"),
        ("list<int32>", (1,), "an array"),
        ("string", object(), "got object"),
    ],
)
def test_json_of_another_type_is_refused(name: str, obj: object, expected: str) -> None:
    with pytest.raises(MalformedRequestError, match=expected):
        serde_of(name).from_json(obj)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int64", ""),
        ("int64", "+5"),
        ("int64", "1_000"),
        ("int64", " 5"),
        ("int64", "٣"),
        ("int64", "5.0"),
        ("int64", "9223372036854775808"),
        ("int64", "9" * 5000),
        ("float64", "nan"),
        ("float64", "1e999"),
        ("float64", "1_0.0"),
        ("float64", ".5"),
        ("float32", "1e39"),
        ("boolean", "True"),
        ("boolean", "1"),
        ("uuid", "1-1-1-1"),
        ("uuid", "123456789-1-1-1-1"),
        ("bytes", "+/"),
        ("json", "{"),
        ("json", "NaN"),
        ("json", "[" * 100_000),
        ("list<int32>", "1"),
        ("list<int32>", "[1.5]"),
    ],
)
def test_a_key_text_of_another_type_is_refused(name: str, text: str) -> None:
    with pytest.raises(MalformedRequestError):
        serde_of(name).key_from_text(text)


@pytest.mark.parametrize(
    ("name", "text", "data_hex"),
    [
        ("string", "a/b é", "612f6220c3a9"),
        ("string", "", ""),
        ("int32", "-7", "fffffff9"),
        ("float64", "1e+16", "4341c37937e08000"),
        ("float64", "NaN", "7ff8000000000000"),
        ("float32", "0.1", "3dcccccd"),
        ("float32", "-Infinity", "ff800000"),
        ("boolean", "false", "00"),
        ("bytes", "__8", "ffff"),
        ("list<int32>", "[1,null]", "00000000010000000100000002" + "00000001"),
        ("list<bytes>", '["//8="]', "010000000100000002ffff"),
    ],
)
def test_the_text_of_a_key(name: str, text: str, data_hex: str) -> None:
    data = bytes.fromhex(data_hex)
    serde = serde_of(name)
    assert serde.key_from_text(text) == data
    assert serde.key_from_text(serde.key_to_text(data)) == data
    if name != "float64":
        assert serde.key_to_text(data).replace("1e16", "1e+16") == text


def test_numbers_that_json_cannot_hold_are_strings() -> None:
    for name in ("float32", "float64"):
        serde = serde_of(name)
        for text in ("NaN", "Infinity", "-Infinity"):
            stored = serde.encode(serde.from_json(text))
            assert serde.json_bytes(stored) == json.dumps(text).encode()
            assert serde.to_json(serde.decode(stored)) == text


@given(st.integers(0, 2**32 - 1).map(lambda bits: struct.pack(">I", bits)))
def test_every_float32_keeps_its_bits(data: bytes) -> None:
    serde = serde_of("float32")
    assert serde.encode(serde.decode(data)) == data
    shown = serde.to_json(serde.decode(data))
    assert math.isnan(serde.decode(data)) or serde.encode(serde.from_json(shown)) == data


@pytest.mark.parametrize("data_hex", ["7f800001", "7fa00000", "ffc12345", "ff800001", "7fffffff"])
def test_a_float32_nan_keeps_its_payload(data_hex: str) -> None:
    data = bytes.fromhex(data_hex)
    assert serde_of("float32").encode(serde_of("float32").decode(data)) == data


@pytest.mark.parametrize("data_hex", ["7ff0000000000001", "fff8000000012345", "7ff4000000000000"])
def test_a_float64_nan_keeps_its_payload(data_hex: str) -> None:
    data = bytes.fromhex(data_hex)
    assert serde_of("float64").encode(serde_of("float64").decode(data)) == data


def test_a_nan_whose_payload_a_float32_cannot_hold_stays_a_nan() -> None:
    narrow = serde_of("float64").decode(bytes.fromhex("7ff0000000000001"))
    assert serde_of("float32").encode(narrow) == bytes.fromhex("7fc00000")


def test_a_float32_is_shown_as_it_was_written() -> None:
    serde = serde_of("float32")
    assert serde.json_bytes(serde.encode(0.1)) == b"0.1"
    assert serde.json_bytes(serde.encode(16777216.0)) == b"16777216.0"
    assert serde.json_bytes(bytes.fromhex("7f7fffff")) == b"3.4028235e38"


@pytest.mark.parametrize("text", ["1-1-1-1-1", "00000001-0001-0001-0001-000000000001"])
def test_a_uuid_is_read_leniently_and_written_in_full(text: str) -> None:
    serde = serde_of("uuid")
    assert serde.decode(text.encode()) == UUID("00000001-0001-0001-0001-000000000001")
    assert serde.key_from_text(text) == b"00000001-0001-0001-0001-000000000001"
    assert serde.decode(b"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF") == UUID(int=2**128 - 1)


def test_a_string_that_is_not_utf8_is_shown_with_replacements() -> None:
    assert serde_of("string").json_bytes(b'"\xff') == b'"\\"\xef\xbf\xbd"'


def test_json_is_answered_as_written() -> None:
    written = b'{"b": 1.0, "a": 1e2, "a": "\\u00e9"}'
    assert serde_of("json").json_bytes(written) == written
    assert serde_of("list<json>").json_bytes(serde_of("list<bytes>").encode([written, None])) == (
        b"[" + written + b",null]"
    )


@pytest.mark.parametrize("written", [b"1e999", b"9" * 5000, b'"\\ud83d\\ude00"'])
def test_json_that_python_would_change_or_refuse_is_answered_as_written(written: bytes) -> None:
    assert serde_of("json").json_bytes(written) == written


def test_a_json_number_too_long_to_parse_is_refused_where_it_must_be_parsed() -> None:
    with pytest.raises(MalformedBytesError):
        serde_of("json").decode(b"9" * 5000)


def test_json_is_answered_in_one_line() -> None:
    assert serde_of("json").json_bytes(b'{\r\n"a": 1\n}') == b'{  "a": 1 }'


def test_a_json_object_is_written_compactly_in_utf8() -> None:
    assert serde_of("json").encode({"a": ["é", None]}) == '{"a":["é",null]}'.encode()


def test_a_json_key_is_stored_as_written() -> None:
    assert serde_of("json").key_from_text('{"a": 1}') == b'{"a": 1}'
    assert serde_of("json").key_to_text(b'{"a": 1}') == '{"a": 1}'


@pytest.mark.parametrize(
    "data", [b"", b"{", b"NaN", b"1 2", b'"\xff"', b"\xef\xbb\xbf1", b"'a'", b'"\\ud800"']
)
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedBytesError):
        serde_of("json").json_bytes(data)


@pytest.mark.parametrize("value", [math.nan, object(), {"a": {1, 2}}])
def test_an_object_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(MalformedRequestError):
        serde_of("json").encode(value)


@pytest.mark.parametrize(
    ("rule", "name", "data_hex"),
    [
        ("no bytes", "list<int32>", ""),
        ("another layout", "list<int32>", "0200000000"),
        ("a fixed layout of items without a fixed size", "list<string>", "000000000000000000"),
        ("a negative null count", "list<int32>", "00ffffffff00000000"),
        ("a null count beyond the bytes", "list<int32>", "007fffffff00000000"),
        ("a negative size", "list<int32>", "0000000000ffffffff"),
        ("a size below the null count", "list<int32>", "00000000010000000000000000"),
        ("a null beyond the size", "list<int32>", "00000000010000000100000001"),
        ("a negative null", "list<int32>", "0000000001ffffffff00000001"),
        ("a null twice", "list<int32>", "0000000002000000000000000000000002"),
        ("nulls out of order", "list<int32>", "0000000002000000010000000000000002"),
        ("an item cut short", "list<int32>", "000000000000000001000000"),
        ("a negative size of a variable list", "list<string>", "01ffffffff"),
        ("a size beyond the bytes", "list<string>", "017fffffff00000000"),
        ("an item length below -1", "list<string>", "0100000001fffffffe"),
        ("an item beyond the bytes", "list<string>", "01000000010000000561"),
        ("bytes after the last item", "list<string>", "010000000161"),
        ("an item of another type", "list<boolean>", "01000000010000000102"),
    ],
)
def test_a_malformed_list_is_refused(rule: str, name: str, data_hex: str) -> None:
    for read in (serde_of(name).decode, serde_of(name).json_bytes):
        with pytest.raises(MalformedBytesError):
            read(bytes.fromhex(data_hex))


def test_numbers_with_lengths_are_read_too() -> None:
    assert serde_of("list<int16>").decode(bytes.fromhex("0100000001000000020001")) == [1]


def test_serdes_of_one_name_are_equal() -> None:
    assert serde_of("list<string>") == serde_of("list<string>")
    assert serde_of("list<string>") != serde_of("list<bytes>")


def test_a_text_with_half_a_character_is_refused_where_it_is_given() -> None:
    """Encoded, the text would be another row's key."""
    string = serde_of("string")
    # In JSON from Java two surrogates are one character.
    assert string.from_json("\ud83d\ude00") == "\ud83d\ude00"
    for text in ("\ud800", "a\udfff", "\ude00\ud83d"):
        with pytest.raises(MalformedRequestError, match="whole characters"):
            string.from_json(text)
