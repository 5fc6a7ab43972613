"""Limits the rounds that run at the same time, in total and in each namespace.

A round waits for the answers of the store's pods. Slow pods of one namespace must not delay the
stores of others.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qss_core.errors import Retry, StoreError
from qss_operator.kubernetes.leadership.health import Health

ROUND_S = 120.0  # A pod may take 30 s for an answer, and a store may have many pods.


class RoundTooLongError(StoreError):
    """A round took too long and was ended; the next round continues its work."""

    code, retry = "ROUND_TOO_LONG", Retry.LATER


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Raises RoundTooLongError where the block takes longer."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        message = f"a round was ended after {seconds:.0f} s: pods or API server answer slowly"
        raise RoundTooLongError(message) from error


class Rounds:
    """The operator's slots for rounds. One namespace gets at most half of them."""

    def __init__(self, most: int, health: Health) -> None:
        """`health` does not count the time that a store waits for its namespace's other stores."""
        self._all = asyncio.Semaphore(most)
        self._of_one = max(1, most // 2)
        self._health = health
        self.namespaces: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, namespace: str, title: str) -> AsyncIterator[None]:
        """Holds a slot for a round of the store `title` while the block runs."""
        own = self.namespaces.setdefault(namespace, asyncio.Semaphore(self._of_one))
        self._users[namespace] += 1
        try:
            if own.locked():
                self._health.is_over(title)
            async with own:
                self._health.due_by_now(title)
                async with self._all:
                    yield
        finally:
            self._users[namespace] -= 1
            if self._users[namespace] == 0:
                del self._users[namespace], self.namespaces[namespace]
