"""The demo's verdict: what the store must hold, and every way in which it may not."""

from qss_client import Row
from qss_spark.demo.expected import differences, expected_aircraft_stats

EXPECTED = {"a": {"n": 1}, "b": {"n": 2}}


def held(**values: int) -> list[Row]:
    return [Row(key, {"n": value}) for key, value in values.items()]


def test_every_aircraft_is_expected_with_what_it_flew() -> None:
    expected = expected_aircraft_stats()
    assert len(expected) == 4043
    assert sum(one["flights"] for one in expected.values()) == 334_264
    assert expected["N14228"] == {
        "flights": 111,
        "distance": 171713,
        "mean_arrival_delay": 3.7117117117117115,
    }


def test_equal_rows_are_no_difference() -> None:
    assert differences(EXPECTED, held(b=2, a=1)) == []


def test_a_changed_row_is_found() -> None:
    assert differences(EXPECTED, held(a=1, b=3)) == ["b: is {'n': 3}, should be {'n': 2}"]


def test_a_missing_row_is_found() -> None:
    assert differences(EXPECTED, held(a=1)) == ["b: is missing, should be {'n': 2}"]


def test_a_row_too_many_is_found() -> None:
    assert differences(EXPECTED, held(a=1, b=2, c=3)) == [
        "c: is {'n': 3}, and should not be there (again)"
    ]


def test_a_row_that_comes_twice_is_found() -> None:
    assert differences(EXPECTED, [*held(a=1, b=2), *held(a=1)]) == [
        "a: is {'n': 1}, and should not be there (again)"
    ]


def test_an_empty_store_lacks_everything() -> None:
    assert len(differences(EXPECTED, [])) == 2
