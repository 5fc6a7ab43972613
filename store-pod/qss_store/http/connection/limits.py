"""How many connections a listener has, of how many one address may have, and who has to go.

A connection that was taken counts from then on, whatever it sends. Where there is no room, the one
that waited longest for its client goes: so a newcomer gets in while others do nothing.
"""

from collections import Counter, OrderedDict
from typing import Protocol


class Placed(Protocol):
    """A connection, as far as its place is concerned."""

    address: str

    @property
    def is_waiting(self) -> bool:
        """Whether no request or answer is under way: its client loses nothing but a connection."""

    def drop(self) -> None: ...


class ConnectionPlaces:
    """The connections of one listener, those that were silent longest first."""

    def __init__(self, most: int, of_address_max: int | None = None) -> None:
        """Up to `most`; of one address half of them, where nothing else is said."""
        self._most = most
        self._of_address_max = of_address_max or max(1, most // 2)
        self._held: OrderedDict[Placed, None] = OrderedDict()
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._held)

    def held(self) -> list[Placed]:
        return list(self._held)

    def take(self, newcomer: Placed) -> bool:
        """Whether there is room for another one, also after a silent one has gone."""
        address = newcomer.address
        if self._by_address[address] >= self._of_address_max and not self._drops_one(address):
            return False
        if len(self._held) >= self._most and not self._drops_one(None):
            return False
        self._held[newcomer] = None
        self._by_address[address] += 1
        return True

    def heard(self, placed: Placed) -> None:
        """It sent something, or took something."""
        if placed in self._held:
            self._held.move_to_end(placed)

    def leave(self, placed: Placed) -> None:
        """It has gone; again is no error."""
        if placed not in self._held:
            return
        del self._held[placed]
        self._by_address[placed.address] -= 1
        if not self._by_address[placed.address]:
            del self._by_address[placed.address]

    def hand_over(self, placed: Placed, successor: Placed) -> None:
        """The same connection is another object from now on."""
        self.leave(placed)
        self._held[successor] = None
        self._by_address[successor.address] += 1

    def _drops_one(self, address: str | None) -> bool:
        """Lets the one go that waits longest, of that address or of any; whether there is one."""
        for placed in self._held:
            if (address is None or placed.address == address) and placed.is_waiting:
                self.leave(placed)
                placed.drop()
                return True
        return False
