"""The pause of the migration after each step."""

import pytest

from qss_store.replicas.migration_pacing import pause_after


@pytest.mark.parametrize(
    ("step_s", "share", "pause_s"),
    [(0.001, 0.2, 0.004), (0.001, 1.0, 0.0), (0.001, 0.001, 0.999), (30.0, 0.2, 0.2)],
)
def test_a_step_that_waited_long_is_followed_by_a_short_pause(
    step_s: float, share: float, pause_s: float
) -> None:
    assert pause_after(step_s, share) == pytest.approx(pause_s)
