"""A short siege with a tenth of the callers; `make siege` is the whole one."""

from pathlib import Path

import pytest

from qss_siege.figures import figures_of
from qss_siege.siege import Plan, besiege

pytestmark = pytest.mark.long

LIMIT_BYTES = 640 * 1024 * 1024
PLAN = Plan(limit_bytes=LIMIT_BYTES, seconds=8.0, idle_seconds=1.0, share=0.1)


def test_hostile_callers_of_all_kinds_break_no_bound_of_a_pod_with_a_memory_limit(
    tmp_path: Path,
) -> None:
    outcome = besiege(PLAN, tmp_path)
    assert outcome.under.latencies_s, "good clients have sent requests meanwhile"
    assert set(outcome.hostile) == set(PLAN.kinds)
    broken = [one for one in figures_of(outcome, timed=False) if not one.holds]
    assert not broken, [f"{one.name}: {one.value:g}, {one.detail}" for one in broken]
