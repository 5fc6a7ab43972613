"""Chooses the standby that takes over from an active that does not act. Pure.

Any in-sync replica may take over: it holds every acknowledged entry. A failover is safe at any
time, since the new active waits for the lease of the old one; these rules only avoid needless ones.
"""

from collections.abc import Mapping

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.quantities import parse_duration_ms
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.model import Observation, replica_of

SOUND = ("serving", "opening")  # The states of a replica that is not failed or behind.
_PATIENCE = 3  # Times `failoverAfter`, before a standby is promoted that was not compared.


def successor_of(
    observation: Observation, entry: PartitionConfiguration, leaving: frozenset[Ordinal]
) -> Ordinal | None:
    """The in-sync standby that should be the active from now on; None where none should.

    It is on no pod that is `leaving`. It has the longest log of those that report this
    configuration; ties go to the lowest ordinal.
    """
    active = replica_of(observation.reports, entry.active, entry)
    stuck = _stuck(observation.reports.get(entry.active), entry)
    # Every in-sync replica held what the active has applied: less is an older volume.
    goes_on = active is not None and active.has_damage and _acts(active)
    least = active.applied_offset if active is not None and not goes_on else 0
    # After a restart nobody knows which of the active's last entries were acknowledged.
    least = stuck.end_offset if stuck is not None else least
    sound = {
        pod: replica
        for pod in entry.in_sync
        if pod != entry.active
        and pod not in leaving
        and (replica := _sound(observation.reports.get(pod), entry)) is not None
        and replica.end_offset >= least
    }
    # A damaged replica has all but some rows: it is better than none, and no better than another.
    whole = {pod: replica for pod, replica in sound.items() if not replica.has_damage}
    if whole or goes_on:
        sound = whole
    if not sound or not _is_needed(observation, entry, sound):
        return None
    candidates = {pod: replica for pod, replica in sound.items() if replica.is_compared} or sound
    # An active that goes on may have acknowledged entries that an uncompared standby lacks.
    is_risky = goes_on or not _may_promote_uncompared(observation, entry)
    if candidates is sound and is_risky:
        return None
    return min(candidates, key=lambda pod: (-candidates[pod].end_offset, pod))


def _acts(active: ReplicaReport) -> bool:
    """Whether an active says that it takes writes."""
    return active.state in SOUND and not (active.is_stopped or active.is_damaged)


def _is_needed(
    observation: Observation,
    entry: PartitionConfiguration,
    standbys: Mapping[Ordinal, ReplicaReport],
) -> bool:
    report, silent_s = observation.reports.get(entry.active), observation.silent_s
    if report is None:
        if silent_s.get(entry.active, 0.0) >= failover_after_s(observation):
            return True
    elif _cannot_act(report, entry):
        return True
    elif not _waits_to_open(report, entry.partition) and _stuck(report, entry) is None:
        return False
    return any(replica.misses_active for replica in standbys.values())


def _may_promote_uncompared(observation: Observation, entry: PartitionConfiguration) -> bool:
    """Whether a standby may take over that has started since it last heard from its active.

    The active may come back, and would find out whether the standby's volume went back to an older
    state: so a silent active is waited for. An active that says that it cannot act is not.
    """
    silent_s = observation.silent_s.get(entry.active, 0.0)
    is_heard = entry.active in observation.reports
    return is_heard or silent_s >= _PATIENCE * failover_after_s(observation)


def failover_after_s(observation: Observation) -> float:
    """`rebalance.failoverAfter` of the resource, in seconds."""
    return parse_duration_ms(observation.resource.spec.rebalance.failover_after) / 1000


def has_no_data(report: ReplicasReport, partition: PartitionId) -> bool:
    """Whether a pod that answers says that its replica is lost or damaged, or its volume gone."""
    if any(one.partition == partition and not one.is_waiting for one in report.lost):
        return True
    if report.store_id is None:
        return True
    return any(
        replica.is_damaged
        for replica in report.replicas
        if replica.configuration.partition == partition
    )


def is_impaired(report: ReplicasReport, partition: PartitionId) -> bool:
    """Whether a pod says that its replica has data, and takes no writes or met damage."""
    return any(
        replica.is_stopped or replica.has_damage
        for replica in report.replicas
        if replica.configuration.partition == partition
    )


def _cannot_act(report: ReplicasReport, entry: PartitionConfiguration) -> bool:
    if has_no_data(report, entry.partition) or is_impaired(report, entry.partition):
        return True
    return is_behind(report, entry.partition)


def is_behind(report: ReplicasReport, partition: PartitionId) -> bool:
    """Whether a pod says that its replica lacks batches that were completed."""
    return any(
        replica.state == "behind"
        for replica in report.replicas
        if replica.configuration.partition == partition
    )


def _waits_to_open(report: ReplicasReport, partition: PartitionId) -> bool:
    """Whether a pod that answers says that it cannot open its replica now."""
    return any(one.partition == partition and one.is_waiting for one in report.lost)


def _stuck(report: ReplicasReport | None, entry: PartitionConfiguration) -> ReplicaReport | None:
    """The active's replica, if a full volume keeps it from writing down its new epoch.

    An active that starts again asks for an epoch, and acts in no older one. Without data, damaged
    or behind, it is handled like an active on a volume with room.
    """
    if report is None or report.full_volume is None or not report.full_volume.is_full:
        return None
    if _cannot_act(report, entry):
        return None
    for replica in report.replicas:
        held = replica.configuration
        if held.partition == entry.partition and held.epoch < entry.epoch:
            return replica
    return None


def is_under_way(replica: ReplicaReport) -> bool:
    """Whether a replica serves, or opens without an error.

    A standby that has just started is opening until its active has compared its log.
    """
    return replica.state == "serving" or (replica.state == "opening" and replica.error is None)


def _sound(report: ReplicasReport | None, entry: PartitionConfiguration) -> ReplicaReport | None:
    if report is None or not report.replicates:
        return None
    for replica in report.replicas:
        if replica.configuration == entry and replica.state in SOUND:
            return replica
    return None
