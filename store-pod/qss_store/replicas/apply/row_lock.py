"""The lock of a replica's rows: a commit, or code that moves rows, holds it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qss_core.errors import DiskFullError


class RowLock(asyncio.Lock):
    """Held by a commit from its first row until readers see it, and by the code that moves rows.

    A commit that waits for space releases the lock, since an assignment must not wait as long.
    Until the commit goes on, the live families have a part of its rows, and no other task may show
    them.
    """

    def __init__(self) -> None:
        """The lock is free, and no commit has begun."""
        super().__init__()
        self._is_in_commit = False

    @asynccontextmanager
    async def of_commit(self) -> AsyncIterator[None]:
        """The lock for a commit; a commit that ends with an error has to be tried again."""
        async with self:
            self._is_in_commit = True
            yield
            self._is_in_commit = False

    @asynccontextmanager
    async def of_format(self) -> AsyncIterator[None]:
        """The lock for other changes of rows. Raises DiskFullError inside a commit that waits."""
        async with self:
            if self._is_in_commit:
                raise DiskFullError(
                    "the volume is full, and a commit that is applied in part waits for space"
                )
            yield
