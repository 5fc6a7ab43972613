"""Limits the memory of all requests of a pod together.

Each request is limited, and so is the number of requests; together they could still exceed the
pod's memory. So a request takes memory from here before it uses it, and gives it back at its end.
"""

from qss_core.errors import OverloadedError

DEFAULT_BYTES = 128 * 1024 * 1024


class NoMemoryError(OverloadedError):
    """Other requests hold the memory that this request needs, on this pod or on another one."""


class RequestMemory:
    """The memory that requests may still take."""

    def __init__(self, bytes_max: int = DEFAULT_BYTES) -> None:
        """At first all of it is free."""
        self.bytes_max = bytes_max
        self.used = 0

    def share(self) -> "MemoryShare":
        return MemoryShare(self)


class MemoryShare:
    """The memory of one request."""

    def __init__(self, memory: RequestMemory) -> None:
        self._memory = memory
        self._taken = 0

    def take(self, size: int) -> None:
        """Takes so many bytes. Raises NoMemoryError if other requests hold too many."""
        memory = self._memory
        # A request without others gets all that its own limits allow.
        if memory.used > self._taken and memory.used + size > memory.bytes_max:
            raise NoMemoryError(
                f"{memory.used} bytes of requests and answers are in memory, and {size} more would "
                f"pass {memory.bytes_max}: ask again shortly, or for a stream",
            )
        self.hold(size)

    def take_up_to(self, size: int) -> None:
        """Takes bytes until the request holds `size`. Raises NoMemoryError."""
        if size > self._taken:
            self.take(size - self._taken)

    def hold(self, size: int) -> None:
        """Counts a few bytes, for which no request is refused."""
        self._memory.used += size
        self._taken += size

    def hand_over(self) -> "MemoryShare":
        """Moves all of it to a new share, for a task that continues after the request."""
        successor = MemoryShare(self._memory)
        successor._taken, self._taken = self._taken, 0
        return successor

    def close(self) -> None:
        self._memory.used -= self._taken
        self._taken = 0
