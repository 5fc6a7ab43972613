"""Tells the senders of a pod that there is something to send."""

from collections.abc import Callable


def _ignore() -> None:
    """Stands in for senders that are not connected yet."""


class SendSignal:
    """Calls the connected senders; a pod without senders sends nothing."""

    def __init__(self) -> None:
        self._wake: Callable[[], None] = _ignore
        self._assigned: Callable[[], None] = _ignore

    def connect(self, wake: Callable[[], None], assigned: Callable[[], None]) -> None:
        """Has `wake` called at each append, and `assigned` at each new assignment."""
        self._wake, self._assigned = wake, assigned

    def wake(self) -> None:
        """An active has appended entries, or its watermark has risen."""
        self._wake()

    def assigned(self) -> None:
        """The pod has taken an assignment."""
        self._assigned()
