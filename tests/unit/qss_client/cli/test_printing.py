"""The cells of a printed table."""

from typing import Any

import pytest

from qss_client.cli.printing import Output, print_rows


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12, "12"),
        ("12", '"12"'),
        (None, "null"),
        ("null", '"null"'),
        (True, "true"),
        ("true", '"true"'),
        ("a text", "a text"),
        ({"n": 1}, '{"n":1}'),
    ],
)
def test_a_text_that_reads_as_another_value_is_quoted(
    value: Any, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([{"key": "12", "value": value}], Output.TABLE, ["key", "value"])
    assert capsys.readouterr().out.splitlines()[1] == f"12   {shown}"
