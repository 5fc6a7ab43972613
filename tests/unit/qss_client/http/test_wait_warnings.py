"""The times at which a client warns that it waits for an answer."""

from qss_client.http.wait_warnings import TELL_AGAIN_S, WaitWarnings, WarnedWait


def test_a_wait_is_told_after_2_s_and_then_every_5_s() -> None:
    telling = WaitWarnings.begun(100.0)
    looks = [100.0 + tick / 4 for tick in range(60)]
    assert [now_s for now_s in looks if telling.take_if_due(now_s)] == [102.0, 107.0, 112.0]
    assert TELL_AGAIN_S == 5.0


def test_the_words_say_for_how_long_and_for_whom() -> None:
    telling = WaitWarnings.begun(100.0)
    asked = WarnedWait(telling, "http://127.0.0.1:8080/state/stores/words/a?x=1", 115.0)
    assert asked.words(102.2) == (
        "no answer for 2 s: waiting for http://127.0.0.1:8080 for up to 13 s more"
    )
    assert WarnedWait(telling, "kubectl", 103.0).words(107.0) == (
        "no answer for 7 s: waiting for kubectl"
    )
