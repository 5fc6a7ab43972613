"""A thread that ends the process where it may not lead any more and its event loop stands still."""

import threading
from collections.abc import Callable
from typing import Self

from qss_client.clock import Clock

_LOST = "ran out while the event loop was blocked"


class Watchdog:
    """Looks at the time until which the process may lead, from outside the event loop."""

    def __init__(
        self,
        held_until_s: Callable[[], float | None],
        *,
        clock: Clock,
        on_lost: Callable[[str], None],
        grace_s: float = 1.0,
        interval_s: float = 0.5,
    ) -> None:
        """Ends the process `grace_s` after the renew deadline, which the event loop has to itself.

        Deadline and grace together are shorter than the lease.
        """
        self._held_until_s = held_until_s
        self._clock = clock
        self._on_lost = on_lost
        self._grace_s = grace_s
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            until_s = self._held_until_s()
            if until_s is not None and self._clock.monotonic_s() > until_s + self._grace_s:
                self._on_lost(_LOST)
                return
