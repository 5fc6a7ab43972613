"""Limits the connections of a listener, in all and of each address.

A connection counts from when it is accepted. If there is no room, the connection that has waited
longest for its client is dropped, so that a new one gets in.
"""

from collections import Counter, OrderedDict
from typing import Protocol


class Placed(Protocol):
    """A connection as ConnectionPlaces sees it."""

    address: str

    @property
    def is_waiting(self) -> bool:
        """Whether no request or answer is under way, so that dropping it loses no data."""

    def drop(self) -> None: ...


class ConnectionPlaces:
    """The connections of one listener, ordered by their last activity, oldest first."""

    def __init__(self, most: int, of_address_max: int | None = None) -> None:
        """At most `most` connections, and by default half of them of one address."""
        self._most = most
        self._of_address_max = of_address_max or max(1, most // 2)
        self._held: OrderedDict[Placed, None] = OrderedDict()
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def held(self) -> list[Placed]:
        return list(self._held)

    def take(self, newcomer: Placed) -> bool:
        """Adds a connection, if there is room or a waiting one can be dropped; returns whether."""
        address = newcomer.address
        if self._by_address[address] >= self._of_address_max and not self._drops_one(address):
            return False
        if len(self._held) >= self._most and not self._drops_one(None):
            return False
        self._held[newcomer] = None
        self._by_address[address] += 1
        return True

    def heard(self, placed: Placed) -> None:
        """Notes that the client of a connection sent or took bytes."""
        if placed in self._held:
            self._held.move_to_end(placed)

    def leave(self, placed: Placed) -> None:
        """Removes a connection; a second call is no error."""
        if placed not in self._held:
            return
        del self._held[placed]
        self._by_address[placed.address] -= 1
        if not self._by_address[placed.address]:
            del self._by_address[placed.address]

    def hand_over(self, placed: Placed, successor: Placed) -> None:
        """Replaces a connection by another object for the same client."""
        self.leave(placed)
        self._held[successor] = None
        self._by_address[successor.address] += 1

    def _drops_one(self, address: str | None) -> bool:
        """Drops the connection that waits longest, of `address` if given; False if none waits."""
        for placed in self._held:
            if (address is None or placed.address == address) and placed.is_waiting:
                self.leave(placed)
                placed.drop()
                return True
        return False
