"""Reads a Parquet file row by row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        if len({*self.names}) < len(self.names):
            self._file.close()
            raise MalformedRequestError(
                f"{path.name} names a column twice: {', '.join(self.names)}"
            )
        self._read = 0

    def close(self) -> None:
        self._file.close()

    def share_read(self) -> float:
        return self._read / (self._file.metadata.num_rows or 1)

    def rows(self) -> Iterator[InputRow]:
        try:
            for batch in self._file.iter_batches(_ROWS):
                for cells in self._cells(batch):
                    self._read += 1
                    yield InputRow(self._read, cells)
        except (pa.ArrowException, OSError) as error:
            raise self._no_parquet(error) from error

    def _cells(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
        except (ValueError, KeyError, OverflowError) as error:
            raise MalformedRequestError(
                f"rows {self._read + 1} to {self._read + batch.num_rows} have a value that cannot "
                f"be read: {error}"
            ) from error
        return found

    def _no_parquet(self, error: Exception) -> MalformedRequestError:
        return MalformedRequestError(f"{self._path} is no Parquet: {error}")
