"""Reads a file with a JSON object in each line, such as `qss scan -o ndjson` prints."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from qss_client.cli.load.input_rows import LINE_BYTES_MAX, InputRow
from qss_core.text import json_problem


class NdjsonFile:
    """A file of JSON lines; empty lines are skipped."""

    line_word = "line"

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size
        self._decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        self._file = path.open("rb")
        self.names = tuple(self._row(1, self._file.readline(LINE_BYTES_MAX)).cells)
        self._file.seek(0)

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
                return  # What follows is a part of this line.
            if line.strip():
                yield self._row(number, line)

    def _row(self, number: int, line: bytes) -> InputRow:
        try:
            return InputRow(number, self._decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return InputRow(number, problem=f"it is no JSON object: {json_problem(line, error)}")
