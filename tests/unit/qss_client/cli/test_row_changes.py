"""What `qss watch` tells of windows, sessions and versions between two looks."""

from typing import Any

import pytest

from qss_client.cli.stores.row_changes import ROWS_MAX, Change, Look, changes_between
from qss_client.reads.responses import SessionRow, VersionRow, WindowRow


def window(start: int, value: Any = 1, sequence: int | None = None) -> WindowRow:
    return WindowRow("k", start, start + 10, value, sequence=sequence)


def look(*starts: int, last: int = 0) -> Look:
    """Windows, newest first; with `last` filled up to the limit by older ones, and more of them."""
    filled = [*starts, *range(last, last - ROWS_MAX - 1, -1)] if last else starts
    return Look.of(window(start) for start in filled)


def told(before: Look, after: Look) -> list[tuple[Any, bool]]:
    changes = changes_between(before, after)
    return [(one.row and getattr(one.row, "start", None), one.is_gone) for one in changes]


def test_the_rows_of_the_first_look_are_told_with_the_newest_last() -> None:
    assert told(Look(), look(30, 20, 10)) == [(10, False), (20, False), (30, False)]


def test_a_row_is_told_again_only_if_it_is_another() -> None:
    before, after = (Look.of([window(20, value), window(10)]) for value in (1, 2))
    assert changes_between(before, before) == []
    assert changes_between(before, after) == [Change(window(20, 2))]


def test_what_is_gone_is_told_before_what_is_new() -> None:
    assert told(look(20, 10), look(30, 20)) == [(10, True), (30, False)]


def test_rows_beyond_the_limit_are_neither_gone_nor_new() -> None:
    many = look(last=1000)
    assert (len(many.rows), many.is_whole) == (ROWS_MAX, False)
    # A new row pushes the oldest out of the look, and its deletion lets that row in again.
    more = look(2000, last=1000)
    assert told(many, more) == [(2000, False)]
    assert told(more, many) == [(2000, True)]


@pytest.mark.parametrize(
    "rows",
    [
        [window(10, 1, sequence=1), window(10, 2, sequence=0)],
        [SessionRow("k", 10, 30, 1), SessionRow("k", 10, 20, 2)],
        [VersionRow("k", 1, 20), VersionRow("k", 2, 10, 20)],
    ],
)
def test_each_kind_of_row_has_an_identity(rows: list[Any]) -> None:
    assert changes_between(Look(), Look.of(rows)) == [Change(rows[1]), Change(rows[0])]
    assert changes_between(Look.of(rows[1:]), Look.of(rows)) == [Change(rows[0])]
