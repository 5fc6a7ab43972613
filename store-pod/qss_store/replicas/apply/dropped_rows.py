"""Keeps the number of rows that retention dropped from each recent batch, or hides from readers."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from qss_core.model import Sequence

BATCHES_MAX = 100  # Batches with dropped rows; older batches are forgotten.
Dropped = TypeVar("Dropped", int, Mapping[str, int])


class DroppedRows(Generic[Dropped]):
    """Dropped rows by batch: a repeated commit gets the answer of the first commit.

    The numbers are in memory only: after a restart earlier batches count as without dropped rows.
    """

    def __init__(self) -> None:
        self._by_sequence: dict[Sequence, Dropped] = {}

    def keep(self, sequence: Sequence, dropped: Dropped) -> None:
        """Keeps the dropped rows of a batch, if there are some."""
        if dropped:
            self._by_sequence[sequence] = dropped
        while len(self._by_sequence) > BATCHES_MAX:
            del self._by_sequence[next(iter(self._by_sequence))]

    def of(self, sequence: Sequence) -> Dropped | None:
        """The dropped rows of a batch; None where none are known."""
        return self._by_sequence.get(sequence)
