"""An engine whose syncs end when the test lets them."""

import threading

from qss_testing.faults.faulty_engine import JournaledEngine

_DEADLINE_S = 30.0


class SlowSyncEngine(JournaledEngine):
    """A sync covers the writes before its begin, and ends when the test lets it."""

    def __init__(self) -> None:
        self._is_slow = False
        self._may_end = threading.Semaphore(0)
        self.begun = 0
        super().__init__()

    def slow_down(self) -> None:
        """From now on each sync waits for `let_one_end`."""
        self._is_slow = True

    def let_one_end(self) -> None:
        """Lets one sync end, a running one or the next one."""
        self._may_end.release()

    def speed_up(self) -> None:
        """Lets all syncs end, running and later ones."""
        self._is_slow = False
        self._may_end.release(1000)

    def sync(self) -> None:
        """Makes the writes before the call durable."""
        covered = len(self.journal)
        if self._is_slow:
            self.begun += 1
            assert self._may_end.acquire(timeout=_DEADLINE_S), "the test lets no sync end"
        self._durable = max(self._durable, covered)
