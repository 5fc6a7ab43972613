"""Finds whether a store is Ready, Progressing and Degraded, and the reasons."""

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
    foreign_pods,
    is_creating,
    retained_message,
)
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
from qss_operator.planning.findings.rebalancing import Rebalance
from qss_operator.planning.findings.served_partitions import counted
from qss_operator.planning.findings.wishes import told, undone_wishes
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
from qss_operator.planning.missing_data import emptied_pods, missing_replicas
from qss_operator.planning.model import ConditionStatus, Finding, Observation
from qss_operator.planning.scaling import wanted_replicas

REPLICA_FAILED = "ReplicaFailed"
REPLICA_DAMAGED = "ReplicaDamaged"
REPLICAS_DIFFER = "ReplicasDiffer"


def ready(
    observation: Observation, known: KnownAssignment | UnknownAssignment, served: int
) -> Finding:
    """Whether all partitions are served, and the spec is done."""
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


def progressing(
    observation: Observation,
    known: KnownAssignment | UnknownAssignment,
    rebalance: Rebalance,
    served: int,
) -> Finding:
    """Whether pods start, replicas open or move, or pods restart."""
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


def degraded(observation: Observation, known: KnownAssignment | UnknownAssignment) -> Finding:
    """The gravest trouble of volumes, pods and replicas."""
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
