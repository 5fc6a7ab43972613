"""The reports of a replica: for the operator, for the metrics, and an assignment's for the log.

`OperatorWord` is the other direction: facts from the operator that the pod only shows.
"""

import asyncio
from collections.abc import Iterable
from math import inf

from msgspec.structs import replace

from qss_client.clock import Clock
from qss_core.errors import CorruptionError, StoreTypeFailedError
from qss_core.model import Ordinal, Role, StoreAssignment
from qss_core.text import listed
from qss_core.wire.conditions import StoreCondition, ToldConditions
from qss_core.wire.replica_reports import ReplicaReport
from qss_store.replicas.replica import Replica
from qss_store.replicas.rollback_check import RollbackCheck, rolled_back
from qss_store.runtime.metrics import ReplicaNumbers

_CONDITIONS_MAX = 20
_NAME_CHARS_MAX, _MESSAGE_CHARS_MAX = 128, 2048


class ReportFeed:
    """The version of a pod's report; requests wait here for the next version."""

    def __init__(self) -> None:
        self.version = 0
        self.asked = 0  # Requests for the report, by which a pod knows that the operator listens.
        self.is_leaving = False  # The process was told to stop.
        self._changed = asyncio.Condition()

    async def tell(self) -> None:
        """Wakes the requests that wait: the report has changed."""
        async with self._changed:
            self.version += 1
            self._changed.notify_all()

    async def wait(self, after: int, timeout_s: float) -> None:
        """Returns once the version is above `after`, or when the time is up."""
        try:
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.version > after)
        except TimeoutError:
            pass


class OperatorWord:
    """The conditions of the resource, as the operator told this process; longer ones are cut."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._conditions: tuple[StoreCondition, ...] | None = None
        self._told_at_s = self._heard_at_s = -inf

    def hear(self) -> None:
        """Notes a request of the operator."""
        self._heard_at_s = self._clock.monotonic_s()

    def keep(self, conditions: Iterable[StoreCondition]) -> None:
        """Keeps these conditions in place of the earlier ones."""
        self.hear()
        self._told_at_s = self._heard_at_s
        self._conditions = tuple(map(_cut, [*conditions][:_CONDITIONS_MAX]))

    def told(self) -> ToldConditions | None:
        """The conditions with their age; None where the operator has told none."""
        if self._conditions is None:
            return None
        now_s = self._clock.monotonic_s()
        return ToldConditions(
            conditions=self._conditions,
            told_ago_s=round(now_s - self._told_at_s, 3),
            operator_silent_s=round(now_s - self._heard_at_s, 3),
        )


def _cut(one: StoreCondition) -> StoreCondition:
    names = {name: getattr(one, name)[:_NAME_CHARS_MAX] for name in one.__struct_fields__}
    return replace(one, **{**names, "message": one.message[:_MESSAGE_CHARS_MAX]})


def newest_of(told: Iterable[ToldConditions | None]) -> ToldConditions | None:
    """The conditions that were told last, and the shortest silence of the operator."""
    known = [one for one in told if one is not None]
    if not known:
        return None
    newest = min(known, key=lambda one: one.told_ago_s)
    return replace(newest, operator_silent_s=min(one.operator_silent_s for one in known))


def report_of(replica: Replica, completion: RollbackCheck) -> ReplicaReport:
    """The report of one replica; its sequence is that of the state that readers see."""
    view, missing = replica.view, completion.lacks(replica)
    sequence = view.sequence if view else replica.machine.participant.sequence
    is_active = replica.role is Role.ACTIVE
    coordinator = replica.machine.coordinator if is_active and replica.is_recovered else None
    error, unlike = replica.failure, replica.health.unlike
    families, timeout_s = replica.views.families, replica.apply_loop.replica_timeout_s
    if missing is not None:
        error = rolled_back(replica.partition, sequence, missing, replica.log.configuration)
    return ReplicaReport(
        configuration=replica.log.configuration,
        role=replica.role or Role.LEARNER,
        state=state_of(replica) if missing is None else "behind",
        applied_offset=replica.log.applied,
        end_offset=replica.log.end,
        sequence=sequence,
        error=error.message if error else None,
        answers=view is not None and error is None and not replica.lacks_rows,
        is_damaged=isinstance(error, CorruptionError),
        is_stopped=replica.health.has_stopped,
        has_damage=replica.health.damage is not None,
        detail=error.text if isinstance(error, StoreTypeFailedError) else None,
        format=replica.definition.format,
        migration=replica.migration.report(families),
        index=replica.index_build.report(families),
        completed=missing,
        coordinated=coordinator.completed if coordinator else None,
        losses=replica.machine.participant.losses,
        accepted_in=replica.machine.participant.accepted_in or None,
        asks_for_epoch=replica.acting.asks_for_epoch or replica.acting.is_held_up(timeout_s),
        silent=replica.acting.silent_followers(timeout_s),
        caught_up=replica.followers.learners.caught_up() if is_active else (),
        lacks_lease=is_active and replica.followers.lease_left_s() <= 0,
        misses_active=replica.following.misses_active,
        waits_for_lease=replica.following.waits_for_lease(),
        is_compared=len(replica.log.configuration.in_sync) > 1 and replica.following.is_compared,
        unlike=unlike if is_active else None,
    )


def numbers_of(replica: Replica, role: Role) -> ReplicaNumbers:
    """The numbers of one replica for the pod's metrics."""
    log, others = replica.log, {*replica.log.configuration.replicas} - {replica.log.pod}
    is_led = role is Role.ACTIVE and bool(others)
    held = min((log.durable.get(one, log.start) for one in others), default=log.end)
    lease_s = replica.followers.lease_left_s() if is_led else inf
    return ReplicaNumbers(
        partition=replica.partition,
        role=role,
        lag_offsets=max(0, log.end - log.applied),
        lag_s=replica.following.late_s(),
        lacked_offsets=max(0, log.end - held) if is_led else None,
        lease_left_s=lease_s if lease_s < inf else None,
    )


def state_of(replica: Replica) -> str:
    """Whether it is opening, serving or failed.

    A new active is opening until it may answer, and a standby until it has applied enough.
    """
    if replica.failure:
        return "failed"
    is_opening = replica.view is None or replica.acting.begins_epoch
    return "opening" if is_opening or replica.lacks_rows else "serving"


def summary_of(assignment: StoreAssignment, ordinal: Ordinal) -> str:
    """The store of an assignment, and the partitions and epochs of one pod, as text."""
    own = [one for one in assignment.partitions if one.role_of(ordinal) is not None]
    names = [f"{one.partition} (epoch {one.epoch})" for one in own]
    which = f"partitions {listed(names)}" if own else "no partition"
    store = assignment.definition
    return f"store {store.name} (id {store.store_id}) of {len(assignment.pods)} pods, {which}"
