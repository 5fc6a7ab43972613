"""Files are read row by row, and each row has its line, also behind lines that are no rows."""

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from qss_client.cli.load.csv_file import CsvFile
from qss_client.cli.load.input_rows import FileFormat, InputFile, format_of
from qss_client.cli.load.ndjson_file import NdjsonFile
from qss_client.cli.load.parquet_file import ParquetFile
from qss_core.errors import MalformedRequestError


def written(directory: Path, data: bytes) -> Path:
    path = directory / "rows"
    path.write_bytes(data)
    return path


def told(file: InputFile) -> list[tuple[int, object]]:
    """The line of each row with its cells, or with the reason why it is none."""
    with closing(file):
        found: list[tuple[int, object]] = [
            (row.line, row.problem or dict(row.cells)) for row in file.rows()
        ]
        assert 0 < file.share_read() <= 1
    return found


def test_an_empty_field_is_null_and_a_quoted_one_is_an_empty_text(tmp_path: Path) -> None:
    file = CsvFile(written(tmp_path, b'key,value\na,\nb,""\nc,NULL\n'))
    assert file.names == ("key", "value")
    assert told(file) == [
        (2, {"key": "a", "value": None}),
        (3, {"key": "b", "value": ""}),
        (4, {"key": "c", "value": "NULL"}),
    ]


def test_a_row_of_csv_has_the_line_on_which_it_begins(tmp_path: Path) -> None:
    data = b'key,value\r\n"a\nb",1\r\n\r\nc,1,2\n"d\n\n",2\nonly\ne,\xff\nf,3'
    assert told(CsvFile(written(tmp_path, data))) == [
        (2, {"key": "a\nb", "value": "1"}),
        (5, "it has 3 fields, the header has 2"),
        (6, {"key": "d\n\n", "value": "2"}),
        (9, "it has 1 field, the header has 2"),
        (10, r"it is no UTF-8: b'\xff'"),
        (11, {"key": "f", "value": "3"}),
    ]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'key,value\nz,1\na,"abc\nb,2\nc,3\n', 3),
        (b'key,value\na,"abc', 2),
        (b'key,value\na,"', 2),
        (b'key,value\na,"say ""hi"" \n', 2),
        (b'key\n"abc\n', 2),
    ],
)
def test_a_quote_that_nothing_ends_is_no_row(data: bytes, line: int, tmp_path: Path) -> None:
    problem = "a field begins with a quote, and no quote ends it"
    assert told(CsvFile(written(tmp_path, data)))[-1] == (line, problem)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('"abc\nb"', "abc\nb"),
        ('""', ""),
        ('5"', '5"'),
        ('"a"""', 'a"'),
        ('""""', '"'),
        ('x"y', 'x"y'),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_field_at_the_end_of_the_file_is_whole(
    field: str, value: str, end: str, tmp_path: Path
) -> None:
    found = told(CsvFile(written(tmp_path, f"key,value\na,{field}{end}".encode())))
    assert found == [(2, {"key": "a", "value": value})]


def test_a_line_that_is_too_long_is_told_with_the_limit(tmp_path: Path) -> None:
    path = written(tmp_path, b"key,value\na," + b"x" * (33 << 20) + b"\n")
    with pytest.raises(MalformedRequestError, match="a row has more than 16 MiB"):
        CsvFile(path)


def test_the_last_lines_of_csv_may_be_no_rows(tmp_path: Path) -> None:
    data = b"key;value\na;1\nb\nc\n"
    assert [line for line, _ in told(CsvFile(written(tmp_path, data), ";"))] == [2, 3, 4]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no CSV"),
        (b"key,key\n1,2\n", "names a column twice: key, key"),
        ("key,value\na,1\n".encode("utf-16"), "is no UTF-8: save the file as UTF-8"),
        ("key,größe\na,1\n".encode("latin-1"), "is no UTF-8: save the file as UTF-8"),
    ],
)
def test_a_file_that_is_no_csv_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(MalformedRequestError, match=words):
        CsvFile(written(tmp_path, data))


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(MalformedRequestError, match="one character"):
        CsvFile(written(tmp_path, b"key\n"), delimiter)


def test_a_line_of_json_keeps_its_text(tmp_path: Path) -> None:
    data = b'{"key": "a", "value": {"n": 1.50}}\n\n[1]\n{"key": 1\n{"key":"b"}'
    file = NdjsonFile(written(tmp_path, data))
    assert file.names == ("key", "value")
    with closing(file):
        first, no_object, no_json, last = file.rows()
    assert {name: bytes(raw) for name, raw in first.cells.items()} == {
        "key": b'"a"',
        "value": b'{"n": 1.50}',
    }
    assert (no_object.line, no_json.line, last.line) == (3, 4, 5)
    assert str(no_object.problem).startswith("it is no JSON object: ")
    assert str(no_json.problem).startswith("it is no JSON object: ")


def test_a_line_that_is_no_utf_8_is_no_row(tmp_path: Path) -> None:
    data = b'\n{"key": "a"}\n{"key": "b", "value": {"n": "\\n\xff"}}\n'
    file = NdjsonFile(written(tmp_path, data))
    assert file.names == ("key",)
    with closing(file):
        first, second = file.rows()
    assert (first.line, first.problem) == (2, None)
    assert (second.line, second.problem) == (3, """it is no UTF-8: b'\\xff"}}\\n'""")


def test_a_file_whose_first_line_is_no_json_says_so(tmp_path: Path) -> None:
    with pytest.raises(MalformedRequestError, match="line 2: it is no JSON object: "):
        NdjsonFile(written(tmp_path, b'\n{"key": 01}\n{"key": 1}\n'))


def test_a_row_of_parquet_has_python_values(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    table = pa.table({"key": ["a", "b"], "at": [at, None], "tags": [["x"], []]})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path)
    file = ParquetFile(path)
    assert file.names == ("key", "at", "tags")
    assert told(file) == [
        (1, {"key": "a", "at": at, "tags": ["x"]}),
        (2, {"key": "b", "at": None, "tags": []}),
    ]


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedRequestError, match="is no Parquet"):
        ParquetFile(written(tmp_path, b"key,value\n"))


def test_columns_of_parquet_have_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["key", "key"]), path)
    with pytest.raises(MalformedRequestError, match="names a column twice: key, key"):
        ParquetFile(path)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([10**18], pa.timestamp("us")),  # After the year 9999.
        pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_values_of_parquet_that_python_lacks_are_refused(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"key": ["a"], "value": column}), path)
    with (
        closing(ParquetFile(path)) as file,
        pytest.raises(MalformedRequestError, match="rows 1 to 1 have a value that cannot be read"),
    ):
        list(file.rows())


def test_the_format_is_that_of_the_suffix_or_the_given_one() -> None:
    assert format_of(Path("a.CSV"), None) is FileFormat.CSV
    assert format_of(Path("a.jsonl"), None) is FileFormat.NDJSON
    assert format_of(Path("a.txt"), FileFormat.PARQUET) is FileFormat.PARQUET
    with pytest.raises(
        MalformedRequestError, match=r"rows\.csv\.gz is compressed: unpack it first"
    ):
        format_of(Path("rows.csv.gz"), FileFormat.CSV)
    with pytest.raises(MalformedRequestError, match="--format csv, ndjson or parquet"):
        format_of(Path("a.txt"), None)


def test_many_blocks_of_csv_keep_their_lines(tmp_path: Path) -> None:
    long = "x" * 2_000_000
    lines = ["key,value", *(f"{n},{long}" if n % 2 else f"{n}" for n in range(20))]
    with closing(CsvFile(written(tmp_path, "\n".join(lines).encode()))) as file:
        rows = list(file.rows())
    assert [row.line for row in rows] == list(range(2, 22))
    assert [row.problem is None for row in rows] == [n % 2 == 1 for n in range(20)]
    assert json.loads(str(rows[1].cells["key"])) == 1
