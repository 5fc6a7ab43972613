"""The status of a store that the operator does nothing for, or not what it should. Pure."""

import msgspec

from qss_core.errors import StoreError
from qss_operator.planning.model import Condition, ConditionStatus, ConditionType, StoreStatus

_MESSAGE_CHARS_MAX = 1024


def refused_status(
    status: StoreStatus | None, generation: int, reason: str, message: str, now: str
) -> StoreStatus:
    """Not ready, for this reason, and not on its way."""
    no = ConditionStatus.FALSE
    return _with(
        status,
        generation,
        now,
        {
            ConditionType.READY: (no, reason, message),
            ConditionType.PROGRESSING: (no, reason, message),
        },
    )


def troubled_status(
    status: StoreStatus | None, generation: int, error: StoreError, now: str
) -> StoreStatus:
    """What was true before, and that the operator cannot go on."""
    reason = "".join(word.capitalize() for word in error.code.split("_"))
    yes = ConditionStatus.TRUE
    return _with(status, generation, now, {ConditionType.DEGRADED: (yes, reason, error.message)})


def _with(
    status: StoreStatus | None,
    generation: int,
    now: str,
    findings: dict[ConditionType, tuple[ConditionStatus, str, str]],
) -> StoreStatus:
    before = status or StoreStatus()
    conditions = {one.type: one for one in before.conditions or ()}
    for kind, (value, reason, message) in findings.items():
        old = conditions.get(kind)
        conditions[kind] = Condition(
            type=kind,
            status=value,
            reason=reason,
            message=message[:_MESSAGE_CHARS_MAX],
            last_transition_time=old.last_transition_time if old and old.status is value else now,
            observed_generation=generation,
        )
    return msgspec.structs.replace(
        before, observed_generation=generation, conditions=tuple(conditions.values())
    )
