"""Makes the status of one store: the present state, and the reason where the store waits."""

import msgspec

from qss_operator.planning.assignment_state import (
    CREATING,
    PODS_STARTING,
    KnownAssignment,
    UnknownAssignment,
    assess,
)
from qss_operator.planning.findings import columns, conditions
from qss_operator.planning.findings.other_schema import with_way_back
from qss_operator.planning.findings.rebalancing import Rebalance, rebalance_of
from qss_operator.planning.findings.served_partitions import served
from qss_operator.planning.formats import decide_format, migrating, progress_of
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    Finding,
    Observation,
    StoreStatus,
)

STOPPED = "Stopped"
STATUS_OLD = "StatusOld"
# A finding of the cluster replaces a condition with one of these reasons.
_QUIET = ("UpToDate", "NoResize", "Healthy")


def status_of(observation: Observation, now: str) -> StoreStatus:
    """The status to publish; `now` is RFC 3339 and dates only the conditions that changed."""
    resource, cluster = observation.resource, observation.cluster
    known = assess(observation)
    before = resource.status or StoreStatus()
    ready_pods = columns.ready_pods(observation)
    found = served(observation, known)
    progress = progress_of(observation)
    partitions = known.partitions if isinstance(known, KnownAssignment) else ()
    unclear = known.unclear if isinstance(known, KnownAssignment) else ()
    rebalance = rebalance_of(observation, partitions, unclear)
    return StoreStatus(
        observed_generation=resource.generation,
        store_id=known.store_id if isinstance(known, KnownAssignment) else before.store_id,
        replicas=sum(pod.is_running for pod in cluster.pods),
        ready_replicas=len(ready_pods),
        selector=cluster.selector,
        format=decide_format(observation).format.value,
        migrated=f"{progress.percent}%" if progress else None,
        ready=f"{len(ready_pods)}/{resource.spec.replicas}",
        assigned=f"{len(found)}/{resource.spec.partitions}",
        in_sync=columns.in_sync(observation, known),
        zones=columns.zones(observation),
        versions=columns.versions(observation),
        volume_size=cluster.volume_size,
        moving=rebalance.moving,
        standbys=resource.spec.effective_standbys,
        endpoints=columns.endpoints(observation),
        assignment=known.partitions if isinstance(known, KnownAssignment) else before.assignment,
        moves=rebalance.moves,
        conditions=_conditions(observation, known, rebalance, len(found), now),
    )


def starting_status(status: StoreStatus | None, now: str) -> StoreStatus:
    """The status of the last run, when the pods are started again."""
    return _idle(status or StoreStatus(), PODS_STARTING, "the pods are being started", now)


def stopped_status(status: StoreStatus, now: str) -> StoreStatus:
    """The status of a store whose pods were stopped on purpose."""
    message = "the local cluster is stopped and the data is kept: `qss up` starts it again"
    return _idle(status, STOPPED, message, now)


def old_status(status: StoreStatus, why_old: str, since: str) -> StoreStatus:
    """A status without renewal since a time: the assignment, and no health of the replicas."""
    finding: Finding = (ConditionStatus.UNKNOWN, STATUS_OLD, why_old)
    ready = status.dated(ConditionType.READY, finding, status.observed_generation or 0, since)
    return msgspec.structs.replace(
        status,
        replicas=None,
        ready_replicas=None,
        ready=columns.counted(status.ready, "?"),
        assigned=columns.counted(status.assigned, "?"),
        in_sync=columns.counted(status.in_sync, "?"),
        moving=None,
        moves=None,
        conditions=(ready,),
    )


def is_old(status: StoreStatus) -> bool:
    """Whether a status is an `old_status`, with the assignment and no health of the replicas."""
    ready = status.condition(ConditionType.READY)
    return ready is not None and ready.reason == STATUS_OLD


def deleting_status(
    status: StoreStatus | None, generation: int, waits: str, now: str
) -> StoreStatus:
    """The status of a store while its pods and its volumes are deleted."""
    seen = msgspec.structs.replace(status or StoreStatus(), observed_generation=generation)
    return _idle(seen, "Deleting", waits, now)


def is_ready(status: StoreStatus) -> bool:
    """Whether every partition of the store is served, and the spec is carried out."""
    ready = status.condition(ConditionType.READY)
    return ready is not None and ready.status is ConditionStatus.TRUE


def why(status: StoreStatus) -> str:
    """The reason and the message of the condition Ready."""
    ready = status.condition(ConditionType.READY)
    return f"{ready.reason}: {ready.message}" if ready else "nothing is published yet"


def attention(status: StoreStatus) -> Condition | None:
    """The condition Degraded, if it is true for another reason than the condition Ready."""
    ready = status.condition(ConditionType.READY)
    degraded = status.condition(ConditionType.DEGRADED)
    if degraded is None or degraded.status is not ConditionStatus.TRUE:
        return None
    return degraded if ready is None or ready.reason != degraded.reason else None


def _idle(status: StoreStatus, reason: str, message: str, now: str) -> StoreStatus:
    """The status of a store without pods; it keeps the assignment."""
    finding: Finding = (ConditionStatus.FALSE, reason, message)
    generation = status.observed_generation or 0
    kept = {
        entry.type: entry
        for entry in status.conditions or ()
        # These conditions were about running pods. A store in creation stays in creation.
        if entry.reason == CREATING
        or entry.type not in (ConditionType.PROGRESSING, ConditionType.DEGRADED)
    }
    ready = status.dated(ConditionType.READY, finding, generation, now)
    return msgspec.structs.replace(
        status,
        replicas=0,
        ready_replicas=0,
        ready=columns.counted(status.ready, "0"),
        assigned=columns.counted(status.assigned, "0"),
        in_sync=columns.counted(status.in_sync, "0"),
        zones=None,
        versions=None,
        conditions=tuple((kept | {ConditionType.READY: ready}).values()),
    )


def _conditions(
    observation: Observation,
    known: KnownAssignment | UnknownAssignment,
    rebalance: Rebalance,
    served: int,
    now: str,
) -> tuple[Condition, ...]:
    no = ConditionStatus.FALSE
    findings: dict[ConditionType, Finding] = {
        ConditionType.READY: conditions.ready(observation, known, served),
        ConditionType.PROGRESSING: conditions.progressing(observation, known, rebalance, served),
        ConditionType.DEGRADED: conditions.degraded(observation, known),
        ConditionType.REBALANCING: rebalance.finding(),
        ConditionType.SCALE_DOWN_BLOCKED: rebalance.blocked(observation),
        ConditionType.STORAGE_RESIZING: (no, "NoResize", "no volume is to grow"),
        ConditionType.FORMAT_MIGRATING: migrating(observation),
    }
    cluster = observation.cluster
    for kind, finding in cluster.findings.items():
        # A trouble of partitions or pods comes before a finding of the cluster.
        if findings[kind][1] in _QUIET:
            findings[kind] = finding
    degraded = findings[ConditionType.DEGRADED]
    findings[ConditionType.DEGRADED] = _with_troubles(degraded, observation)
    before = observation.resource.status or StoreStatus()
    generation = observation.resource.generation
    return tuple(
        before.dated(kind, with_way_back(finding, cluster.local_option), generation, now)
        for kind, finding in findings.items()
    )


def _with_troubles(degraded: Finding, observation: Observation) -> Finding:
    """Adds the actions that failed."""
    if not observation.troubles:
        return degraded
    status, reason, message = degraded
    said = [trouble.message for trouble in observation.troubles]
    if status is not ConditionStatus.TRUE:
        return ConditionStatus.TRUE, observation.troubles[0].reason, "; ".join(said)
    return status, reason, "; ".join([message, *said])
