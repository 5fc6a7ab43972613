"""Durations in words for a person."""

import pytest

from qss_core.quantities import shown_duration


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
