"""Moves replicas and actives to where the spec wants them, one configuration at a time. Pure.

A move adds a learner, waits until it is in sync, hands the active over where it has to go, and then
removes the replica that is no longer wanted. The order of a partition's replicas records its move,
since nothing else is kept between rounds: replicas beyond the spec's number are the first of the
list, and they go. Where there are none, the active is the last of the list.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.planning.membership.failover import SOUND
from qss_operator.planning.membership.pins import pinned_actives
from qss_operator.planning.membership.replacement import (
    long_silent,
    replaced_pods,
    stalled_learners,
)
from qss_operator.planning.membership.restart_steps import NextRestart
from qss_operator.planning.membership.standby_state import (
    cannot_act_at_once,
    is_sound,
    leaving_pods,
    pods_without_standbys,
)
from qss_operator.planning.membership.unlike_replicas import staying, unlike_entries, unmoved
from qss_operator.planning.model import Observation, replica_of
from qss_operator.planning.placement.place import place
from qss_operator.planning.placement.shares import fair_shares
from qss_operator.planning.placement.sites import Placement, Site, sites_of
from qss_operator.planning.scaling import pods_without_room

Entries = Mapping[PartitionId, PartitionConfiguration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The pods that each partition should be on; `waits_for` is the reason why none moves now.

    The partitions `held_up` would move, and stay while the rows of their replicas differ. Of these,
    a person wants the actives of `rowless` on pods that have no replica. The pods `kept_empty`
    would get replicas, and get none while their nodes are cordoned or their volumes are full. The
    replicas of pods that go stay where the pods of `without_room` would have to take them.
    """

    placements: Mapping[PartitionId, Placement] = field(default_factory=dict)
    waits_for: str | None = None
    held_up: tuple[PartitionId, ...] = ()
    rowless: Mapping[PartitionId, Ordinal] = field(default_factory=dict)
    kept_empty: tuple[Ordinal, ...] = ()
    without_room: tuple[str, ...] = ()


def targets_of(observation: Observation, entries: Entries, restart: NextRestart) -> Targets:
    """Places all partitions on the pods that the spec asks for; replicas stay where they may.

    No placement is made before all of these pods report, or are replaced: else some pods would get
    the replicas that belong to others.
    """
    spec = observation.resource.spec
    replaced = replaced_pods(observation)
    wanted = [pod for pod in observation.cluster.pods if pod.ordinal < spec.replicas]
    pods = [pod for pod in wanted if pod.ordinal not in replaced]
    if not entries or not pods:
        return Targets()
    silent = [pod.address.name for pod in pods if pod.ordinal not in observation.reports]
    if silent or len(wanted) < spec.replicas:
        names = ", ".join(silent) or "pods that are being made"
        return Targets(waits_for=f"{names} to answer")
    leaving = leaving_pods(observation)
    if ending := [pod.address.name for pod in pods if pod.ordinal in leaving]:
        return Targets(waits_for=f"{', '.join(ending)} to stop and to start again")
    sites = sites_of(pods, full_pods(observation))
    balanced = place(len(entries), sites, spec.effective_standbys, _before(observation, entries))
    stays = staying(observation, entries)
    placed = tuple(
        unmoved(observation, entries[one.partition], one) if one.partition in stays else one
        for one in balanced
    )
    if restart.is_rolling:
        placed = _without_actives_on(restart.ordinal, placed, entries, observation.reports)
    wishes = {} if restart.holds_up_pins else pinned_actives(observation)
    # A person chooses the rows of a replica, and not a pod without any.
    rowless = {
        one: pod for one, pod in wishes.items() if one in stays and pod not in stays[one].replicas
    }
    pins = _unlike_actives(observation, entries, restart)
    pins |= {number: pod for number, pod in wishes.items() if number not in rowless}
    placements = {one.partition: _with_pin(one, pins) for one in placed}
    older = pods_without_standbys(observation)
    if older and not all(is_placed(entries[number], one) for number, one in placements.items()):
        return Targets(waits_for=f"{', '.join(older)} to restart with a program that has standbys")
    short_of_room = pods_without_room(observation, entries, placements)
    if short_of_room:
        placements |= _without_removals(observation, entries, placements, restart, pins)
    return Targets(
        placements=placements,
        without_room=tuple(short_of_room),
        held_up=tuple(
            one.partition
            for one in balanced
            if one.partition in rowless
            or (one.partition in stays and not is_placed(stays[one.partition], one))
        ),
        rowless=rowless,
        kept_empty=_kept_empty(sites, balanced, 1 + spec.effective_standbys),
    )


def _before(observation: Observation, entries: Entries) -> list[Placement]:
    """The placements from which the next ones are made: the moves under way count as done."""
    copies = 1 + observation.resource.spec.effective_standbys
    full = full_pods(observation)
    return [
        as_if_done(entry, copies, stalled_learners(observation, entry, full))
        for _, entry in sorted(entries.items())
    ]


def full_pods(observation: Observation) -> frozenset[Ordinal]:
    """The pods that say that their volumes are full, or too small for a copy: it would wait."""
    volumes = ((pod, report.full_volume) for pod, report in observation.reports.items())
    return frozenset(pod for pod, volume in volumes if volume is not None and volume.takes_no_copy)


def _kept_empty(
    sites: Sequence[Site], placed: Sequence[Placement], copies: int
) -> tuple[Ordinal, ...]:
    """The pods that are closed and have so few replicas that balance would bring some."""
    loads = Counter(pod for one in placed for pod in one.replicas)
    zones = {one.ordinal: one.zone for one in sites}
    shares = fair_shares(len(placed), zones, min(copies, len(sites))).of_pods
    above = {pod: loads[pod] - share for pod, share in shares.items()}
    few = max(above.values()) - 1
    return tuple(one.ordinal for one in sites if one.is_closed and above[one.ordinal] < few)


def _unlike_actives(
    observation: Observation, entries: Entries, restart: NextRestart
) -> dict[PartitionId, Ordinal]:
    """The actives that stay because their standbys have other rows: a person chooses the rows.

    A handover would change the rows that readers get, and a partition that gives up its standbys
    would keep a standby's rows. An active still leaves a pod that is removed, and one that
    restarts while the partition has standbys.
    """
    spec = observation.resource.spec
    return {
        number: entry.active
        for number, entry in unlike_entries(observation, entries).items()
        if entry.active < spec.replicas
        and (entry.active != restart.ordinal or spec.effective_standbys == 0)
    }


def as_if_done(
    entry: PartitionConfiguration, copies: int, stalled: Collection[Ordinal] = ()
) -> Placement:
    """The placement after the move that is under way; without the learners that are `stalled`."""
    replicas = tuple(pod for pod in entry.replicas if pod not in stalled)
    replicas = replicas[max(0, len(replicas) - copies) :]
    active = entry.active if entry.active in replicas else replicas[-1]
    return Placement(partition=entry.partition, active=active, replicas=replicas)


def with_active_last(
    before: PartitionConfiguration, entry: PartitionConfiguration, copies: int
) -> PartitionConfiguration:
    """The next configuration, with a changed active or changed replicas in their order.

    The active is the last replica, unless a move is under way: where fewer than these `copies` are
    asked for later, the first ones go, and the active stays.
    """
    is_same = (entry.active, entry.replicas) == (before.active, before.replicas)
    if is_same or len(entry.replicas) > copies:
        return entry
    return replace(entry, replicas=_active_last(entry.replicas, entry.active))


def _active_last(pods: Iterable[Ordinal], active: Ordinal) -> tuple[Ordinal, ...]:
    return tuple(sorted(pods, key=lambda pod: pod == active))


def _with_pin(placement: Placement, pins: Mapping[PartitionId, Ordinal]) -> Placement:
    """The placement with its active on the pod that is chosen for it."""
    pod = pins.get(placement.partition)
    if pod is None or pod == placement.active:
        return placement
    kept = [one for one in placement.replicas if one != pod]
    if pod not in placement.replicas:
        kept.remove(placement.active if len(kept) == 1 else kept[-1])
    return Placement(partition=placement.partition, active=pod, replicas=(pod, *kept))


def _without_actives_on(
    pod: Ordinal | None,
    placed: Iterable[Placement],
    entries: Entries,
    reports: Mapping[Ordinal, ReplicasReport],
) -> tuple[Placement, ...]:
    """The placements while pods restart: the actives of others than `pod` stay where they are.

    An active would otherwise be handed over once for each restart, and once for the balance.
    """
    loads = Counter(entry.active for entry in entries.values())
    found = []
    for one in placed:
        entry = entries[one.partition]
        active = entry.active if entry.active in one.replicas else one.active
        others = [other for other in one.replicas if other != pod and other in entry.in_sync]
        if active == pod and others:
            waits = {one: cannot_act_at_once(reports, one, entry) for one in others}
            active = min(others, key=lambda one: (waits[one], loads[one], one))
            loads[active] += 1
        rest = [other for other in one.replicas if other != active]
        found.append(changed(one, active=active, replicas=(active, *rest)))
    return tuple(found)


def _staying(
    entry: PartitionConfiguration, balanced: Placement, silent: Collection[Ordinal], copies: int
) -> Placement:
    """The replicas where they are; the balance's replicas in place of silent ones."""
    held = [pod for pod in entry.replicas if pod not in silent]
    missing = max(0, copies - len(held))
    more = [pod for pod in balanced.replicas if pod not in held and pod not in silent]
    replicas = (*held, *more[:missing])
    active = entry.active if entry.active in held else replicas[0]
    return Placement(partition=entry.partition, active=active, replicas=replicas)


def _without_removals(
    observation: Observation,
    entries: Entries,
    balanced: Mapping[PartitionId, Placement],
    restart: NextRestart,
    pins: Mapping[PartitionId, Ordinal],
) -> dict[PartitionId, Placement]:
    """The placements of partitions on pods that go: the replicas stay, and actives may move.

    A replica on a pod that is silent for long does not stay: the partition gets another one.
    """
    spec, silent = observation.resource.spec, long_silent(observation)
    if 2 * len(silent) >= len(observation.cluster.pods):
        silent = frozenset()  # The operator itself may be cut off.
    placed: Iterable[Placement] = [
        _staying(entry, balanced[number], silent, 1 + spec.effective_standbys)
        for number, entry in entries.items()
        if max(entry.replicas) >= spec.replicas
    ]
    if restart.is_rolling:
        placed = _without_actives_on(restart.ordinal, placed, entries, observation.reports)
    here = {number: pod for number, pod in pins.items() if pod in entries[number].replicas}
    return {one.partition: _with_pin(one, here) for one in placed}


def moved(observation: Observation, entries: Entries, targets: Targets) -> Entries:
    """The next configurations of the partitions that move, by partition.

    A partition without its replicas gets them at once; of replicas that only move,
    `rebalance.maxWarmupReplicas` are copied at the same time. A pause stops these moves, and they
    wait where others were published a moment ago. A pod that still has a replica which the
    partition has left gets the next one when that is deleted.
    """
    spec = observation.resource.spec
    copies = 1 + spec.effective_standbys
    full = full_pods(observation)
    room = spec.rebalance.max_warmup_replicas - sum(
        len(set(entry.replicas) - set(entry.in_sync))
        for entry in entries.values()
        if len(entry.replicas) > copies
    )
    found: dict[PartitionId, PartitionConfiguration] = {}
    for number, target in sorted(targets.placements.items()):
        entry = entries.get(number)
        if entry is None or not _is_served(observation.reports, entry):
            continue
        added = [pod for pod in target.replicas if pod not in entry.replicas]
        # A replica that the partition has left would come back with its own rows.
        if any(_is_left(observation.reports, pod, number) for pod in added):
            continue
        is_short = len(entry.replicas) - len(stalled_learners(observation, entry, full)) < copies
        if (spec.rebalance.paused or observation.moves_wait) and not is_short:
            continue
        if added and (is_short or len(added) <= room):
            room -= 0 if is_short else len(added)
            taken: PartitionConfiguration | None = _with_learners(entry, target, added)
        else:
            taken = None if added else _towards(observation.reports, entry, target)
        if taken is not None:
            found[number] = taken
    return found


def _is_left(
    reports: Mapping[Ordinal, ReplicasReport], pod: Ordinal, partition: PartitionId
) -> bool:
    """Whether a pod outside of the configuration has a replica, or waits to open one."""
    report = reports[pod]
    held = {one.configuration.partition for one in report.replicas}
    return partition in held | {one.partition for one in report.lost if one.is_waiting}


def is_placed(entry: PartitionConfiguration, target: Placement) -> bool:
    """Whether a partition is where it should be."""
    is_there = set(entry.replicas) == set(target.replicas)
    return is_there and entry.active == target.active


def _with_learners(
    entry: PartitionConfiguration, target: Placement, added: list[Ordinal]
) -> PartitionConfiguration:
    """Lists the replicas that go first: this order alone records the move. The active goes last."""
    going = [pod for pod in entry.replicas if pod not in target.replicas]
    staying = [pod for pod in entry.replicas if pod in target.replicas]
    ordered = [
        *_active_last(going, entry.active),
        *_active_last(staying, entry.active),
        *added,
    ]
    return _next(entry, replicas=tuple(ordered))


def _towards(
    reports: Mapping[Ordinal, ReplicasReport], entry: PartitionConfiguration, target: Placement
) -> PartitionConfiguration | None:
    """The next step of a partition whose replicas all exist; None where it waits, or is placed."""
    surplus = [pod for pod in entry.replicas if pod not in target.replicas]
    if learners := [pod for pod in surplus if pod not in entry.in_sync]:
        return _without(entry, learners)
    if not all(is_sound(reports, pod, entry) for pod in target.replicas):
        return None
    if entry.active != target.active:
        waits = cannot_act_at_once(reports, target.active, entry)
        return None if waits else _next(entry, active=target.active)
    return _without(entry, surplus) if surplus else None


def _without(entry: PartitionConfiguration, pods: list[Ordinal]) -> PartitionConfiguration:
    return _next(
        entry,
        in_sync=tuple(pod for pod in entry.in_sync if pod not in pods),
        replicas=tuple(pod for pod in entry.replicas if pod not in pods),
    )


def _next(entry: PartitionConfiguration, **changed: object) -> PartitionConfiguration:
    return replace(entry, epoch=Epoch(entry.epoch + 1), **changed)


def _is_served(reports: Mapping[Ordinal, ReplicasReport], entry: PartitionConfiguration) -> bool:
    active = replica_of(reports, entry.active, entry)
    return active is not None and active.state in SOUND
