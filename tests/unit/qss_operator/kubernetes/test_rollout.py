"""Restarts after a change of the pod template: one pod at a time, and only while others serve."""

from qss_operator.kubernetes.objects.rollout import PAUSED, ROLLING_UPDATE, Candidate, plan_rollout
from qss_operator.planning.model import ConditionStatus


def pod(
    number: int, *, old: bool = False, serves: bool = True, is_leaving: bool = False
) -> Candidate:
    return Candidate(
        name=f"words-{number}",
        uid=f"uid-{number}",
        is_current=not old,
        is_leaving=is_leaving,
        serves=serves,
    )


def test_nothing_is_restarted_where_every_pod_is_current() -> None:
    rollout = plan_rollout([pod(0), pod(1, serves=False)], 2, is_paused=False)
    assert (rollout.restart, rollout.finding) == (None, None)


def test_the_highest_ordinal_goes_first() -> None:
    rollout = plan_rollout([pod(n, old=True) for n in range(3)], 3, is_paused=False)
    assert rollout.restart is not None
    assert rollout.restart.name == "words-2"
    assert rollout.finding is not None
    assert rollout.finding[:2] == (ConditionStatus.TRUE, ROLLING_UPDATE)
    assert "0 of 3 pods have the new template; restarting words-2" in rollout.finding[2]


def test_the_next_one_waits_until_the_last_one_serves() -> None:
    pods = [pod(0, old=True), pod(1, old=True), pod(2, serves=False)]
    rollout = plan_rollout(pods, 3, is_paused=False)
    assert rollout.restart is None
    assert rollout.finding is not None
    assert "rule EveryOtherPodServes: waiting for words-2" in rollout.finding[2]


def test_a_pod_that_is_stopping_or_missing_is_waited_for() -> None:
    leaving = [pod(0, old=True), pod(1, old=True, is_leaving=True)]
    missing = [pod(0, old=True)]
    for pods in (leaving, missing):
        assert plan_rollout(pods, 2, is_paused=False).restart is None


def test_a_broken_old_pod_goes_first_also_while_others_do_not_serve() -> None:
    pods = [pod(0, old=True), pod(1, old=True, serves=False), pod(2, serves=False)]
    rollout = plan_rollout(pods, 3, is_paused=False)
    assert rollout.restart is not None
    assert rollout.restart.name == "words-1"


def test_a_pause_keeps_pods_as_they_are_and_says_so() -> None:
    rollout = plan_rollout([pod(0), pod(1, old=True)], 2, is_paused=True)
    assert rollout.restart is None
    assert rollout.finding is not None
    assert rollout.finding[:2] == (ConditionStatus.FALSE, PAUSED)
    assert "1 of 2 pods have the new template" in rollout.finding[2]
