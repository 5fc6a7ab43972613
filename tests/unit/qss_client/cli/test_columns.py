"""CSV, and members of JSON objects as columns."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from qss_client.cli.columns import columns_of
from qss_client.cli.printing import Output, print_document, print_rows
from qss_core.errors import MalformedRequestError
from qss_core.wire.csv_rows import csv_line

NAMES = ["key", "value", "indexKey", "timestamp"]


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def row(key: str, value: str, timestamp: int = 5) -> dict[str, Any]:
    """A row as a store sends it: key and value are its JSON."""
    return {"key": raw(key), "value": raw(value), "timestamp": timestamp}


def printed(capsys: pytest.CaptureFixture[str], rows: Any, output: Output, given: str = "") -> str:
    print_rows(rows, output, NAMES, columns_of(given or None))
    return capsys.readouterr().out


def test_csv_has_texts_as_they_are_and_other_values_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        row('"a,b"', '{"n":1}'),
        row("12", '"say \\"hi\\""'),
        row('""', "null"),
        row("1", "2.50"),
        row("2", '"\\ud800"'),  # Half of a surrogate pair, which no file can have.
    ]
    assert printed(capsys, rows, Output.CSV) == (
        'key,value,timestamp\n"a,b","{""n"":1}",5\n12,"say ""hi""",5\n"",,5\n1,2.50,5\n'
        '2,"""\\ud800""",5\n'
    )


@pytest.mark.parametrize("text", ["plain", "", " led", "a,b", 'a"b', "a\nb", "a\r\nb", "ä=1"])
def test_a_library_reads_a_field_as_it_was(text: str) -> None:
    (found,) = csv.reader(io.StringIO(f"{csv_line(['x', text, None])}\n", newline=""))
    assert found == ["x", text, ""]


def test_without_rows_csv_has_the_columns_that_every_row_would_have(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(capsys, [], Output.CSV) == "key,value\n"
    assert printed(capsys, [], Output.CSV, "a,b") == "key,a,b\n"


def test_csv_is_printed_row_by_row(capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield row('"a"', "1")
        yield row('"b"', "2")
        assert capsys.readouterr().out == "key,value,timestamp\na,1,5\nb,2,5\n"

    assert printed(capsys, rows(), Output.CSV) == ""


def test_members_are_columns_and_their_json_is_unchanged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        row('"a"', '{"n":1.500,"place":{"city":"Ulm","zip":"89073"},"x.y":true,"key":"own"}'),
        row('"b"', '{"n":null}'),
        row('"c"', "[1]"),
    ]
    columns = "n, place.city,place.zip,x.y,key"
    assert printed(capsys, rows, Output.CSV, columns) == (
        "key,n,place.city,place.zip,x.y,key,timestamp\n"
        "a,1.500,Ulm,89073,true,own,5\n"
        "b,,,,,,5\n"
        "c,,,,,,5\n"
    )
    assert [line.split() for line in printed(capsys, rows, Output.TABLE, columns).splitlines()] == [
        ["KEY", "N", "PLACE.CITY", "PLACE.ZIP", "X.Y", "KEY", "TIMESTAMP"],
        ["a", "1.500", "Ulm", '"89073"', "true", "own", "5"],
        ["b", "null", "-", "-", "-", "-", "5"],
        ["c", "-", "-", "-", "-", "-", "5"],
    ]


def test_a_member_that_no_row_has_is_a_column_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(capsys, [row('"a"', "{}")], Output.TABLE, "n").split() == [
        *("KEY", "N", "TIMESTAMP"),
        *("a", "-", "5"),
    ]


@pytest.mark.parametrize("given", ["", "a,,b", "a,a", "a, a"])
def test_columns_are_names_each_once(given: str) -> None:
    with pytest.raises(MalformedRequestError, match="columns are names of members"):
        columns_of(given)


@pytest.mark.parametrize("output", [Output.JSON, Output.NDJSON])
def test_json_has_no_columns(output: Output) -> None:
    with pytest.raises(MalformedRequestError, match="--columns is for -o table and -o csv"):
        print_rows([], output, NAMES, ("n",))


def test_a_document_is_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"count": 3, "exact": True}, Output.CSV)
    assert capsys.readouterr().out == "count,exact\n3,true\n"
