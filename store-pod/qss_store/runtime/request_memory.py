"""The memory that requests and their answers may take, over all requests of a pod.

Each request is bounded, and so is how many run; together they could still be more than the pod has.
What a request is about to keep, it takes from here first, and gives back when it has ended.
"""

from qss_core.errors import OverloadedError

DEFAULT_BYTES = 128 * 1024 * 1024


class NoMemoryError(OverloadedError):
    """Other requests have the memory that this one would take, whichever pod it asked."""


class RequestMemory:
    """What is left of it."""

    def __init__(self, bytes_max: int = DEFAULT_BYTES) -> None:
        """All of it is left."""
        self.bytes_max = bytes_max
        self.used = 0

    def share(self) -> "MemoryShare":
        return MemoryShare(self)


class MemoryShare:
    """What one request has taken."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._taken = 0

    def take(self, size: int) -> None:
        """Takes so many bytes. Raises NoMemoryError where others have too much of them."""
        memory = self._memory
        # Alone, a request gets what its own limits allow.
        if memory.used > self._taken and memory.used + size > memory.bytes_max:
            raise NoMemoryError(
                f"{memory.used} bytes of requests and answers are in memory, and {size} more would "
                f"pass {memory.bytes_max}: ask again shortly, or for a stream",
            )
        self.hold(size)

    def take_up_to(self, size: int) -> None:
        """Takes what is missing to so many bytes. Raises NoMemoryError."""
        if size > self._taken:
            self.take(size - self._taken)

    def hold(self, size: int) -> None:
        """Counts bytes that are too few to refuse the request for."""
        self._memory.used += size
        self._taken += size

    def hand_over(self) -> "MemoryShare":
        """All of it, for a task that goes on when the request has ended; this one is empty then."""
        successor = MemoryShare(self._memory)
        successor._taken, self._taken = self._taken, 0
        return successor

    def close(self) -> None:
        """Gives all of it back."""
        self._memory.used -= self._taken
        self._taken = 0
