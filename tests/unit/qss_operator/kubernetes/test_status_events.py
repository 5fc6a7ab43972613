"""Changes of a status that become events."""

from qss_operator.kubernetes.events.event_limits import EventType
from qss_operator.kubernetes.events.status_events import events_of
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType, StoreStatus

YES, NO = ConditionStatus.TRUE, ConditionStatus.FALSE


def status(
    ready: tuple[ConditionStatus, str], degraded: tuple[ConditionStatus, str] = (NO, "Healthy")
) -> StoreStatus:
    said = {ConditionType.READY: ready, ConditionType.DEGRADED: degraded}
    return StoreStatus(
        conditions=tuple(
            Condition(
                type=kind,
                status=value,
                reason=reason,
                message=f"because of {reason}",
                last_transition_time="2026-11-21T00:00:00Z",
                observed_generation=1,
            )
            for kind, (value, reason) in said.items()
        )
    )


def test_a_store_that_begins_to_serve_is_told_once() -> None:
    starting, serving = status((NO, "PodsStarting")), status((YES, "Serving"))
    told = [(EventType.NORMAL, "Serving", "because of Serving")]
    assert events_of(starting, serving) == told
    assert events_of(serving, serving) == []


def test_a_new_store_is_no_warning() -> None:
    assert events_of(None, status((NO, "PodsStarting"))) == [
        (EventType.NORMAL, "PodsStarting", "because of PodsStarting")
    ]


def test_trouble_is_a_warning_and_its_end_is_not() -> None:
    well, ill = status((YES, "Serving")), status((NO, "PodsFailing"), (YES, "PodsFailing"))
    assert [kind for kind, _, _ in events_of(well, ill)] == [EventType.WARNING] * 2
    assert events_of(ill, well) == [
        (EventType.NORMAL, "Serving", "because of Serving"),
        (EventType.NORMAL, "Healthy", "because of Healthy"),
    ]


def test_another_message_of_the_same_reason_is_no_news() -> None:
    one = status((NO, "PodsFailing"))
    other = status((NO, "PodsFailing"))
    assert events_of(one, other) == []


def test_not_to_know_is_a_warning() -> None:
    unknown = (ConditionStatus.UNKNOWN, "Forbidden")
    told = events_of(status((YES, "Serving")), status(unknown))
    assert told == [(EventType.WARNING, "Forbidden", "because of Forbidden")]
