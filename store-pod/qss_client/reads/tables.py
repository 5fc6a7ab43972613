"""Answers as Arrow tables, and the results of scans: rows one by one, or a table."""

import importlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self

from qss_client.reads.responses import Row
from qss_client.reads.scans import RowType
from qss_core.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"
_MARK = b"mark"


class _Tabled:
    """A result that can be returned as a table."""

    _table: "Callable[[], pa.Table]"

    def to_arrow(self) -> "pa.Table":
        """All rows as an Arrow table, whether or not some were taken one by one."""
        return self._table()

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame; needs pandas."""
        _imported("pandas")
        return self._table().to_pandas()

    def to_polars(self) -> Any:
        """All rows as a Polars DataFrame; needs polars."""
        return _imported("polars").from_arrow(self._table())


class Scanned(_Tabled, Iterator[RowType], Generic[RowType]):
    """The rows of a scan, read page by page; or a table of all rows."""

    def __init__(self, rows: Iterator[RowType], tables: "Callable[[], Iterator[pa.Table]]") -> None:
        """`tables` reads the whole scan again, page by page."""
        self._rows = rows
        self._tables = tables
        self._table = lambda: joined(list(tables()))

    def arrow_tables(self) -> "Iterator[pa.Table]":
        """Arrow tables, one for each page as it is read; at least one."""
        return self._tables()

    def __iter__(self) -> Self:
        """Itself: it can be read once."""
        return self

    def __next__(self) -> RowType:
        return next(self._rows)


class Found(_Tabled, list[Row | None]):
    """The rows of many keys in their order; or, from a new request, a table of them.

    The table's columns are `key`, `value`, the other members of the format, `partition`, and
    `status`: FOUND, or ABSENT with a null value.
    """

    def __init__(self, rows: Iterable[Row | None], table: "Callable[[], pa.Table]") -> None:
        """`table` asks for the same keys again."""
        super().__init__(rows)
        self._table = table


class _AsyncTabled:
    _table: "Callable[[], Awaitable[pa.Table]]"

    async def to_arrow(self) -> "pa.Table":
        """All rows as an Arrow table, whether or not some were taken one by one."""
        return await self._table()

    async def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame; needs pandas."""
        _imported("pandas")
        return (await self._table()).to_pandas()

    async def to_polars(self) -> Any:
        """All rows as a Polars DataFrame; needs polars."""
        return _imported("polars").from_arrow(await self._table())


class AsyncScanned(_AsyncTabled, AsyncIterator[RowType], Generic[RowType]):
    def __init__(
        self, rows: AsyncIterator[RowType], tables: "Callable[[], AsyncIterator[pa.Table]]"
    ) -> None:
        """`tables` reads the whole scan again, page by page."""
        self._rows = rows
        self._tables = tables
        self._table = self._whole

    def arrow_tables(self) -> "AsyncIterator[pa.Table]":
        """Arrow tables, one for each page as it is read; at least one."""
        return self._tables()

    async def _whole(self) -> "pa.Table":
        return joined([table async for table in self._tables()])

    def __aiter__(self) -> Self:
        """Itself: it can be read once."""
        return self

    async def __anext__(self) -> RowType:
        return await anext(self._rows)


class AsyncFound(_AsyncTabled, list[Row | None]):
    def __init__(
        self, rows: Iterable[Row | None], table: "Callable[[], Awaitable[pa.Table]]"
    ) -> None:
        """`table` asks for the same keys again."""
        super().__init__(rows)
        self._table = table


def read_stream(body: bytes) -> dict[str, Any]:
    """Parses an Arrow answer: its `batches`, `partitions` (the marks) and the `cursor`.

    Raises StoreError for a stream that was cut off.
    """
    pa = _imported("pyarrow")
    batches: list[Any] = []
    partitions: dict[str, Any] = {}
    cursor, ended = None, False
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            while True:
                try:
                    batch, metadata = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                if metadata is None:
                    batches.append(batch)
                    continue
                mark = json.loads(dict(metadata)[_MARK])
                if "partitions" in mark:  # The only mark of a batch get, with all partitions.
                    partitions = mark["partitions"]
                    continue
                partitions[str(mark.pop("partition"))] = mark
                cursor = mark.pop("cursor")
            batches.append(reader.schema.empty_table().combine_chunks())
            ended = body.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise StoreError(f"the answer is no Arrow stream: {error}") from error
    if not ended:
        raise StoreError("the Arrow stream was cut off")
    *rows, nothing = batches
    table = pa.Table.from_batches(rows, nothing.schema)
    return {"table": table, "partitions": partitions, "cursor": cursor}


def joined(tables: "list[pa.Table]") -> "pa.Table":
    """The pages of a scan as one table, with nulls for columns that a page lacks.

    The store's format may change between two pages. Raises StoreError for columns of different
    types: then the store was deleted and made again.
    """
    pa = _imported("pyarrow")
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise StoreError(f"the store was made again while it was read: {error}") from error


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise StoreError(f"this needs {name}: pip install {name}") from error
