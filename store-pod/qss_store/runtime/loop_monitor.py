"""How often a pod looks whether its event loop stands still: often while it works.

A look wakes the process, which costs 0.1 ms: a hundred a second are a hundredth of a core, for
nothing while there is no work that could hold the loop up. A stall is found by the look that comes
too late, so one that ends a rest is told up to `REST_TICK_S` too short.
"""

WORK_TICK_S = 0.01
REST_TICK_S = 0.05
AWAKE_S = 1.0  # After the last work.
_WORK_SHARE = 0.1  # Of the time since the last look; looks and reports take less.


class LoopMonitor:
    """What the process did between two looks says when the next one comes."""

    def __init__(self, now_s: float, cpu_s: float) -> None:
        """`now_s` only grows; `cpu_s` is the CPU time of the process so far."""
        self._now_s = now_s
        self._cpu_s = cpu_s
        self._awake_until_s = now_s + AWAKE_S

    def next_tick_s(self, now_s: float, cpu_s: float) -> float:
        """Seconds to the next look."""
        if cpu_s - self._cpu_s > _WORK_SHARE * (now_s - self._now_s):
            self._awake_until_s = now_s + AWAKE_S
        self._now_s, self._cpu_s = now_s, cpu_s
        return WORK_TICK_S if now_s < self._awake_until_s else REST_TICK_S
