"""Which options a filter adds to a read: none of them hides a row that the filter lets through."""

from typing import Any

import pytest

from qss_core.model import StoreDefinition, StoreType
from qss_core.serdes.registry import serde_of
from qss_spark.options import KEYS_MAX
from qss_spark.source.pushed_filters import Predicate, options_of
from qss_testing.pods.stores import make_definition

WINDOW = make_definition(type=StoreType.WINDOW)
SESSION = make_definition(type=StoreType.SESSION)


def of_keys(serde: str) -> StoreDefinition:
    return make_definition(key_serde=serde)


def key(name: str, value: Any) -> Predicate:
    return Predicate(name, "key", value)


@pytest.mark.parametrize(
    ("serde", "predicates", "expected"),
    [
        ("string", [key("EqualTo", "a")], {"keys": '["a"]'}),
        ("string", [key("In", ("b", "a", None)), key("EqualNullSafe", "a")], {"keys": '["a"]'}),
        ("string", [key("EqualTo", "a"), key("EqualTo", "b")], {"keys": "[]"}),
        ("string", [key("In", tuple(map(str, range(KEYS_MAX + 1))))], {}),
        ("string", [key("StringStartsWith", "ab"), key("LessThan", "b")], {"prefix": "ab"}),
        ("string", [key("GreaterThan", "a"), key("GreaterThanOrEqual", "b")], {"from": "b"}),
        ("string", [key("GreaterThan", "b"), key("LessThan", "a")], {}),
        ("bytes", [key("EqualTo", b"\xff")], {"keys": '["/w=="]'}),
        ("bytes", [key("LessThan", b"\xff")], {"to": "_w"}),
        ("int32", [key("EqualTo", 7)], {"keys": "[7]"}),
        ("int16", [key("EqualTo", 70_000)], {}),
        # A key that no store can have is an error of a read, and a filter without rows is none.
        ("string", [key("In", ("a", "b" * 70_000))], {"keys": '["a"]'}),
        ("string", [key("EqualTo", "\u00e9" * 40_000)], {"keys": "[]"}),
        ("string", [key("StringStartsWith", "a" * 70_000)], {}),
        ("bytes", [key("GreaterThan", b"a" * 70_000), key("LessThan", b"b")], {"to": "Yg"}),
        ("uuid", [key("EqualTo", "6F8F2B0E-52F6-4C6F-8D5E-0B1C2D3E4F50")], {}),
        ("float64", [key("EqualTo", 0.0)], {}),
        ("json", [key("EqualTo", "1.0")], {}),
    ],
)
def test_a_filter_of_keys_narrows_where_spark_and_the_store_agree(
    serde: str, predicates: list[Predicate], expected: dict[str, str]
) -> None:
    assert options_of(predicates, of_keys(serde), {}) == expected


@pytest.mark.parametrize("lower", [None, -9, -1, 0, 3])
@pytest.mark.parametrize("upper", [None, -5, -1, 0, 7])
def test_a_range_of_numbers_holds_all_that_the_filter_lets_through(
    lower: int | None, upper: int | None
) -> None:
    predicates = [key("GreaterThanOrEqual", lower)] * (lower is not None)
    predicates += [key("LessThan", upper)] * (upper is not None)
    options = options_of(predicates, of_keys("int32"), {})
    serde = serde_of("int32")
    first = serde.key_from_text(options["from"]) if "from" in options else b""
    last = serde.key_from_text(options["to"]) if "to" in options else b"\xff" * 5
    for number in (-(2**31), -9, -5, -1, 0, 3, 7, 2**31 - 1):
        if (lower is None or number >= lower) and (upper is None or number < upper):
            assert first <= serde.encode(number) <= last


@pytest.mark.parametrize(
    ("definition", "predicates", "expected"),
    [
        (WINDOW, [Predicate("EqualTo", "window_start", 5)], {"from": "5", "to": "5"}),
        (WINDOW, [Predicate("GreaterThan", "window_start", -5)], {}),
        (
            WINDOW,
            [
                Predicate("GreaterThan", "window_start", 9),
                Predicate("LessThan", "window_start", 5),
            ],
            {},
        ),
        (WINDOW, [key("StringStartsWith", "a"), key("LessThan", "b")], {"keyTo": "b"}),
        (SESSION, [Predicate("LessThan", "session_end", 5)], {}),
        (SESSION, [Predicate("EqualTo", "session_end", 5)], {"endFrom": "5"}),
        (SESSION, [Predicate("LessThanOrEqual", "session_start", 5)], {"startTo": "5"}),
    ],
)
def test_a_filter_of_times_bounds_windows_and_sessions(
    definition: StoreDefinition, predicates: list[Predicate], expected: dict[str, str]
) -> None:
    assert options_of(predicates, definition, {}) == expected


def test_what_the_user_has_chosen_stays() -> None:
    predicates = [key("EqualTo", "a"), Predicate("GreaterThan", "window_start", 5)]
    assert options_of(predicates, WINDOW, {"keyfrom": "a"}) == {"from": "5"}
    assert options_of(predicates, WINDOW, {"FROM": "3"}) == {"keys": '["a"]'}
    assert options_of(predicates, WINDOW, {"partitions": "3"}) == {"from": "5"}
    assert options_of(predicates, WINDOW, {"to": "9"}) == {"keys": '["a"]', "from": "5"}
    # A reversed range is an error of a read, and a filter without rows is none.
    for end in ("4", "1970-01-01T00:00:00.004Z"):
        assert options_of(predicates, WINDOW, {"To": end}) == {"keys": '["a"]'}
