"""The waits of `qss up --detach`, its words meanwhile, and the time at which it gives up."""

from collections.abc import Callable, Iterator

import pytest

from qss_core.model import StoreName
from qss_operator.errors import StartFailedError
from qss_operator.local.run import wait_for_pods, wait_until_ready
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType, StoreStatus
from qss_testing.fakes.virtual_time import VirtualTimeLoop

WORDS = StoreName("words")
Read = Callable[[], dict[StoreName, StoreStatus]]


@pytest.fixture
def loop() -> Iterator[VirtualTimeLoop]:
    made = VirtualTimeLoop()
    yield made
    made.close()


def status(reason: str, message: str, ready: str = "0/2") -> StoreStatus:
    is_ready = reason == "Serving"
    condition = Condition(
        type=ConditionType.READY,
        status=ConditionStatus.TRUE if is_ready else ConditionStatus.FALSE,
        reason=reason,
        message=message,
        last_transition_time="2026-11-26T12:00:00Z",
        observed_generation=1,
    )
    return StoreStatus(ready=ready, conditions=(condition,))


def after(loop: VirtualTimeLoop, *statuses: tuple[float, StoreStatus]) -> Read:
    """Reads the last of the statuses whose second has come."""

    def read() -> dict[StoreName, StoreStatus]:
        return {WORDS: [one for second, one in statuses if second <= loop.time()][-1]}

    return read


STARTING = status("PodsStarting", "no pod answers")
SERVING = status("Serving", "all is served", ready="2/2")


def test_what_it_waits_for_is_told_after_two_seconds_at_a_change_and_every_ten(
    loop: VirtualTimeLoop,
) -> None:
    opening = status("PodsStarting", "one pod answers")
    told: list[tuple[int, str]] = []
    read = after(loop, (0, STARTING), (1, opening), (5, STARTING), (30, SERVING))
    work = wait_until_ready(read, 60.0, lambda said: told.append((round(loop.time()), said)))
    loop.run_until_complete(work)
    assert told == [
        (2, "words: PodsStarting: one pod answers"),
        (5, "words: PodsStarting: no pod answers"),
        (15, "words: PodsStarting: no pod answers"),
        (25, "words: PodsStarting: no pod answers"),
    ]


def test_wrong_settings_of_the_pods_end_the_wait_soon_with_their_words(
    loop: VirtualTimeLoop,
) -> None:
    wrong = status(
        "PodsFailing", "words-0 ended with exit code 2, of wrong settings; it said last: QSS_X?"
    )
    with pytest.raises(StartFailedError, match=r"it said last: QSS_X\?"):
        loop.run_until_complete(wait_until_ready(after(loop, (0, STARTING), (3, wrong)), 60.0))
    assert loop.time() < 5


@pytest.mark.parametrize("reason", ["ReplicaFailed", "AssignmentRefused"])
def test_a_schema_that_databases_refuse_ends_the_wait(loop: VirtualTimeLoop, reason: str) -> None:
    wrong = status(reason, "the data on this volume was written with spec.partitions 6, not 5: ...")
    with pytest.raises(StartFailedError, match=r"spec\.partitions 6, not 5"):
        loop.run_until_complete(wait_until_ready(after(loop, (0, STARTING), (3, wrong)), 60.0))
    assert 8 <= loop.time() < 9
    # A pod refuses the older assignment on its volume, and gets the one of the right file.
    wait = wait_until_ready(after(loop, (0, wrong), (loop.time() + 4, SERVING)), 60.0)
    loop.run_until_complete(wait)


def test_pods_without_which_a_store_serves_are_waited_for_and_then_named(
    loop: VirtualTimeLoop,
) -> None:
    one = status("Serving", "all is served", ready="1/2")
    told: list[str] = []
    whole = wait_for_pods(after(loop, (0, one), (6, SERVING)), 10.0, told.append)
    assert loop.run_until_complete(whole) == []
    assert told == ["words: 1 of 2 pods are ready"]
    began_s = loop.time()
    late = wait_for_pods(after(loop, (0, one)), 10.0)
    assert loop.run_until_complete(late) == ["words: 1 of 2 pods are ready"]
    assert 10 <= loop.time() - began_s < 11


def test_a_store_with_all_of_its_pods_is_not_waited_for(loop: VirtualTimeLoop) -> None:
    assert loop.run_until_complete(wait_for_pods(after(loop, (0, SERVING)), 10.0)) == []
    assert loop.time() == 0
