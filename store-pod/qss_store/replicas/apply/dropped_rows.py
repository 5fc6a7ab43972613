"""How many rows of recent batches were dropped because they were older than what is kept."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from qss_core.model import Sequence

BATCHES_MAX = 100  # Batches that have dropped rows; older ones are forgotten.
Told = TypeVar("Told", int, Mapping[str, int])


class DroppedRows(Generic[Told]):
    """Dropped rows by batch: a repeated commit is answered like the first one.

    Held in memory only: a batch from before a restart is answered as one that dropped nothing.
    """

    def __init__(self) -> None:
        self._by_sequence: dict[Sequence, Told] = {}

    def keep(self, sequence: Sequence, dropped: Told) -> None:
        """Remembers what a batch dropped; nothing where it dropped nothing."""
        if dropped:
            self._by_sequence[sequence] = dropped
        while len(self._by_sequence) > BATCHES_MAX:
            del self._by_sequence[next(iter(self._by_sequence))]

    def of(self, sequence: Sequence) -> Told | None:
        """What the batch dropped; None where nothing is known."""
        return self._by_sequence.get(sequence)
