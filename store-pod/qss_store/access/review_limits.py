"""Limits the reviews of unknown tokens that are under way. Pure.

Anybody can send invalid tokens, and each costs the API server a review. Part of the places is
reserved for addresses that showed a good token lately. An address whose tokens are refused is
limited to a rate.
"""

from collections import OrderedDict
from dataclasses import dataclass

AT_ONCE_MAX = 64
OF_STRANGERS_MAX = 32
OF_ADDRESS_MAX = 16
REFUSED_BURST = 30
REFUSED_PER_S = 5.0
_GOOD_FOR_S = 600.0
_ADDRESSES_MAX = 4096


@dataclass(slots=True)
class _Address:
    under_way: int = 0
    refused: float = 0.0  # Refused tokens, less those that the rate has forgiven since `at`.
    at: float = 0.0
    good_until: float = 0.0


class ReviewPlaces:
    """Allots places for reviews; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self.addresses: OrderedDict[str, _Address] = OrderedDict()
        self._under_way = 0

    def take(self, address: str, now: float) -> bool:
        """Takes a place for a token of this address; returns whether. `give` returns the place."""
        found = self._of(address, now)
        places = AT_ONCE_MAX if now < found.good_until else OF_STRANGERS_MAX
        if self._under_way >= places or found.under_way >= OF_ADDRESS_MAX:
            return False
        if found.refused >= REFUSED_BURST:
            return False
        found.under_way += 1
        self._under_way += 1
        return True

    def give(self, address: str, now: float, *, was_refused: bool) -> None:
        """Returns the place after the review; `was_refused` means that the token was invalid."""
        found = self._of(address, now)
        found.under_way -= 1
        self._under_way -= 1
        found.refused += was_refused

    def welcome(self, address: str, now: float) -> None:
        """Notes that the address showed a token with a right here."""
        self._of(address, now).good_until = now + _GOOD_FOR_S

    def _of(self, address: str, now: float) -> _Address:
        found = self.addresses.get(address)
        if found is None:
            found = self.addresses[address] = _Address(at=now)
            self._forget()
        self.addresses.move_to_end(address)
        found.refused = max(0.0, found.refused - (now - found.at) * REFUSED_PER_S)
        found.at = now
        return found

    def _forget(self) -> None:
        """Drops the least recently used addresses without a review under way."""
        for _ in range(AT_ONCE_MAX + 1):
            if len(self.addresses) <= _ADDRESSES_MAX:
                return
            oldest = next(iter(self.addresses))
            if self.addresses[oldest].under_way:
                self.addresses.move_to_end(oldest)
            else:
                del self.addresses[oldest]
