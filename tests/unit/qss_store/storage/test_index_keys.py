"""The bytes of index rows, and the checks of a user's store type."""

import math
import struct
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import (
    MalformedRequestError,
    RangeReversedError,
    StoreError,
    StoreTypeFailedError,
    StoreTypeRefusedError,
)
from qss_core.model import StoreDefinition
from qss_core.serdes.registry import serde_of
from qss_store.runtime.plugins import Extensions, extensions_of
from qss_store.storage.index_keys import (
    INDEX_KEY_BYTES_MAX,
    INDEX_KEYS_MAX,
    INDEXES_MAX,
    Index,
    Indexing,
    indexing_of,
)
from qss_testing.pods.stores import make_definition
from qss_testing.reference.own_stores import OWN, by_value, guides_extensions

NUMBERS = {
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **NUMBERS,
    "string": st.text(max_size=9),
    "boolean": st.booleans(),
}
KEYS = st.binary(max_size=6)


def index(serde: str = "string", number: int = 3) -> Index:
    return Index("by-x", number, serde_of(serde))


def shown(value: Any) -> Any:
    """The index key as JSON shows it."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


# --- Bytes


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        ("string", "EWR", "03 455752 0000"),
        ("string", "", "03 0000"),
        ("string", "a\0b", "03 6100ff62 0000"),
        ("int16", 1, "03 8001 0000"),
        ("int16", -1, "03 7fff 0000"),
        ("int32", 0, "03 8000ff00ff00ff 0000"),
        ("float32", 1.0, "03 bf8000ff00ff 0000"),
        ("float32", -1.0, "03 407fffff 0000"),
        ("boolean", True, "03 01 0000"),
        ("bytes", "AP8=", "03 00ffff 0000"),
    ],
)
def test_the_bytes_of_an_index_key(serde: str, value: Any, data: str) -> None:
    assert index(serde).head(value) == bytes.fromhex(data)


@pytest.mark.parametrize("serde", VALUES)
def test_index_rows_lie_by_index_key_and_then_key(serde: str) -> None:
    rules = index(serde)

    @given(VALUES[serde], KEYS, VALUES[serde], KEYS)
    def check(one: Any, key: bytes, other: Any, other_key: bytes) -> None:
        rows = [rules.head(shown(one)) + key, rules.head(shown(other)) + other_key]
        placed = [(_order(one), key), (_order(other), other_key)]
        assert (rows[0] < rows[1]) == (placed[0] < placed[1])
        data, found = rules.parts(rows[0])
        assert (serde_of(serde).decode(data), found) == (one, key)

    check()


def _order(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (value, math.copysign(1.0, value))  # The sign orders -0.0 before 0.0.
    return value


@pytest.mark.parametrize("serde", VALUES)
def test_bounds_hold_the_index_keys_between_them_and_no_others(serde: str) -> None:
    rules = index(serde)

    @given(VALUES[serde], VALUES[serde], VALUES[serde], KEYS)
    def check(one: Any, other: Any, third: Any, key: bytes) -> None:
        lower, upper = sorted([one, other], key=_order)
        first, end = rules.bounds(shown(lower), shown(upper))
        is_between = _order(lower) <= _order(third) <= _order(upper)
        assert (first <= rules.head(shown(third)) + key < end) == is_between

    check()


def test_open_bounds_are_those_of_the_index() -> None:
    first, end = index().bounds(None, None)
    assert (first, end) == (b"\x03", b"\x04")
    assert first < index().head("") < index().head("\U0010ffff" * 100) < end
    with pytest.raises(RangeReversedError, match="by-x"):
        index().bounds("b", "a")


def test_an_index_key_has_a_limit() -> None:
    index().head("x" * INDEX_KEY_BYTES_MAX)
    with pytest.raises(MalformedRequestError, match="at most 1024"):
        index().head("x" * (INDEX_KEY_BYTES_MAX + 1))


def test_nan_has_a_place() -> None:
    rows = [index("float64").head(one) for one in ("-Infinity", -1, 0.5, "Infinity", "NaN")]
    assert rows == sorted(rows)
    assert math.isnan(struct.unpack(">d", index("float64").parts(rows[-1])[0])[0])


# --- Checks of a type


class Own:
    """A store type that returns what the test sets."""

    version: ClassVar[Any] = 1
    indexes: ClassVar[Any] = {"by-x": "string"}
    found: ClassVar[Any] = ()

    def __init__(self, options: Mapping[str, str], store: StoreDefinition) -> None:
        self.options = options

    def index_keys(self, key: Any, value: Any) -> Any:
        return self.found(key, value) if callable(self.found) else self.found


def own(**members: Any) -> Indexing:
    made = indexing_of(by_value(), Extensions(stores={"ByValue": type("Own", (Own,), members)}))
    assert made is not None
    return made


def test_a_built_in_store_has_no_indexes() -> None:
    assert indexing_of(make_definition(), Extensions()) is None


def test_rows_of_several_indexes() -> None:
    found = own(
        indexes={"by-x": "string", "by-length": "int16"},
        found=staticmethod(lambda key, value: [("by-length", len(value)), ("by-x", value + key)]),
    )
    rows = found.rows_of(b"k", b"ab")
    assert [*rows] == [b"\x01\x80\x02\x00\x00k", b"\x00abk\x00\x00k"]
    assert set(rows.values()) == {b""}


def test_the_same_index_key_twice_is_one_row() -> None:
    assert len(own(found=[("by-x", "a")] * INDEX_KEYS_MAX).rows_of(b"k", b"v")) == 1


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([("by-y", "a")], "KeyError: 'by-y'"),
        ([("by-x", 5)], "string expected"),
        ([("by-x", None)], "string expected, got null"),
        (["by-x"], "ValueError"),
        (None, "TypeError"),
        (
            [("by-x", f"{number}") for number in range(INDEX_KEYS_MAX + 1)],
            "more than 16 index keys",
        ),
        ([("by-x", "a")] * (INDEX_KEYS_MAX + 1), "more than 16 index keys"),
        ([("by-x", "x" * 2000)], "at most 1024"),
        (staticmethod(lambda key, value: 1 / 0), "ZeroDivisionError"),
    ],
)
def test_what_a_type_says_wrong_names_the_row(found: Any, says: str) -> None:
    indexing = own(found=found)
    with pytest.raises(StoreTypeFailedError, match=r"ByValue \(version 1\)") as told:
        indexing.rows_of(b"the-key", b"value")
    assert says in told.value.text
    assert "'the-key'" in told.value.text
    assert "the-key" not in str(told.value), "others than the row's readers see this"
    with pytest.raises(MalformedRequestError, match=r"'the-key'.*Nothing was written"):
        indexing.check(b"the-key", b"value")


def test_a_type_that_never_ends_is_cut_off() -> None:
    def endless(key: Any, value: Any) -> Any:
        number = 0
        while True:
            yield ("by-x", f"{number}")
            number += 1

    with pytest.raises(StoreTypeFailedError, match="more than 16"):
        own(found=staticmethod(endless)).rows_of(b"k", b"v")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"version": 0}, "its version is a number from 1 on, not 0"),
        ({"version": "1"}, "version"),
        ({"version": True}, "version"),
        ({"indexes": {}}, "its indexes are 1 to 16"),
        ({"indexes": {f"i{n}": "string" for n in range(INDEXES_MAX + 1)}}, "1 to 16"),
        ({"indexes": ["by-x"]}, "its indexes are"),
        ({"indexes": {"": "string"}}, "a name of up to 63"),
        ({"indexes": {"x" * 64: "string"}}, "a name of up to 63"),
        ({"indexes": {5: "string"}}, "a name of up to 63"),
        ({"indexes": {"by-x": "json"}}, "a serde is one of bytes, string"),
        ({"indexes": {"by-x": "list<string>"}}, "not 'list<string>'"),
        ({"index_keys": None}, "it needs version, indexes and index_keys"),
    ],
)
def test_a_type_that_cannot_be_used_says_why(members: dict[str, Any], says: str) -> None:
    with pytest.raises(StoreTypeRefusedError, match="installed and cannot be used") as told:
        own(**members)
    assert says in str(told.value)


def test_a_class_without_its_members_cannot_be_used() -> None:
    with pytest.raises(StoreTypeRefusedError, match="needs version, indexes and index_keys"):
        indexing_of(by_value(), Extensions(stores={"ByValue": lambda options, store: object()}))  # type: ignore[dict-item, return-value]


@pytest.mark.parametrize("error", [KeyError("a"), TypeError("a"), ValueError("a")])
def test_options_are_refused_in_the_types_words(error: Exception) -> None:
    def make(options: Any, store: Any) -> Any:
        raise error

    with pytest.raises(StoreTypeRefusedError, match="does not take them") as told:
        indexing_of(by_value(), Extensions(stores={"ByValue": make}))
    assert type(error).__name__ in str(told.value)


def test_other_errors_of_a_type_are_told_too() -> None:
    def make(options: Any, store: Any) -> Any:
        raise RuntimeError("no luck")

    with pytest.raises(StoreTypeRefusedError, match="RuntimeError: no luck"):
        indexing_of(by_value(), Extensions(stores={"ByValue": make}))


def test_the_fingerprint_is_of_all_that_index_rows_depend_on() -> None:
    other = by_value(custom_options=(("a", "b"),))
    type_ = type("Own", (Own,), {})
    changed = [
        own(),
        own(version=2),
        own(indexes={"by-y": "string"}),
        own(indexes={"by-x": "uuid"}),
        own(indexes={"by-x": "string", "by-y": "string"}),
        own(indexes={"by-y": "string", "by-x": "string"}),
        indexing_of(other, Extensions(stores={"ByValue": type_})),
    ]
    assert len({one.fingerprint for one in changed if one}) == len(changed)
    assert own().fingerprint == own().fingerprint


def test_the_guides_type_takes_an_option_for_its_serde() -> None:
    options = (("member", "seats"), ("serde", "int32"))
    definition = by_value(custom_name=OWN, custom_options=options, value_serde="json")
    indexing = indexing_of(definition, guides_extensions())
    assert indexing is not None
    assert [*indexing.rows_of(b"N1", b'{"seats": 7}')] == [
        b"\x00\x80\x00\xff\x00\xff\x07\x00\x00N1"
    ]
    assert indexing.rows_of(b"N1", b'{"wings": 2}') == {}


# --- Packages


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "queryable_state.stores")


def test_types_that_do_not_load_are_told_who_asks() -> None:
    points = [
        point("Good", "collections:OrderedDict"),
        point("Missing", "nowhere:Store"),
        point("Number", "math:pi"),
        point("Twice", "collections:OrderedDict"),
        point("Twice", "collections:Counter"),
    ]
    found = extensions_of([], points)
    assert [*found.stores] == ["Good"]
    for name, says in (
        ("Missing", "ModuleNotFoundError"),
        ("Number", "cannot be called"),
        ("Twice", "taken"),
        ("Other", r"no package in this pod has the store type 'Other' \(there are: Good\)"),
    ):
        with pytest.raises(StoreError, match=says) as told:
            found.store(name)
        assert told.value.code == "STORE_TYPE_REFUSED"
