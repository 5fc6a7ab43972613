"""What of a new status is told as an event: conditions that turned, or why. Pure."""

from qss_operator.kubernetes.events.rules import EventType
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType, StoreStatus

News = tuple[EventType, str, str]  # Its type, reason, message.

_GOOD_WHEN = {
    ConditionType.READY: ConditionStatus.TRUE,
    ConditionType.DEGRADED: ConditionStatus.FALSE,
}
# A store on its way says these; they are nobody's trouble.
_QUIET = ("PodsStarting", "Hibernated")


def news_of(before: StoreStatus | None, after: StoreStatus) -> list[News]:
    """An event for each condition that people wait for, or should look at."""
    told = [_news(before, after, kind) for kind in _GOOD_WHEN]
    return [one for one in told if one is not None]


def _news(before: StoreStatus | None, after: StoreStatus, kind: ConditionType) -> News | None:
    new = after.condition(kind)
    old = before.condition(kind) if before is not None else None
    if new is None or _said(old) == _said(new):
        return None
    is_bad = new.status is not _GOOD_WHEN[kind]
    if kind is ConditionType.DEGRADED and not is_bad and old is None:
        return None  # A new store is not degraded, which is no news.
    is_warning = is_bad and new.reason not in _QUIET
    return EventType.WARNING if is_warning else EventType.NORMAL, new.reason, new.message


def _said(condition: Condition | None) -> tuple[str, str] | None:
    return (condition.status, condition.reason) if condition is not None else None
