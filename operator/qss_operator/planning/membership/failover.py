"""Chooses the standby that takes over from an active that does not act. Pure.

Any in-sync replica may take over: it holds every acknowledged entry. A failover is safe at any
time, since the new active waits for the lease of the old one; these rules only avoid needless ones.
"""

from collections.abc import Mapping

from qss_core.model import Ordinal, PartitionConfiguration
from qss_core.quantities import parse_duration_ms
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.model import Observation

_SOUND = ("serving", "opening")
_PATIENCE = 3  # Times `failoverAfter`, before a standby is promoted that was not compared.


def successor_of(observation: Observation, entry: PartitionConfiguration) -> Ordinal | None:
    """The in-sync standby that should be the active from now on; None where none should.

    It has the longest log of those that report this configuration; ties go to the lowest ordinal.
    """
    sound = {
        pod: replica
        for pod in entry.in_sync
        if pod != entry.active
        and (replica := _sound(observation.reports.get(pod), entry)) is not None
    }
    if not sound or not _is_needed(observation, entry, sound):
        return None
    candidates = {pod: replica for pod, replica in sound.items() if replica.is_compared}
    if not candidates:
        # The standbys have started since they last heard from the active, which may come back: it
        # would find out whether a volume went back to an older state.
        if observation.silent_s.get(entry.active, 0.0) < _PATIENCE * _failover_after_s(observation):
            return None
        candidates = sound
    return min(candidates, key=lambda pod: (-candidates[pod].end_offset, pod))


def _is_needed(
    observation: Observation,
    entry: PartitionConfiguration,
    standbys: Mapping[Ordinal, ReplicaReport],
) -> bool:
    report = observation.reports.get(entry.active)
    if report is not None:
        return _cannot_act(report, entry)
    if observation.silent_s.get(entry.active, 0.0) >= _failover_after_s(observation):
        return True
    return any(replica.misses_active for replica in standbys.values())


def _failover_after_s(observation: Observation) -> float:
    return parse_duration_ms(observation.resource.spec.rebalance.failover_after) / 1000


def _cannot_act(report: ReplicasReport, entry: PartitionConfiguration) -> bool:
    """Whether a pod that answers says that its replica is lost, damaged or behind."""
    if any(one.partition == entry.partition and not one.is_waiting for one in report.lost):
        return True
    if report.store_id is None:
        return True  # Its volume is gone.
    return any(
        replica.is_damaged or replica.state == "behind"
        for replica in report.replicas
        if replica.configuration.partition == entry.partition
    )


def _sound(report: ReplicasReport | None, entry: PartitionConfiguration) -> ReplicaReport | None:
    if report is None:
        return None
    for replica in report.replicas:
        if replica.configuration == entry and replica.state in _SOUND:
            return replica
    return None
