"""Plays scenarios under several seeds, on all cores, and says which of them fail."""

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from qss_simulation.scenarios.player import all_scenarios, play
from qss_simulation.scenarios.script import Scenario


def scenarios_with(words: str) -> list[Scenario]:
    """The scenarios with these words in their titles. Raises ValueError where there are none."""
    found = [one for one in all_scenarios() if words in one.title]
    if not found:
        raise ValueError(
            f"no scenario has {words!r} in its title: "
            "give words of a line `scenario: ...` in tests/simulation/scenarios"
        )
    return found


def run(
    scenarios: Sequence[Scenario], seeds: Sequence[int], say: Callable[[str], None], *, stops: bool
) -> int:
    """Plays each scenario under each seed; returns how many of these runs failed.

    It `stops` at the first one that fails.
    """
    runs = list(product(scenarios, seeds))
    failed: list[tuple[Scenario, int]] = []
    with ProcessPoolExecutor(os.cpu_count(), initializer=gc.freeze) as workers:
        for one, failure in zip(runs, workers.map(_failure, runs), strict=False):
            if failure is None:
                continue
            scenario, seed = one
            failed.append(one)
            say(f"scenario {scenario.file}: {scenario.title}: seed {seed}: {failure}")
            if stops:
                workers.shutdown(wait=False, cancel_futures=True)
                break
    if failed:
        scenario, seed = failed[0]
        replay = f'make simulate SCENARIOS="{scenario.title}" REPLAY={seed}'
        say(f"{len(failed)} of {len(runs)} runs of scenarios failed; replay: {replay}")
    else:
        say(f"{len(runs)} runs of scenarios were clean, under the seeds {seeds[0]} to {seeds[-1]}")
    return len(failed)


def replay(scenarios: Sequence[Scenario], seed: int, say: Callable[[str], None]) -> int:
    """Prints the trace of each scenario under one seed; returns how many failed."""
    failed = 0
    for scenario in scenarios:
        outcome = play(scenario, seed)
        failed += outcome.failure is not None
        say("\n".join(outcome.lines))
        say(
            f"scenario {scenario.file}: {scenario.title}: seed {seed}: {outcome.failure or 'clean'}"
        )
    return failed


def _failure(run_of: tuple[Scenario, int]) -> str | None:
    return play(*run_of).failure
