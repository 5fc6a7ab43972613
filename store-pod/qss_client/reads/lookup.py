"""A store as a container of rows: `store[key]` and `key in store`."""

from typing import Any, ClassVar, Protocol

from qss_client.reads.responses import Row


class Lookup(Protocol):
    """The reads of a client without an event loop, beside `get`. A store of windows refuses it."""

    def get(self, key: Any) -> Row | None:
        """The key's row; None if there is none."""
        ...

    def __getitem__(self, key: Any) -> Row:
        """The key's row, as `get`. Raises KeyError if there is none."""
        return found(self.get(key), key)

    def __contains__(self, key: Any) -> bool:
        """Whether the key has a row; it is read, as by `get`."""
        return self.get(key) is not None

    # Without it Python would ask for the keys 0, 1, 2, ... in a loop.
    __iter__: ClassVar[None] = None


class AsyncLookup(Protocol):
    """As `Lookup`, with an event loop: `await store[key]`, `await store.contains(key)`."""

    async def get(self, key: Any) -> Row | None:
        """The key's row; None if there is none."""
        ...

    async def __getitem__(self, key: Any) -> Row:
        """The key's row, as `get`. Raises KeyError if there is none."""
        return found(await self.get(key), key)

    async def contains(self, key: Any) -> bool:
        """Whether the key has a row; `in` cannot wait for it, and raises TypeError."""
        return await self.get(key) is not None

    __contains__: ClassVar[None] = None
    __iter__: ClassVar[None] = None


def found(row: Row | None, key: Any) -> Row:
    """The row. Raises KeyError for an absent one."""
    if row is None:
        raise KeyError(key)
    return row
