"""The memory that requests and their answers may take, over all requests of a pod.

Each request is bounded, and so is how many run; together they could still be more than the pod has.
What a request is about to keep, it takes from here first, and gives back when it has ended.
"""

from pathlib import Path

from qss_core.errors import OverloadedError

_SHARE = 5  # Of the pod's memory: a fifth.
_LEAST_BYTES = 128 * 1024 * 1024
_MOST_BYTES = 1024 * 1024 * 1024
# Of a control group: version 2, version 1.
_LIMIT_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_NO_LIMIT_BYTES = 2**60


class RequestMemory:
    """What is left of it."""

    def __init__(self, bytes_max: int = _LEAST_BYTES) -> None:
        """All of it is left."""
        self.bytes_max = bytes_max
        self.used = 0

    def share(self) -> "MemoryShare":
        """One request's, empty."""
        return MemoryShare(self)


class MemoryShare:
    """What one request has taken."""

    def __init__(self, memory: RequestMemory) -> None:
        """Nothing yet."""
        self._memory = memory
        self._taken = 0

    def take(self, size: int) -> None:
        """Takes so many bytes. Raises OverloadedError where others have too much of them."""
        memory = self._memory
        # Alone, a request gets what its own limits allow.
        if memory.used > self._taken and memory.used + size > memory.bytes_max:
            raise OverloadedError(
                f"{memory.used} bytes of requests and answers are in memory, and {size} more would "
                f"pass {memory.bytes_max}: ask again shortly, or for a stream",
            )
        memory.used += size
        self._taken += size

    def close(self) -> None:
        """Gives all of it back."""
        self._memory.used -= self._taken
        self._taken = 0


def bytes_for_requests(told: int) -> int:
    """What the setting says; where it says 0, a share of what the pod has."""
    if told:
        return told
    return min(_MOST_BYTES, max(_LEAST_BYTES, memory_limit() // _SHARE))


def memory_limit() -> int:
    """The bytes that the process may have: those of its control group, or of the machine."""
    for file in _LIMIT_FILES:
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):
            continue  # There is none, or it says `max`.
        if limit < _NO_LIMIT_BYTES:
            return limit
    try:
        (total,) = (
            line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line
        )
        return int(total.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return _LEAST_BYTES * _SHARE
