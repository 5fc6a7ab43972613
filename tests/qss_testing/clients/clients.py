"""One interface to both clients of a store; the sync client runs in a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar

from qss_client import AsyncStore, PartitionResult, ReadOptions, Row, StateQueryResult, Store
from qss_core.positions import Position
from qss_core.wire.messages import StoreMetadata

Result = TypeVar("Result")
DEFAULTS = ReadOptions()


class AnyClient:
    """A `Store` or an `AsyncStore`."""

    def __init__(self, kind: str, *place: Any, **options: Any) -> None:
        self.sync = Store(*place, **options) if kind == "sync" else None
        self.other = AsyncStore(*place, **options) if kind == "async" else None

    @property
    def position(self) -> Position:
        return self._client.position

    async def close(self) -> None:
        await self._call("close")

    async def metadata(self) -> StoreMetadata:
        found: StoreMetadata = await self._call("metadata")
        return found

    async def get(self, key: Any, options: ReadOptions = DEFAULTS) -> Row | None:
        row: Row | None = await self._call("get", key, options)
        return row

    async def get_many(
        self, keys: Sequence[Any], options: ReadOptions = DEFAULTS
    ) -> list[Row | None]:
        rows: list[Row | None] = await self._call("get_many", keys, options)
        return rows

    async def count(self, options: ReadOptions = DEFAULTS, **how: Any) -> int:
        counted: int = await self._call("count", options, **how)
        return counted

    async def query(self, kind: str, **fields: Any) -> StateQueryResult:
        result: StateQueryResult = await self._call("query", kind, **fields)
        return result

    async def only(self, kind: str, **fields: Any) -> PartitionResult | None:
        result: PartitionResult | None = await self._call(
            "get_only_partition_result", kind, **fields
        )
        return result

    async def range(self, *bounds: Any, **options: Any) -> list[Row]:
        return [row async for row in self.rows("range", *bounds, **options)]

    async def prefix(self, prefix: Any, **options: Any) -> list[Row]:
        return [row async for row in self.rows("prefix", prefix, **options)]

    async def rows(self, method: str, *arguments: Any, **options: Any) -> AsyncIterator[Row]:
        """The rows of a range or prefix as they come."""
        found = getattr(self._client, method)(*arguments, **options)
        if self.other is not None:
            async for row in found:
                yield row
            return
        while (row := await asyncio.to_thread(_next, found)) is not None:
            yield row

    async def all(self, method: str, *arguments: Any, **options: Any) -> list[Any]:
        """All rows of a method."""
        return [row async for row in self.rows(method, *arguments, **options)]

    async def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method."""
        return await self._call(method, *arguments)

    @property
    def _client(self) -> Store | AsyncStore:
        client = self.sync or self.other
        assert client is not None
        return client

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        method: Callable[..., Any] = getattr(self._client, name)
        if self.other is not None:
            return await method(*arguments, **options)
        return await asyncio.to_thread(method, *arguments, **options)


def _next(rows: Iterator[Row]) -> Row | None:
    return next(rows, None)
