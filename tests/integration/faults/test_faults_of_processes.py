"""A short form of `make test-faults`, and the rules by which it judges answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qss_faults.content import content_of
from qss_faults.history import KINDS, SHARED_KEYS, Answer, Batches, History, compare, judge, once
from qss_faults.plan import ALL, CONTENTS, KEY_VALUE, Kind, plan_of
from qss_faults.run import run_plan

KINDS_OF_FAULTS = (Kind.TORN_WAL, Kind.DRIVER, Kind.PAUSE)
PARTITIONS = 4


@pytest.mark.long
def test_torn_wals_a_new_run_and_a_pause_cost_no_acknowledged_batch(tmp_path: Path) -> None:
    plan = replace(plan_of(2, KINDS_OF_FAULTS, pods=3), lease_s=1.0, silent_s=2.0)
    said: list[str] = []
    outcome = run_plan(plan, tmp_path, said.append)
    assert outcome.holds, [*outcome.history.traces, outcome.stuck, *said]
    assert set(outcome.struck) == set(KINDS_OF_FAULTS)
    assert outcome.client.reads > 0
    assert outcome.compared_rows > 0


def test_a_seed_chooses_the_same_faults_each_time() -> None:
    assert plan_of(7) == plan_of(7)
    assert plan_of(7).faults != plan_of(8).faults
    assert {fault.kind for fault in plan_of(7).faults} == set(ALL)


@pytest.mark.parametrize("name", CONTENTS)
def test_points_scans_and_the_last_check_expect_the_same_rows(name: str) -> None:
    batches = Batches(PARTITIONS)
    content = content_of(name, batches)
    for partition in range(PARTITIONS):
        rows = content.rows_at(partition, 20)
        assert content.queried(partition, 20, 20).items() <= rows.items()
        for number, key in enumerate(batches.shared[partition]):
            assert content.expected(key, number, 20, 20).items() <= rows.items()
    whole = [content.rows_at(partition, 20) for partition in range(PARTITIONS)]
    keys = 21 + PARTITIONS * (SHARED_KEYS if name == KEY_VALUE else 21)
    assert sum(map(len, whole)) == keys


def history() -> History:
    """A history of ten acknowledged batches, and one that was begun."""
    return History(Batches(PARTITIONS), begun=10, acknowledged=9)


def answer(**changes: Any) -> Answer:
    whole = Answer(by="reader", partition=1, batch=9, sequence=10, least=9, seen=9)
    return replace(whole, **changes)


def broken(found: History) -> set[str]:
    return {kind for kind in KINDS if found.broken[kind]}


def test_an_answer_of_all_batches_up_to_its_position_is_right() -> None:
    found = history()
    rows = found.batches.rows_at(1, 9)
    judge(found, answer(), rows, dict(rows))
    judge(found, answer(batch=10, sequence=11), {}, {})
    assert broken(found) == set()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"batch": 8, "sequence": 9, "seen": 8}, "lost"),
        ({"batch": 8, "sequence": 9, "least": -1}, "regressed"),
        ({"sequence": 11}, "doubled"),
        ({"sequence": 9}, "lost"),
        ({"batch": 11, "sequence": 12}, "false"),
    ],
)
def test_an_answer_with_a_wrong_position_or_sequence_is_found(
    changes: dict[str, int], kind: str
) -> None:
    found = history()
    judge(found, answer(**changes), {}, {})
    assert broken(found) == {kind}


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "lost"), (1, "lost"), (3, "false")], ids=["none", "old", "new"]
)
def test_a_row_that_the_position_does_not_explain_is_found(value: int | None, kind: str) -> None:
    found = history()
    compare(found, "reader", {"key": 2}, {} if value is None else {"key": value})
    assert broken(found) == {kind}


def test_rows_that_no_batch_wrote_or_that_come_twice_are_found() -> None:
    found = history()
    compare(found, "reader", {}, {"key": 2})
    assert broken(found) == {"false"}
    once(found, "reader", [("key", 2), ("key", 2)])
    assert broken(found) == {"false", "doubled"}
