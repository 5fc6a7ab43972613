"""Asks the pods of a running store how far its standbys and learners are behind."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from qss_client.http.sync_http import SyncHttp
from qss_core.errors import StoreError
from qss_core.model import Role, StoreName
from qss_operator.planning.model import PodEndpoints

_TIMEOUT_S = 0.5


class _Lag(msgspec.Struct, rename="camel"):
    role: Role
    lag_offsets: int
    lag_seconds: float | None


class _Lags(msgspec.Struct):
    ordinal: int
    partitions: dict[str, _Lag]


class _Behind(NamedTuple):
    """The lag of one replica; the largest of several has most entries left."""

    entries: int
    seconds: float | None  # None where the replica was not level since it started.
    partition: str
    pod: int


def lags_told(store: StoreName, pods: Iterable[PodEndpoints]) -> list[str]:
    """A line for the standbys and one for the learners; none for a role without a replica.

    Pods that do not answer within half a second are left out.
    """
    http, found = SyncHttp(), list[_Lags]()
    for pod in pods:
        try:
            answer = http.request("GET", f"{pod.query}/state/lags/{store}", timeout_s=_TIMEOUT_S)
            found.append(msgspec.json.decode(answer.body, type=_Lags))
        except (StoreError, msgspec.DecodeError):
            continue
    http.close()
    return [line for role in (Role.STANDBY, Role.LEARNER) for line in _told(role, found)]


def _told(role: Role, found: Iterable[_Lags]) -> list[str]:
    behind = [
        _Behind(lag.lag_offsets, lag.lag_seconds, partition, one.ordinal)
        for one in found
        for partition, lag in one.partitions.items()
        if lag.role is role
    ]
    if not behind:
        return []
    most = max(behind, key=lambda one: one.entries)
    level = [one.seconds for one in behind if one.seconds is not None]
    left = "every entry applied"
    if most.entries:
        where = f"partition {most.partition} on pod {most.pod}"
        left = f"at most {most.entries} entries to apply ({where})"
    late = [f"at most {max(level):.1f} s behind their actives"] if level else []
    if missing := len(behind) - len(level):
        late.append(f"{missing} not level with {'its' if missing == 1 else 'their'} active yet")
    return [f"{role.lower()}s: {', '.join([left, *late])}"]
