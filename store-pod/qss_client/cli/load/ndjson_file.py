"""Reads a file with a JSON object in each line, such as `qss scan -o ndjson` prints."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from qss_client.cli.load.input_rows import LINE_BYTES_MAX, InputRow
from qss_core.errors import MalformedRequestError
from qss_core.text import json_problem


class NdjsonFile:
    """A file of JSON lines; empty lines are skipped.

    Raises MalformedRequestError if the first line is no JSON object: it names the columns.
    """

    line_word = "line"

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self._file = path.open("rb")
        try:
            self.names = self._first()
        except BaseException:
            self._file.close()
            raise

    def _first(self) -> tuple[str, ...]:
        first = next(self.rows(), None)
        if first is not None and first.problem is not None:
            raise MalformedRequestError(f"line {first.line}: {first.problem}")
        self._file.seek(0)
        return () if first is None else tuple(first.cells)

    def close(self) -> None:
        self._file.close()

    def share_read(self) -> float:
        return self._file.tell() / self._size if self._size else 1.0

    def rows(self) -> Iterator[InputRow]:
        number = 0
        while line := self._file.readline(LINE_BYTES_MAX + 1):
            number += 1
            if len(line) > LINE_BYTES_MAX:
                yield InputRow(number, problem=f"it has more than {LINE_BYTES_MAX} bytes")
                return  # The next bytes are a part of this line.
            if line.strip():
                yield self._row(number, line)

    def _row(self, number: int, line: bytes) -> InputRow:
        try:
            line.decode()  # The decoder does not look into raw members.
            return InputRow(number, self._decode(line))
        except UnicodeDecodeError as error:
            wrong = line[error.start : error.start + 20]
            return InputRow(number, problem=f"it is no UTF-8: {wrong!r}")
        except (msgspec.DecodeError, RecursionError) as error:
            return InputRow(number, problem=f"it is no JSON object: {json_problem(line, error)}")
