"""The trace of a run: what happened, when and where. The same seed gives the same trace."""

import hashlib

from qss_simulation.parts.seeded_loop import SeededLoop, current_node


class Trace:
    """The lines of one run."""

    def __init__(self, loop: SeededLoop) -> None:
        self._loop = loop
        self.lines: list[str] = []
        self.counts: dict[str, int] = {}

    def note(self, what: str, detail: str = "") -> None:
        """Adds a line, and counts what happened."""
        self.counts[what] = self.counts.get(what, 0) + 1
        self.lines.append(f"{self._loop.now_s:11.6f} {current_node():12} {what} {detail}".rstrip())

    def digest(self) -> str:
        """Equal for runs in which the same happened."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]
