"""The events of a new status: conditions whose status or reason changed. Pure."""

from qss_operator.kubernetes.events.event_limits import EventType
from qss_operator.planning.findings.rebalancing import (
    DRAINING,
    NODE_CORDONED,
    PAUSED,
    WAITING_FOR_PODS,
)
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType, StoreStatus

StatusEvent = tuple[EventType, str, str]  # Its type, reason, message.

_GOOD_WHEN = {
    ConditionType.READY: ConditionStatus.TRUE,
    ConditionType.DEGRADED: ConditionStatus.FALSE,
}
# Events with these reasons are Normal, not Warning: the store starts, or was hibernated.
_QUIET = ("PodsStarting", "Hibernated")
# Other conditions have events for these reasons only.
_TOLD = {
    ConditionType.REBALANCING: {NODE_CORDONED: EventType.NORMAL},
    ConditionType.SCALE_DOWN_BLOCKED: {
        DRAINING: EventType.NORMAL,
        PAUSED: EventType.WARNING,
        WAITING_FOR_PODS: EventType.WARNING,
    },
}


def events_of(before: StoreStatus | None, after: StoreStatus) -> list[StatusEvent]:
    """An event for each change of the conditions Ready and Degraded, and for some of others."""
    told = [_event(before, after, kind) for kind in _GOOD_WHEN]
    told += [_event_of_reason(before, after, kind) for kind in _TOLD]
    return [one for one in told if one is not None]


def _event_of_reason(
    before: StoreStatus | None, after: StoreStatus, kind: ConditionType
) -> StatusEvent | None:
    new = after.condition(kind)
    old = before.condition(kind) if before is not None else None
    if new is None or _said(old) == _said(new) or new.reason not in _TOLD[kind]:
        return None
    return _TOLD[kind][new.reason], new.reason, new.message


def _event(
    before: StoreStatus | None, after: StoreStatus, kind: ConditionType
) -> StatusEvent | None:
    new = after.condition(kind)
    old = before.condition(kind) if before is not None else None
    if new is None or _said(old) == _said(new):
        return None
    is_bad = new.status is not _GOOD_WHEN[kind]
    if kind is ConditionType.DEGRADED and not is_bad and old is None:
        return None  # Every new store begins without being degraded.
    is_warning = is_bad and new.reason not in _QUIET
    return EventType.WARNING if is_warning else EventType.NORMAL, new.reason, new.message


def _said(condition: Condition | None) -> tuple[str, str] | None:
    return (condition.status, condition.reason) if condition is not None else None
