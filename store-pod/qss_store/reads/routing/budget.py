"""The rows, bytes and time that a scan may still use."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReadBudget:
    """The limits left to a scan; None: no limit. `deadline` is a time of the monotonic clock."""

    rows_left: int | None
    bytes_left: int
    deadline: float

    def spend(self, rows: int, size: int) -> None:
        """Subtracts rows that were returned, with their bytes."""
        if self.rows_left is not None:
            self.rows_left -= rows
        self.bytes_left -= size

    def is_spent(self, now: float) -> bool:
        """Whether the answer has to end here."""
        return self.rows_left == 0 or self.bytes_left <= 0 or now >= self.deadline
