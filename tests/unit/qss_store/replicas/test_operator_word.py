"""A pod keeps the conditions that it was told, within limits, with their age."""

from qss_core.wire.conditions import StoreCondition, ToldConditions
from qss_store.replicas.report import OperatorWord, newest_of
from qss_testing.fakes.virtual_time import SetClock


def condition(kind: str = "Ready", message: str = "all 6 partitions are served") -> StoreCondition:
    return StoreCondition(
        type=kind,
        status="True",
        reason="Serving",
        message=message,
        last_transition_time="2026-11-27T12:00:00Z",
    )


def test_conditions_have_the_age_of_their_message_and_of_the_last_request() -> None:
    clock = SetClock()
    word = OperatorWord(clock)
    word.hear()
    assert word.told() is None
    word.keep([condition()])
    clock.now_s += 7
    word.hear()
    clock.now_s += 2
    told = ToldConditions(conditions=(condition(),), told_ago_s=9.0, operator_silent_s=2.0)
    assert word.told() == told
    word.keep([condition(message="5 of 6 partitions are served")])
    newer = word.told()
    assert newer is not None
    assert (newer.told_ago_s, newer.operator_silent_s) == (0.0, 0.0)
    assert [one.message for one in newer.conditions] == ["5 of 6 partitions are served"]


def test_many_and_long_conditions_are_cut() -> None:
    word = OperatorWord(SetClock())
    word.keep(condition("x" * 5000, "y" * 5000) for _ in range(100))
    told = word.told()
    assert told is not None
    assert len(told.conditions) == 20
    assert {(len(one.type), len(one.message)) for one in told.conditions} == {(128, 2048)}
    assert told.conditions[0].reason == "Serving"


def test_of_several_pods_the_one_that_was_told_last_is_believed() -> None:
    old = ToldConditions(conditions=(), told_ago_s=90.0, operator_silent_s=1.0)
    new = ToldConditions(conditions=(condition(),), told_ago_s=3.0, operator_silent_s=2.0)
    found = newest_of([None, old, new])
    assert found is not None
    assert found.conditions == (condition(),)
    assert (found.told_ago_s, found.operator_silent_s) == (3.0, 1.0)
    assert newest_of([None, None]) is None
