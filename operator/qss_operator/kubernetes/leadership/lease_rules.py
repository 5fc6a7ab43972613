"""The rules of the lease: when a process may take it, and the record that it writes. Pure."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from qss_operator.kubernetes.api.kinds import LEASES
from qss_operator.kubernetes.api.requests import Object
from qss_operator.times import micro_time_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """`identity` is one process's alone, also across restarts of its container."""

    namespace: str
    name: str
    identity: str
    duration_s: float = 15.0  # How long others wait; at least a second, in whole ones.
    renew_deadline_s: float = 10.0  # How long the holder acts without having renewed.
    retry_s: float = 2.0
    attempt_s: float = 4.0

    def __post_init__(self) -> None:
        # The process has to end in the time between the two deadlines.
        assert 0 < self.retry_s < self.renew_deadline_s < self.duration_s
        assert self.attempt_s > 0
        assert self.identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A version of the lease, and the time at which it was seen first."""

    resource_version: str
    since_s: float


@dataclass(frozen=True, slots=True)
class MakeLease:
    """No Lease object exists: this process creates it."""


@dataclass(frozen=True, slots=True)
class TakeLease:
    """The lease is free, held by this process, or held by a process that is silent too long."""


@dataclass(frozen=True, slots=True)
class WaitForLease:
    holder: str


Action = MakeLease | TakeLease | WaitForLease


def look(sighting: Sighting | None, lease: Object | None, now_s: float) -> Sighting | None:
    """The lease after a look; any change of the object starts the count of silence anew."""
    if lease is None:
        return None
    version = lease["metadata"]["resourceVersion"]
    if sighting is not None and sighting.resource_version == version:
        return sighting
    return Sighting(resource_version=version, since_s=now_s)


def decide(
    sighting: Sighting | None, lease: Object | None, settings: LeaseSettings, now_s: float
) -> Action:
    """The next action of a candidate after a look at the lease."""
    if lease is None or sighting is None:
        return MakeLease()
    holder = holder_of(lease)
    if holder in ("", settings.identity):
        return TakeLease()
    promised_s = _spec(lease).get("leaseDurationSeconds") or settings.duration_s
    if now_s - sighting.since_s >= promised_s:
        return TakeLease()
    return WaitForLease(holder)


def holder_of(lease: Object) -> str:
    """The identity of the holder; empty where the lease is free."""
    return _spec(lease).get("holderIdentity") or ""


def new_lease(settings: LeaseSettings, now: datetime) -> Object:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": settings.name, "namespace": settings.namespace},
        "spec": _held(settings, now) | {"acquireTime": micro_time_of(now), "leaseTransitions": 0},
    }


def taken_lease(lease: Object, settings: LeaseSettings, now: datetime) -> Object:
    """The lease with this process as its holder: renewed, or taken over."""
    spec = _spec(lease)
    held = {**spec, **_held(settings, now)}
    if holder_of(lease) != settings.identity:
        held["acquireTime"] = micro_time_of(now)
        held["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
    return {**lease, "spec": held}


def released_lease(lease: Object, now: datetime) -> Object:
    time = micro_time_of(now)
    free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": time, "acquireTime": time}
    return {**lease, "spec": {**_spec(lease), **free}}


def _held(settings: LeaseSettings, now: datetime) -> dict[str, Any]:
    return {
        "holderIdentity": settings.identity,
        "leaseDurationSeconds": math.ceil(settings.duration_s),
        "renewTime": micro_time_of(now),
    }


def _spec(lease: Object) -> dict[str, Any]:
    return lease.get("spec") or {}
