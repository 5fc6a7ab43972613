"""Makes the status of one store: the present state, and the reason where the store waits."""

import msgspec

from qss_core.text import listed
from qss_operator.planning.assignment_state import (
    ASSIGNMENT_UNKNOWN,
    CREATING,
    HIBERNATED,
    NO_IN_SYNC_REPLICA,
    PODS_FAILING,
    PODS_STARTING,
    RETAINED_VOLUMES_FOUND,
    KnownAssignment,
    UnknownAssignment,
    assess,
    emptied_pods,
    foreign_pods,
    is_creating,
    missing_replicas,
    retained_message,
)
from qss_operator.planning.findings import columns
from qss_operator.planning.findings.deleted_volumes import VOLUME_DELETED, deleted_volumes_message
from qss_operator.planning.findings.full_volumes import VOLUME_FULL, full_volumes_message
from qss_operator.planning.findings.lost_volumes import (
    emptied_message,
    lacking_message,
    missing_message,
)
from qss_operator.planning.findings.obstacles import (
    broken_pods,
    damaged_message,
    failures,
    obstacles,
    refusals,
    unlike_message,
)
from qss_operator.planning.findings.other_schema import with_way_back
from qss_operator.planning.findings.rebalancing import Rebalance, rebalance_of
from qss_operator.planning.findings.served_partitions import counted, served
from qss_operator.planning.findings.wishes import told, undone_wishes
from qss_operator.planning.formats import decide_format, migrating, progress_of
from qss_operator.planning.losses import (
    DATA_LOST,
    PARTITION_ROLLED_BACK,
    lacking,
    losses_message,
    waiting_message,
)
from qss_operator.planning.membership.restarts import next_restart
from qss_operator.planning.membership.retirements import (
    LEFT_REPLICA_HAS_MORE,
    left_message,
    left_with_more,
)
from qss_operator.planning.membership.standby_state import pods_without_standbys, unapplied_message
from qss_operator.planning.model import (
    Condition,
    ConditionStatus,
    ConditionType,
    Finding,
    Observation,
    StoreStatus,
)
from qss_operator.planning.scaling import wanted_replicas

STOPPED = "Stopped"
STATUS_OLD = "StatusOld"
# A finding of the cluster replaces a condition with one of these reasons.
_QUIET = ("UpToDate", "NoResize", "Healthy")
REPLICA_FAILED = "ReplicaFailed"
REPLICA_DAMAGED = "ReplicaDamaged"
REPLICAS_DIFFER = "ReplicasDiffer"


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
    """A status that nobody has renewed since a time: where things are, without their health."""
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
    """Whether it is an `old_status`, which tells where things were and not how they are."""
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
        ConditionType.READY: _ready(observation, known, served),
        ConditionType.PROGRESSING: _progressing(observation, known, rebalance, served),
        ConditionType.DEGRADED: _degraded(observation, known),
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


def _held_up(
    observation: Observation, known: KnownAssignment | UnknownAssignment
) -> Finding | None:
    """The finding that pods cannot be created, or None."""
    is_short = len(observation.cluster.pods) < wanted_replicas(observation)
    if isinstance(known, KnownAssignment) or not is_short or not observation.troubles:
        return None
    trouble = observation.troubles[0]
    message = f"the pods cannot be created: {trouble.message}"
    return ConditionStatus.FALSE, trouble.reason, message


def _ready(
    observation: Observation, known: KnownAssignment | UnknownAssignment, served: int
) -> Finding:
    partitions = observation.resource.spec.partitions
    if held_up := _held_up(observation, known):
        return held_up
    if isinstance(known, UnknownAssignment):
        return ConditionStatus.FALSE, known.reason, known.message
    if served == partitions:
        message = f"all {partitions} partitions are served"
        if wishes := undone_wishes(observation):
            message = f"{message}, and the spec is not done: {told(wishes)}"
            return ConditionStatus.FALSE, wishes[0].reason, message
        return ConditionStatus.TRUE, "Serving", message
    lost = _volume_trouble(observation, known)
    if lost:
        return ConditionStatus.FALSE, *lost
    message = "; ".join([counted(observation, known, served), *obstacles(observation)])
    if broken_pods(observation):
        return ConditionStatus.FALSE, PODS_FAILING, message
    if refused := refusals(observation):
        return ConditionStatus.FALSE, refused[0].reason, message
    return ConditionStatus.FALSE, PODS_STARTING, message


def _progressing(
    observation: Observation,
    known: KnownAssignment | UnknownAssignment,
    rebalance: Rebalance,
    served: int,
) -> Finding:
    yes = ConditionStatus.TRUE
    if held_up := _held_up(observation, known):
        return held_up
    if isinstance(known, UnknownAssignment) and known.reason == PODS_STARTING:
        return yes, PODS_STARTING, known.message
    if isinstance(known, UnknownAssignment):
        return ConditionStatus.FALSE, known.reason, known.message
    is_new = is_creating(observation)
    is_served = served == observation.resource.spec.partitions
    if not is_served and (is_new or not _volume_trouble(observation, known)):
        return yes, CREATING if is_new else "PartitionsOpening", "; ".join(obstacles(observation))
    if wishes := undone_wishes(observation):
        return ConditionStatus.FALSE, wishes[0].reason, told(wishes)
    certain = {entry.partition: entry for entry in known.certain}
    restart = next_restart(observation, certain).finding
    if restart is not None and restart[0] is yes:
        return restart
    if (moving := rebalance.finding())[0] is yes:
        return moving
    return restart or (
        ConditionStatus.FALSE,
        "UpToDate",
        "pods and partitions are as the spec asks for",
    )


def _degraded(observation: Observation, known: KnownAssignment | UnknownAssignment) -> Finding:
    yes = ConditionStatus.TRUE
    if isinstance(known, UnknownAssignment) and known.reason not in (PODS_STARTING, HIBERNATED):
        return yes, known.reason, known.message
    lost = _volume_trouble(observation, known)
    if lost:
        return yes, *lost
    if isinstance(known, KnownAssignment) and (kept := left_with_more(observation, known.certain)):
        return yes, LEFT_REPLICA_HAS_MORE, left_message(kept)
    broken = broken_pods(observation)
    if broken:
        return yes, PODS_FAILING, "; ".join(broken)
    failed = [f"partition {numbers}: {why}" for numbers, why in failures(observation)]
    if failed:
        return yes, REPLICA_FAILED, listed(failed)
    damaged, unlike = damaged_message(observation), unlike_message(observation)
    if told := "; ".join(filter(None, (damaged, unlike))):
        return yes, REPLICA_DAMAGED if damaged else REPLICAS_DIFFER, told
    if full := full_volumes_message(observation):
        return yes, VOLUME_FULL, full
    return _lesser_trouble(observation, known)


def _lesser_trouble(
    observation: Observation, known: KnownAssignment | UnknownAssignment
) -> Finding:
    """The finding while every pod and every replica works."""
    yes = ConditionStatus.TRUE
    spec = observation.resource.spec
    certain = known.certain if isinstance(known, KnownAssignment) else None
    if deleted := deleted_volumes_message(observation, certain):
        return yes, VOLUME_DELETED, deleted
    if spec.standbys is not None and spec.effective_standbys < spec.standbys:
        message = (
            f"{spec.replicas} pods have room for {spec.effective_standbys} standbys of each "
            f"partition, not {spec.standbys}"
        )
        return yes, "FewerStandbys", message
    if short := _short_of_standbys(observation, known):
        return yes, "FewerStandbys", short
    if losses := losses_message(observation):
        return yes, DATA_LOST, losses
    wishes = [wish for wish in undone_wishes(observation) if wish not in observation.troubles]
    if wishes:
        return yes, wishes[0].reason, told(wishes)
    return ConditionStatus.FALSE, "Healthy", "no pod and no replica is in trouble"


def _short_of_standbys(
    observation: Observation, known: KnownAssignment | UnknownAssignment
) -> str | None:
    """The partitions with fewer in-sync standbys than the spec asks for, or None."""
    wanted = 1 + observation.resource.spec.effective_standbys
    if isinstance(known, UnknownAssignment):
        return None
    short = [str(one.partition) for one in known.partitions if len(one.in_sync) < wanted]
    if not short:
        return unapplied_message(observation, known.certain)
    said = f"partition {listed(short)} has fewer standbys in sync than the store is to have"
    if older := pods_without_standbys(observation):
        return f"{said}: {listed(list(older))} runs a version without standbys: use a newer image"
    return f"{said}: the others are silent, or take the changelog or a copy of the data"


def _volume_trouble(
    observation: Observation, known: KnownAssignment | UnknownAssignment
) -> tuple[str, str] | None:
    """Reason and message of volumes that no step may touch."""
    foreign = foreign_pods(observation)
    if foreign:
        return RETAINED_VOLUMES_FOUND, retained_message(observation, foreign)
    if isinstance(known, UnknownAssignment):
        return None
    if known.unclear:
        return ASSIGNMENT_UNKNOWN, listed(list(known.unclear.values()))
    emptied = emptied_pods(observation, known)
    if emptied:
        return NO_IN_SYNC_REPLICA, emptied_message(observation, known, emptied)
    if behind := lacking(observation, known.certain):
        is_behind = any(one.is_open for one in behind)
        reason = PARTITION_ROLLED_BACK if is_behind else NO_IN_SYNC_REPLICA
        return reason, lacking_message(observation, behind, known.certain)
    if waiting := waiting_message(observation, known.partitions):
        return REPLICA_FAILED, waiting
    missing = {
        pod: partitions
        for pod, partitions in missing_replicas(observation, known).items()
        if observation.reports[pod.ordinal].ready  # A pod that opens its replicas lost none.
    }
    return (NO_IN_SYNC_REPLICA, missing_message(missing)) if missing else None
