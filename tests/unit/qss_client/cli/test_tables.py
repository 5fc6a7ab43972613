"""Tables of the command line: columns, widths and cut cells."""

import pytest
from rich.cells import cell_len

from qss_client.cli.tables import table_lines

HEADINGS = ["KEY", "TIMESTAMP", "VALUE"]
TIME = "2013-01-01T00:00:00Z"


def test_without_a_terminal_nothing_is_cut() -> None:
    long = "v" * 500
    assert table_lines(HEADINGS, [["a", TIME, long], ["bcdef", "", "w"]]) == [
        "KEY    TIMESTAMP             VALUE",
        f"a      {TIME}  {long}",
        "bcdef                        w",
    ]


def test_without_a_terminal_one_long_cell_widens_no_other_row() -> None:
    rows = [["a", "v" * 100_000, "x"], ["b", "w", "y"]]
    lines = table_lines(["KEY", "VALUE", "MORE"], rows)
    assert lines[1] == f"a    {'v' * 100_000}  x"
    assert len(lines[2]) < 250


@pytest.mark.parametrize(
    "letter",
    [
        "\x85",
        "\u2028",
        "\u2029",
        "\n",
        "\x1c",
        "\x7f",
        *"\u061c\u200e\u200f\u202a\u202e\u2066\u2069",
    ],
)
def test_a_letter_that_ends_a_line_or_controls_a_terminal_or_turns_text_is_escaped(
    letter: str,
) -> None:
    text = "\n".join(table_lines(["KEY", "VALUE"], [[f"a{letter}b", f'"c{letter}"']]))
    escape = f"\\u{ord(letter):04x}"
    assert text.splitlines() == ["KEY       VALUE", f'a{escape}b  "c{escape}"']


@pytest.mark.parametrize("width", [40, 60, 80])
def test_on_a_terminal_cells_end_with_an_ellipsis_and_times_are_whole(width: int) -> None:
    rows = [["k" * 50, TIME, "v" * 100], ["a", TIME, "w"]]
    lines = table_lines(HEADINGS, rows, width=width, whole={"TIMESTAMP"})
    assert all(len(line) <= width for line in lines)
    assert all(TIME in line for line in lines[1:])
    assert lines[1].count("…") == 2
    assert lines[2].split() == ["a", TIME, "w"], "what is short is whole"
    assert len(lines[1]) >= width - 1, "the room is used"


def test_a_terminal_that_is_too_narrow_loses_no_column() -> None:
    (heading, row) = table_lines(
        HEADINGS, [["k" * 9, TIME, "v" * 9]], width=10, whole=HEADINGS[1:2]
    )
    assert heading.split() == HEADINGS
    assert row.split() == ["kkkkk…", TIME, "vvvvv…"]


def test_wide_letters_take_two_cells() -> None:
    lines = table_lines(["KEY", "V"], [["界" * 20, "1"], ["a", "2"]], width=20)
    assert [cell_len(line) for line in lines[1:]] == [cell_len(lines[1])] * 2
    assert cell_len(lines[1]) <= 20
    assert "…" in lines[1]
