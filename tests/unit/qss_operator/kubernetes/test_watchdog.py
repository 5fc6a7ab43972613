"""The thread that acts when the event loop is blocked."""

import threading

from qss_operator.kubernetes.leadership.watchdog import Watchdog
from qss_testing.fakes.virtual_time import SetClock


def test_a_lease_that_ran_out_is_lost_without_the_event_loop() -> None:
    lost = threading.Event()
    clock, seconds = SetClock(), iter([10.0, 10.9, 11.1])

    def held_until_s() -> float:
        clock.now_s = next(seconds)
        return 10.0

    watchdog = Watchdog(
        held_until_s,
        clock=clock,
        on_lost=lambda _: lost.set(),
        grace_s=1.0,
        interval_s=0.001,
    )
    with watchdog:
        assert lost.wait(10)
    assert next(seconds, None) is None


def test_what_is_not_held_is_not_lost() -> None:
    looks = threading.Semaphore(0)
    lost: list[str] = []

    def held_until_s() -> None:
        looks.release()

    watchdog = Watchdog(held_until_s, clock=SetClock(1e9), on_lost=lost.append, interval_s=0.001)
    with watchdog:
        assert looks.acquire(timeout=10)
        assert looks.acquire(timeout=10)
    assert lost == []
