"""Reads a CSV file (RFC 4180, UTF-8, with a header) row by row, with the line of each row.

An empty field is null, and `""` an empty text, as in `-o csv`. Python's own reader does not tell
them apart before 3.12, so Arrow reads the file, with all columns as bytes.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from qss_client.cli.load.input_rows import LINE_BYTES_MAX, InputRow, Text
from qss_core.errors import MalformedRequestError


class CsvFile:
    """A CSV file. Raises MalformedRequestError for a file that is none."""

    line_word = "line"

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise MalformedRequestError(f"a delimiter is one character, not {delimiter!r}")
        self._path = path
        self._size = path.stat().st_size
        self._read = 0  # Bytes of rows; Arrow is ahead by blocks.
        self._delimiter = delimiter
        self._refused: deque[tuple[int, int, str]] = deque()  # Row, line breaks in it, problem.
        self._file = path.open("rb")
        try:
            self.names = self._header()
        except BaseException:
            self._file.close()
            raise

    def share_read(self) -> float:
        return min(1.0, self._read / self._size) if self._size else 1.0

    def close(self) -> None:
        self._file.close()

    def _header(self) -> tuple[str, ...]:
        try:
            names = tuple(self._open({}).schema.names)
        except UnicodeDecodeError as error:
            raise MalformedRequestError(
                f"the header of {self._path.name} is no UTF-8: save the file as UTF-8"
            ) from error
        self._file.seek(0)
        self._refused.clear()
        if len({*names}) < len(names):
            raise MalformedRequestError(
                f"the header of {self._path.name} names a column twice: {', '.join(names)}"
            )
        return names

    def rows(self) -> Iterator[InputRow]:
        last: tuple[InputRow, bytes | None] | None = None
        for following in self._rows():
            if last is not None:
                yield last[0]
            last = following
        if last is None:
            return
        row, field = last
        if field is not None and self._is_open_at_the_end(field):
            row = InputRow(row.line, problem="a field begins with a quote, and no quote ends it")
        yield row

    def _is_open_at_the_end(self, field: bytes) -> bool:
        """Whether the last field of the file is quoted and goes on to the end of the file.

        Arrow takes the rest of the file for its value then.
        """
        quoted = b'"' + field.replace(b'"', b'""')
        with self._path.open("rb") as file:
            file.seek(max(0, self._size - len(quoted) - 1))
            tail = file.read()
        before = tail[: -len(quoted)]
        return tail.endswith(quoted) and before in (b"", b"\n", b"\r", self._delimiter.encode())

    def _rows(self) -> Iterator[tuple[InputRow, bytes | None]]:
        """The rows, each with its last field as it is in the file."""
        number = 1  # Of the row before; the header is the first.
        extra = sum(name.count("\n") for name in self.names)
        for batch in self._batches():
            columns = [column.to_pylist() for column in batch.columns]
            for fields in zip(*columns, strict=True):
                number += 1
                while self._refused and self._refused[0][0] == number:
                    _, breaks, problem = self._refused.popleft()
                    yield InputRow(number + extra, problem=problem), None
                    extra += breaks
                    number += 1
                self._read += sum(len(one) + 1 for one in fields if one)
                if any(one is not None for one in fields):  # Else the line is empty.
                    yield self._row(number + extra, fields), fields[-1]
                    extra += sum(one.count(b"\n") for one in fields if one is not None)
        for row, _, problem in self._refused:
            yield InputRow(row + extra, problem=problem), None

    def _row(self, line: int, fields: tuple[bytes | None, ...]) -> InputRow:
        try:
            cells = {
                name: None if one is None else Text(one.decode())
                for name, one in zip(self.names, fields, strict=True)
            }
        except UnicodeDecodeError as error:
            return InputRow(line, problem=f"it is no UTF-8: {error.object[:20]!r}")
        return InputRow(line, cells)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reader = self._open(dict.fromkeys(self.names, pa.binary()))
        while True:
            try:
                yield reader.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowException as error:
                raise self._no_csv(error) from error

    def _open(self, types: dict[str, Any]) -> csv.CSVStreamingReader:
        try:
            return csv.open_csv(
                pa.PythonFile(self._file, mode="r"),
                # Only with one thread does Arrow tell the numbers of rows that it refuses.
                csv.ReadOptions(use_threads=False, block_size=LINE_BYTES_MAX),
                csv.ParseOptions(
                    delimiter=self._delimiter,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                    invalid_row_handler=self._refuse,
                ),
                csv.ConvertOptions(
                    check_utf8=False,
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            raise self._no_csv(error) from error

    def _refuse(self, row: csv.InvalidRow) -> str:
        fields = "field" if row.actual_columns == 1 else "fields"
        told = f"it has {row.actual_columns} {fields}, the header has {row.expected_columns}"
        self._refused.append((row.number, row.text.count("\n"), told))
        return "skip"

    def _no_csv(self, error: Exception) -> MalformedRequestError:
        if "straddling object" in str(error):
            longest = f"{LINE_BYTES_MAX // 1024**2} MiB"
            return MalformedRequestError(
                f"{self._path}: a row has more than {longest}, or a quote is not closed"
            )
        return MalformedRequestError(f"{self._path} is no CSV: {error}")
