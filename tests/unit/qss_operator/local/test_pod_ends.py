"""The ends of a pod that cannot start are told at the begin, at a new reason, and once a minute."""

from qss_operator.local.pod_ends import ToldEnds, failures_after

ENDED = "ended with exit code 3"


def test_an_end_is_told_at_first_and_then_once_a_minute_with_the_number_of_tries() -> None:
    ends = ToldEnds()
    told = [ends.take(ENDED, "no disk", number, now_s=5.0 * number) for number in range(1, 27)]
    said = [(number, words) for number, words in enumerate(told, 1) if words is not None]
    assert said == [
        (1, f"{ENDED}, restarting; it said last: no disk"),
        (13, f"{ENDED} (tried at least 13 times), restarting; it said last: no disk"),
        (25, f"{ENDED} (tried at least 25 times), restarting; it said last: no disk"),
    ]


def test_another_reason_is_told_at_once_and_another_time_or_pid_is_none() -> None:
    ends = ToldEnds()
    assert ends.take(ENDED, "12:00:01 pid 17: no disk", 1, now_s=0.0)
    assert ends.take(ENDED, "12:00:02 pid 21: no disk", 2, now_s=1.0) is None
    assert ends.take(ENDED, "12:00:03 pid 24: no memory", 3, now_s=2.0)
    assert ends.take("ended with exit code 4", "12:00:04 pid 31: no memory", 4, now_s=3.0)
    assert ends.take("ended with exit code 4", "", 5, now_s=4.0) == (
        "ended with exit code 4 (tried at least 5 times), restarting"
    )


def test_the_end_of_a_pod_that_ran_for_a_while_is_told() -> None:
    ends = ToldEnds()
    assert ends.take(ENDED, "no disk", 1, now_s=0.0)
    assert ends.take(ENDED, "no disk", failures_after(1, lived_s=0.1), now_s=1.0) is None
    assert ends.take(ENDED, "no disk", failures_after(2, lived_s=20.0), now_s=21.0)
