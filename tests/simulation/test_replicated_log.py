"""The log on three replicas: no run loses an entry, and each rule is there because one would."""

import pytest

from qss_core.errors import StoreError
from qss_simulation.replicated_log.broken import BROKEN, FIRST, finding_seed
from qss_simulation.replicated_log.nodes import Guards
from qss_simulation.replicated_log.story import run

pytestmark = pytest.mark.long


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_replicas_agree_and_lose_nothing(first: int) -> None:
    for seed in range(first, first + 500):
        try:
            run(seed, Guards())
        except (AssertionError, StoreError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_is_needed(name: str) -> None:
    assert finding_seed(BROKEN[name], FIRST.get(name, 0)) is not None
