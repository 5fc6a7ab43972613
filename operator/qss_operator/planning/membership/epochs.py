"""Finds the partitions whose configuration has to change, and makes the next one. Pure.

Each change takes one epoch. It is made of the configuration that holds and of reports of pods that
hold it too, so that an older report changes nothing.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_core.quantities import parse_duration_ms
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.fullest_learner import fullest_learner, may_have_fuller_learner
from qss_operator.planning.losses import accepted_losses, with_taken_losses
from qss_operator.planning.membership.failover import (
    SOUND,
    has_no_data,
    is_behind,
    is_impaired,
    successor_of,
)
from qss_operator.planning.membership.handover import handed_over
from qss_operator.planning.membership.moves import moved, targets_of, with_active_last
from qss_operator.planning.membership.restart_steps import NextRestart
from qss_operator.planning.membership.restarts import next_restart
from qss_operator.planning.membership.standby_state import leaving_pods
from qss_operator.planning.model import Observation, replica_of

Reports = Mapping[Ordinal, ReplicasReport]


def next_configurations(
    observation: Observation,
    entries: Mapping[PartitionId, PartitionConfiguration],
    *,
    is_creating: bool,
    unclear: Collection[PartitionId] = (),
) -> tuple[PartitionConfiguration, ...]:
    """The configurations by partition, each in its next epoch where it has to change.

    An `unclear` partition stays as it is: pods dispute its configuration.

    While the store is being created nothing changes before every replica exists: the first entry of
    a new epoch ends the creation.
    """
    restart = next_restart(
        observation, {number: one for number, one in entries.items() if number not in unclear}
    )
    is_made = not is_creating or _holds_all(observation.reports, entries)
    found: dict[PartitionId, PartitionConfiguration] = {}
    leaving = leaving_pods(observation)
    for number, entry in entries.items():
        taken = with_taken_losses(observation, entry)
        if taken is entry and is_made and number not in unclear:
            taken = _next(observation, entry, restart, leaving)
        found[number] = taken
    if is_made:
        calm = {
            number: entry
            for number, entry in entries.items()
            if found[number] is entry and number not in unclear
        }
        found |= moved(observation, calm, targets_of(observation, entries, restart))
    copies = 1 + observation.resource.spec.effective_standbys
    return tuple(
        with_active_last(entries[number], one, copies) for number, one in sorted(found.items())
    )


def _next(
    observation: Observation,
    entry: PartitionConfiguration,
    restart: NextRestart,
    ending: frozenset[Ordinal],
) -> PartitionConfiguration:
    """The next configuration of a partition, or the same one."""
    active = replica_of(observation.reports, entry.active, entry)
    if (led := _led_by_another(observation, entry, ending)) is not None:
        return led
    if _gives_up_standbys(observation, entry):
        return replace(entry, epoch=_after(entry), in_sync=(entry.active,))
    if active is None:
        return entry
    # While other pods are silent nothing moves, which would hand the active over before a restart.
    restarts = restart.hands_over and entry.active == restart.ordinal
    ended = ending | {entry.active} if restarts else ending
    if (left_to_others := handed_over(observation, entry, ended)) is not None:
        return left_to_others
    # An active that is behind knows of no entry that its standbys lack, and has none to give.
    is_sound = active.state in SOUND
    silent = set(active.silent) & _standbys(entry) if is_sound else set()
    if is_sound and active.is_compared and active.lacks_lease and not active.has_damage:
        silent |= _unreached(observation, entry)
    # An active that was not compared may be older than the standby that would leave.
    leaving: set[Ordinal] = set()
    if is_sound and active.is_compared:
        leaving = _leaving(entry, restart)
        # A damaged active would be the only one left, and the source of copies.
        leaving |= set() if active.has_damage else _stopped(observation.reports, entry)
    gone = _without_rows(observation.reports, entry, is_sound=is_sound)
    if removed := gone | silent | leaving:
        left = tuple(pod for pod in entry.in_sync if pod not in removed)
        return replace(entry, epoch=_after(entry), in_sync=left)
    # An active that has started again may not act in its epoch: it does not know what it sent.
    if active.asks_for_epoch or _holds_up(observation.reports, entry, active):
        return replace(entry, epoch=_after(entry))
    joining = [
        pod
        for pod in active.caught_up
        if pod not in {*entry.in_sync, *ending}
        and not (restart.stays_out and pod == restart.ordinal)
        and _follows(observation.reports, pod, entry, active)
    ]
    if joining and is_sound and not _joins_later(observation, entry):
        return replace(entry, epoch=_after(entry), in_sync=(*entry.in_sync, joining[0]))
    return entry


def _joins_later(observation: Observation, entry: PartitionConfiguration) -> bool:
    """Whether a learner waits for other moves: the partition has all its replicas in sync."""
    copies = 1 + observation.resource.spec.effective_standbys
    return observation.moves_wait and len(entry.in_sync) >= copies


def _led_by_another(
    observation: Observation, entry: PartitionConfiguration, ending: frozenset[Ordinal]
) -> PartitionConfiguration | None:
    """The configuration with a standby as the active, or with a learner where a loss is accepted.

    None where the active stays.
    """
    successor = successor_of(observation, entry, ending)
    if successor is not None:
        left = tuple(pod for pod in entry.in_sync if pod != entry.active)
        return replace(entry, epoch=_after(entry), active=successor, in_sync=left)
    if accepted_losses(observation).get(entry.partition) != entry.epoch:
        return None
    learner = fullest_learner(observation, entry)
    if learner is None or may_have_fuller_learner(observation, entry):
        return None
    pod, _ = learner
    return replace(entry, epoch=_after(entry), active=pod, in_sync=(pod,))


def _standbys(entry: PartitionConfiguration) -> set[Ordinal]:
    return set(entry.in_sync) - {entry.active}


def _leaving(entry: PartitionConfiguration, restart: NextRestart) -> set[Ordinal]:
    """The standby whose pod restarts next: writers must not wait for it."""
    pod = restart.ordinal
    return {pod} & _standbys(entry) if pod is not None and restart.leaves_sync else set()


def _unreached(observation: Observation, entry: PartitionConfiguration) -> set[Ordinal]:
    """The standbys that the operator has not reached for a lease either.

    Their active takes no writes any more, so their removal delays no writer. For a standby that is
    only slow the active waits `replicaTimeout`.
    """
    lease_s = parse_duration_ms(observation.resource.spec.rebalance.lease_duration) / 1000
    return {
        pod
        for pod in _standbys(entry)
        if pod not in observation.reports and observation.silent_s.get(pod, 0.0) >= lease_s
    }


def _gone(reports: Reports, entry: PartitionConfiguration) -> set[Ordinal]:
    """The standbys whose pods say that they have no data: nothing is gained by waiting for them."""
    return {
        pod
        for pod in _standbys(entry)
        if (report := reports.get(pod)) is not None and has_no_data(report, entry.partition)
    }


def _without_rows(
    reports: Reports, entry: PartitionConfiguration, *, is_sound: bool
) -> set[Ordinal]:
    """The standbys that are `_gone`, but for misplaced ones beside an active that is not sound.

    Their rows are whole on another volume, and the active may lack some of them.
    """
    return {
        pod
        for pod in _gone(reports, entry)
        if is_sound
        or not any(
            one.is_misplaced for one in reports[pod].lost if one.partition == entry.partition
        )
    }


def _able(reports: Reports, entry: PartitionConfiguration) -> set[Ordinal]:
    """The standbys whose pods answer, and do not say that they have no data or take no entries.

    A standby that lacks entries that its active has applied has an older volume: it never leads.
    """
    active = replica_of(reports, entry.active, entry)
    least = 0 if active is None else active.applied_offset
    return {
        pod
        for pod in _standbys(entry) - _gone(reports, entry)
        if (report := reports.get(pod)) is not None
        and not any(
            one.is_stopped or (one.configuration == entry and one.end_offset < least)
            for one in report.replicas
            if one.configuration.partition == entry.partition
        )
    }


def _stopped(reports: Reports, entry: PartitionConfiguration) -> set[Ordinal]:
    """The standbys whose pods say that they take no entries, or met damage: they are copied."""
    return {
        pod
        for pod in _standbys(entry)
        if (report := reports.get(pod)) is not None and is_impaired(report, entry.partition)
    }


def _follows(
    reports: Reports, pod: Ordinal, entry: PartitionConfiguration, active: ReplicaReport
) -> bool:
    """Whether a learner's own pod says that it has the partition, in this configuration.

    A copy of a damaged active is damaged, too, and better than no copy.
    """
    replica = replica_of(reports, pod, entry)
    return (
        replica is not None
        and replica.state in SOUND
        and not replica.is_damaged
        and (active.has_damage or not replica.has_damage)
    )


def _holds_up(reports: Reports, entry: PartitionConfiguration, active: ReplicaReport) -> bool:
    """Whether a learner counts whose pod was told to stop: writers would wait for it once it ends.

    A pod that was not told, as one whose kubelet is away, would count again in each epoch.
    """
    learners = set(active.caught_up) - set(entry.in_sync)
    return any((report := reports.get(pod)) is not None and report.is_leaving for pod in learners)


def _gives_up_standbys(observation: Observation, entry: PartitionConfiguration) -> bool:
    """Whether only the loss of the active's data is left to accept: no standby can take over.

    The standbys have no data either, or a person has accepted that they do not come back.
    """
    report = observation.reports.get(entry.active)
    if len(entry.in_sync) == 1 or report is None:
        return False
    is_accepted = accepted_losses(observation).get(entry.partition) == entry.epoch
    if is_behind(report, entry.partition):
        return is_accepted and not _able(observation.reports, entry)
    if not has_no_data(report, entry.partition):
        return False
    return is_accepted or _gone(observation.reports, entry) == _standbys(entry)


def _after(entry: PartitionConfiguration) -> Epoch:
    return Epoch(entry.epoch + 1)


def _holds_all(reports: Reports, entries: Mapping[PartitionId, PartitionConfiguration]) -> bool:
    """Whether every replica of the assignment exists: each pod reports all that it should hold.

    Also one that cannot be opened: its pod keeps the assignment, and makes no other in its place.
    """
    wanted = {(pod, number) for number, entry in entries.items() for pod in entry.replicas}
    held = {
        (ordinal, replica.configuration.partition)
        for ordinal, report in reports.items()
        for replica in report.replicas
    }
    lost = {
        (ordinal, one.partition)
        for ordinal, report in reports.items()
        for one in report.lost
        if report.store_id is not None and not one.is_waiting
    }
    return wanted <= held | lost
