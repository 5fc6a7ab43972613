"""How many reviews of unknown tokens may be under way, and for whom. Pure.

Anybody can send tokens that are nobody's, and each costs the API server a review. Addresses that
showed a good token lately have a share of the places that no others take, and an address whose
tokens are refused has to keep a pace.
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
    refused: float = 0.0  # Tokens that were nobody's, less what the pace forgives since `at`.
    at: float = 0.0
    good_until: float = 0.0


class ReviewPlaces:
    """Who has a place; times are seconds of a clock that only grows."""

    def __init__(self) -> None:
        self.addresses: OrderedDict[str, _Address] = OrderedDict()
        self._under_way = 0

    def take(self, address: str, now: float) -> bool:
        """Whether a token that this address shows may be asked for now; `give` ends it."""
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
        """The review has ended; `was_refused`: the token was nobody's."""
        found = self._of(address, now)
        found.under_way -= 1
        self._under_way -= 1
        found.refused += was_refused

    def welcome(self, address: str, now: float) -> None:
        """The address showed a token that may do something here."""
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
        """Drops the addresses that were seen the longest ago, but those that wait for a review."""
        for _ in range(AT_ONCE_MAX + 1):
            if len(self.addresses) <= _ADDRESSES_MAX:
                return
            oldest = next(iter(self.addresses))
            if self.addresses[oldest].under_way:
                self.addresses.move_to_end(oldest)
            else:
                del self.addresses[oldest]
