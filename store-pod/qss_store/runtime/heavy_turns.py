"""Makes work that holds the event loop take turns with the rest of the pod.

Sixty scans with chunks of 5 ms that are ready in one round of the loop would hold it for 300 ms,
and a point read would wait as long.
"""

import asyncio
from collections import deque

from qss_client.clock import Clock

_OF_A_ROUND_S = 0.001


class HeavyTurns:
    """Lets work begin while less than 1 ms of the loop's round was spent.

    Other work waits in order of arrival; in each round one waiting task continues.
    """

    def __init__(self, clock: Clock) -> None:
        """`clock` must advance within a round."""
        self._now_s = clock.monotonic_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._spent_s = 0.0
        self._is_counted = False  # The next round begins with nothing spent.
        self._began_s = 0.0

    @property
    def is_spent(self) -> bool:
        """Whether new work has to wait."""
        return bool(self._waiting) or self._spent_s >= _OF_A_ROUND_S

    async def wait(self) -> None:
        if self.is_spent:
            await self._wait_in_line()

    async def give_way(self) -> None:
        """Waits behind all others; in each round one waiting task continues."""
        self._count_round()
        await self._wait_in_line()

    async def _wait_in_line(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()  # Another task gets its turn.
            raise

    async def __aenter__(self) -> None:
        """Waits for a turn. The block must not await anything."""
        await self.wait()
        self.begin()

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> float:
        """Begins work that cannot wait; returns the time."""
        self._began_s = self._now_s()
        return self._began_s

    def end(self) -> None:
        self._spent_s += self._now_s() - self._began_s
        self._count_round()

    def _count_round(self) -> None:
        if not self._is_counted:
            self._is_counted = True
            asyncio.get_running_loop().call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._is_counted = False
        self._spent_s = 0.0
        self._next()

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._count_round()  # The next task gets its turn even if this one is cancelled.
                return
