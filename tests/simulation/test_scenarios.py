"""Scenarios that are written as text: each holds, and covers the cases that it names."""

import re

import pytest

from qss_simulation.scenarios.player import all_scenarios, play
from qss_simulation.scenarios.script import Line, Scenario
from qss_simulation.scenarios.seeds import scenarios_with
from qss_testing.plants.planted import ROOT

pytestmark = pytest.mark.long

CASES = [
    *(str(number) for number in (*range(1, 15), *range(26, 49))),
    *(
        f"Pegasus {number}"
        for number in (
            *range(100, 110),
            *range(200, 217),
            *range(300, 307),
            400,
            401,
            *range(601, 604),
        )
    ),
]
SCENARIOS = all_scenarios()


@pytest.mark.parametrize(
    "scenario", SCENARIOS, ids=[f"{one.file}-{one.title.replace(' ', '-')}" for one in SCENARIOS]
)
def test_a_scenario_holds(scenario: Scenario) -> None:
    outcome = play(scenario)
    assert outcome.failure is None, outcome.failure


def test_each_case_is_covered_or_has_a_reason() -> None:
    """The cases are those of the page of the simulation; a scenario names each, or the page."""
    covered = {case.strip() for one in SCENARIOS for case in one.cases.split(",")}
    page = (ROOT / "tests/docs/simulation.md").read_text()
    explained = set(re.findall(r"^\| (\d+|Pegasus \d+) \|", page, re.MULTILINE))
    assert sorted(set(CASES) - covered - explained) == []
    assert explained & covered == set()


def test_the_same_scenario_gives_the_same_trace() -> None:
    assert play(SCENARIOS[0]).digest == play(SCENARIOS[0]).digest


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("the moon is full", "nobody understands"),
        ("now 1 has 3 in sync", "does not hold"),
        ("write 1 batch -> STALE_WRITER", "it succeeds"),
        ("until pod-7 leads 1", "no machine is called"),
    ],
)
def test_a_line_that_does_not_hold_fails_its_scenario(line: str, why: str) -> None:
    scenario = Scenario("made", "up", "none", {}, (Line(1, line),))
    assert why in (play(scenario).failure or "")


@pytest.mark.parametrize(
    ("words", "seed"),
    [
        ("a coordinator that had forgotten a decision drives it", 3),
        ("a replica that has more than its active is kept", 5),
        ("a new active shows what the one before has told", 2),
        ("a pod that lost a partition hears of its next epoch, in which", 5),
        ("a pod deletes a replica only in the epoch that the operator names", 4),
        ("a standby that has yet to apply an entry shows no state as fresh", 2),
        ("a reader goes on at a standby only with the state that it has seen", 2),
        ("a new active answers when it has applied what was acknowledged before", 5),
    ],
)
def test_a_scenario_holds_under_a_seed_that_once_led_elsewhere(words: str, seed: int) -> None:
    (scenario,) = scenarios_with(words)
    outcome = play(scenario, seed)
    assert outcome.failure is None, outcome.failure


def test_words_that_no_title_has_are_refused() -> None:
    with pytest.raises(ValueError, match="no scenario has 'the moon' in its title: give words"):
        scenarios_with("the moon")
