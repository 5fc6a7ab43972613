"""Durations in words for a person."""

import pytest

from qss_core.quantities import shown_bytes, shown_duration


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1 s 500 ms"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (5_400_000, "1 h 30 min"),
        (604_800_000, "168 h"),
    ],
)
def test_a_duration_is_shown_exactly_in_the_largest_units(milliseconds: int, shown: str) -> None:
    assert shown_duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 MiB"),
        (1, "1 KiB"),
        (5000, "5 KiB"),
        (64 * 1024**2, "64 MiB"),
        (12_897_485, "12.3 MiB"),
        (3 * 1024**3 // 2, "1.5 GiB"),
    ],
)
def test_bytes_are_shown_in_a_unit_that_a_person_reads(count: int, shown: str) -> None:
    assert shown_bytes(count) == shown
