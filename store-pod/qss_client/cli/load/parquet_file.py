"""Reads a Parquet file row by row."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from qss_client.cli.load.input_rows import InputRow
from qss_core.errors import MalformedRequestError

_ROWS = 1_000  # Rows that are Python objects at one time.


class ParquetFile:
    """A Parquet file. Raises MalformedRequestError for a file that is none."""

    line_word = "row"

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = parquet.ParquetFile(path)
        except (pa.ArrowException, OSError) as error:
            raise self._no_parquet(error) from error
        self.names = tuple(self._file.schema_arrow.names)
        self._read = 0

    def close(self) -> None:
        self._file.close()

    def share_read(self) -> float:
        return self._read / (self._file.metadata.num_rows or 1)

    def rows(self) -> Iterator[InputRow]:
        try:
            for batch in self._file.iter_batches(_ROWS):
                for cells in batch.to_pylist(maps_as_pydicts="strict"):
                    self._read += 1
                    yield InputRow(self._read, cells)
        except (pa.ArrowException, OSError) as error:
            raise self._no_parquet(error) from error

    def _no_parquet(self, error: Exception) -> MalformedRequestError:
        return MalformedRequestError(f"{self._path} is no Parquet: {error}")
