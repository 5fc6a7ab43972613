"""The status of a store that the operator refuses, or fails to reconcile. Pure."""

import msgspec

from qss_core.errors import StoreError
from qss_operator.errors import reason_of
from qss_operator.planning.model import ConditionStatus, ConditionType, Finding, StoreStatus


def refused_status(
    status: StoreStatus | None, generation: int, reason: str, message: str, now: str
) -> StoreStatus:
    """The status of a refused store: neither Ready nor Progressing, for this reason."""
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
    """The status of a store that the operator could not observe because of an error."""
    reason = reason_of(error)
    is_made = status is not None and status.assignment is not None
    # A store that never got an assignment does not serve. A store that had one may still serve.
    ready = ConditionStatus.UNKNOWN if is_made else ConditionStatus.FALSE
    return _with(
        status,
        generation,
        now,
        {
            ConditionType.READY: (ready, reason, error.message),
            ConditionType.DEGRADED: (ConditionStatus.TRUE, reason, error.message),
        },
    )


def _with(
    status: StoreStatus | None,
    generation: int,
    now: str,
    findings: dict[ConditionType, Finding],
) -> StoreStatus:
    before = status or StoreStatus()
    conditions = {one.type: one for one in before.conditions or ()}
    conditions |= {
        kind: before.dated(kind, finding, generation, now) for kind, finding in findings.items()
    }
    return msgspec.structs.replace(
        before, observed_generation=generation, conditions=tuple(conditions.values())
    )
