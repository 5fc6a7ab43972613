"""A pod checks its event loop often while it works, and seldom while it rests."""

from qss_store.runtime.loop_monitor import AWAKE_S, REST_TICK_S, WORK_TICK_S, LoopMonitor


def test_a_pod_that_works_is_looked_at_often_and_one_that_rests_seldom() -> None:
    monitor = LoopMonitor(100.0, 7.0)
    assert monitor.next_tick_s(100.01, 7.0) == WORK_TICK_S, "it has just begun"
    rested_s = 100.02 + AWAKE_S
    assert monitor.next_tick_s(rested_s, 7.01) == REST_TICK_S
    worked_s = rested_s + REST_TICK_S
    assert monitor.next_tick_s(worked_s, 7.016) == WORK_TICK_S, "12 % of the time since then"
    assert monitor.next_tick_s(worked_s + AWAKE_S - 0.01, 7.02) == WORK_TICK_S
    assert monitor.next_tick_s(worked_s + AWAKE_S, 7.02) == REST_TICK_S
    # The looks themselves take 0.1 ms each and do not count as work.
    assert monitor.next_tick_s(worked_s + AWAKE_S + REST_TICK_S, 7.0201) == REST_TICK_S
