"""Chooses the pause before an ended pod is started again."""

STABLE_AFTER_S = 10.0
_DELAY_MAX_S = 10.0


def failures_after(failures: int, lived_s: float) -> int:
    """The number of quick ends in a row, after one more end."""
    return 1 if lived_s >= STABLE_AFTER_S else failures + 1


def restart_delay_s(failures: int) -> float:
    """0 s after the first end, then 0.5 s, 1 s, 2 s ... up to 10 s."""
    if failures <= 1:
        return 0.0
    # The exponent is limited, since a pod may fail for weeks.
    return float(min(0.5 * 2 ** min(failures - 2, 16), _DELAY_MAX_S))
