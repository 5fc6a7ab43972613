"""How much one scan may still give: rows, bytes and time."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReadBudget:
    """What is left. `deadline` is in seconds of the pod's monotonic clock; None is no limit."""

    rows_left: int | None
    bytes_left: int
    deadline: float

    def spend(self, rows: int, size: int) -> None:
        """Takes rows that were given out, of so many bytes."""
        if self.rows_left is not None:
            self.rows_left -= rows
        self.bytes_left -= size

    def is_spent(self, now: float) -> bool:
        """Whether the answer has to end here."""
        return self.rows_left == 0 or self.bytes_left <= 0 or now >= self.deadline
