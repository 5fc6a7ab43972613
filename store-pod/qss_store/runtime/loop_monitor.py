"""Decides how often a pod checks its event loop for stalls: more often while the pod works.

A check wakes the process, which takes 0.1 ms: a hundred checks a second take a hundredth of a core.
A stall makes the next check late. A stall that begins during a sleep of `REST_TICK_S` is reported
up to `REST_TICK_S` shorter than it was.
"""

WORK_TICK_S = 0.01
REST_TICK_S = 0.05
AWAKE_S = 1.0  # The pod checks every WORK_TICK_S for so long after the last work.
_WORK_SHARE = 0.1  # CPU share since the last check that counts as work; checks take less.


class LoopMonitor:
    """Chooses the next sleep by the CPU time that the process used since the last check."""

    def __init__(self, now_s: float, cpu_s: float) -> None:
        """`now_s` only grows; `cpu_s` is the CPU time of the process so far."""
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._awake_until_s = now_s + AWAKE_S

    def next_tick_s(self, now_s: float, cpu_s: float) -> float:
        """Seconds until the next check."""
        if cpu_s - self._cpu_s > _WORK_SHARE * (now_s - self._now_s):
            self._awake_until_s = now_s + AWAKE_S
        self._now_s, self._cpu_s = now_s, cpu_s
        return WORK_TICK_S if now_s < self._awake_until_s else REST_TICK_S
