"""Words the moves between pods: moves that run, moves that wait, and the reasons. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.text import listed
from qss_core.wire.replica_reports import CopyReport, ReplicasReport
from qss_operator.planning.annotations import (
    ACTIVES_ANNOTATION,
    IGNORED_RULES_ANNOTATION,
    how_to_annotate,
)
from qss_operator.planning.findings.full_volumes import VOLUME_FULL
from qss_operator.planning.membership.moves import full_pods, is_placed, targets_of
from qss_operator.planning.membership.pins import waiting_pins
from qss_operator.planning.membership.restarts import next_restart
from qss_operator.planning.membership.retirements import kept_replicas
from qss_operator.planning.model import (
    ConditionStatus,
    Finding,
    Moves,
    MovingReplica,
    Observation,
)
from qss_operator.planning.placement.sites import Placement
from qss_operator.planning.scaling import ENOUGH_ROOM, pods_to_empty

NOTHING_TO_MOVE = "NothingToMove"
NODE_CORDONED = "NodeCordoned"
MOVING = "Moving"
PAUSED = "Paused"
DRAINING = "Draining"
NOT_ENOUGH_ROOM = "NotEnoughRoom"
WAITING_FOR_PODS = "WaitingForPods"
_SHOWN = 5  # Moves that a message names.
_PARTITIONS_SHOWN = 10
_REPLICAS_SHOWN = 20  # The limit of the status, as in the CRD.
_RUNNING, _WAITING = "running", "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """The partitions that are not where they should be.

    `running` have more replicas than the spec asks for, or a learner; `pending` wait for a turn.
    `leaving` are replicas that no configuration names and that are not deleted yet: a new standby
    there waits for that.
    """

    running: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    replicas: tuple[MovingReplica, ...] = ()  # The replicas whose moves run first.
    waits_for: str | None = None
    is_paused: bool = False
    held_up: tuple[PartitionId, ...] = ()  # They stay while the rows of their replicas differ.
    on_one_node: tuple[str, ...] = ()  # Partitions with replicas that share a node.
    in_one_zone: tuple[str, ...] = ()  # Further ones with replicas that share a zone.
    without_pod: tuple[str, ...] = ()  # Wishes for actives on pods that are not there.
    without_rows: tuple[str, ...] = ()  # Wishes for pods without a replica that may be right.
    without_room: tuple[str, ...] = ()  # Pods that cannot take the replicas of pods that go.
    kept_empty: tuple[str, ...] = ()  # Pods that get no replicas while they are closed.
    are_full: bool = False  # Whether all of these have full volumes.
    on_closed: tuple[str, ...] = ()  # New replicas that are made on closed pods.

    @property
    def moves(self) -> Moves:
        running = len(self.running) + len(self.leaving)
        return Moves(
            running=running, pending=len(self.pending), replicas=self.replicas[:_REPLICAS_SHOWN]
        )

    @property
    def moving(self) -> str:
        """The moves that run, of all that are left, as the status shows them."""
        moves = self.moves
        return f"{moves.running}/{moves.running + moves.pending}"

    @property
    def is_over(self) -> bool:
        return self.moves == Moves(running=0, pending=0) and self.waits_for is None

    def finding(self) -> Finding:
        """The condition Rebalancing, with the moves in words."""
        yes, no = ConditionStatus.TRUE, ConditionStatus.FALSE
        all_moves = [*self.running, *self.pending]
        closed = [_told([*group]) for group in (self.kept_empty, self.on_closed) if group]
        if self.is_paused and all_moves:
            return no, PAUSED, f"spec.rebalance.paused holds up {_told(all_moves)}"
        if all_moves or self.leaving:
            return yes, MOVING, "; ".join([_told([*all_moves, *self.leaving]), *closed])
        if self.waits_for is not None:
            return no, "WaitingForPods", f"nothing moves: waiting for {self.waits_for}"
        said = self._at_rest(closed)
        if self.kept_empty:
            return no, VOLUME_FULL if self.are_full else NODE_CORDONED, said
        return no, NOTHING_TO_MOVE, said

    def _at_rest(self, closed: list[str]) -> str:
        """The message while nothing moves and nothing waits for a pod."""
        said = "; ".join(closed) or "every replica is where it should be"
        if self.without_room:
            said = f"replicas stay on pods that are to be removed, by the rule {ENOUGH_ROOM}"
        if self.held_up:
            numbers = listed([str(number) for number in self.held_up])
            said = f"partition {numbers} stays while its replicas differ: see Degraded"
        if self.on_one_node:
            numbers = listed(list(self.on_one_node), _PARTITIONS_SHOWN)
            said = f"{said}; replicas of partition {numbers} share a node, and fail with it"
        if self.in_one_zone:
            numbers = listed(list(self.in_one_zone), _PARTITIONS_SHOWN)
            said = f"{said}; replicas of partition {numbers} share a zone, and fail with it"
        if self.without_pod:
            asked = listed(list(self.without_pod))
            said = f"{said}; {asked} of {ACTIVES_ANNOTATION} waits for that pod"
        if self.without_rows:
            asked = listed(list(self.without_rows), _PARTITIONS_SHOWN)
            said = f"{said}; {asked} of {ACTIVES_ANNOTATION} waits: that pod has no replica"
        return said

    def blocked(self, observation: Observation) -> Finding:
        """The condition ScaleDownBlocked, with the obstacle to the removal of pods."""
        no = ConditionStatus.FALSE
        left = pods_to_empty(observation)
        if not left:
            return no, "NoScaleDown", "no pod is to be removed"
        names = listed([f"{observation.resource.name}-{pod}" for pod in left])
        if self.without_room and not self.is_paused:
            return (
                ConditionStatus.TRUE,
                NOT_ENOUGH_ROOM,
                self._short_of_room(observation, names, left),
            )
        why = "spec.rebalance.paused is true" if self.is_paused else None
        if self.waits_for is not None:
            why = f"waiting for {self.waits_for}"
        if why is None:
            return no, DRAINING, f"{names} is emptied: its replicas move to the other pods"
        return (
            ConditionStatus.TRUE,
            PAUSED if self.is_paused else WAITING_FOR_PODS,
            f"{names} cannot be emptied: {why}. To keep the pods, set spec.replicas to "
            f"{max(left) + 1}",
        )

    def _short_of_room(self, observation: Observation, names: str, left: Sequence[Ordinal]) -> str:
        override = how_to_annotate(observation, IGNORED_RULES_ANNOTATION, ENOUGH_ROOM)
        larger = "make the volumes larger (spec.storage.size)"
        if observation.cluster.local_option is not None:
            larger = "give the state directory a larger volume"
        return (
            f"{names} cannot be emptied, by the rule {ENOUGH_ROOM}: "
            f"{listed(list(self.without_room), _SHOWN)}. Free space or {larger}, or keep "
            f"the pods with spec.replicas {max(left) + 1}. To move the replicas all the "
            f"same: {override}"
        )


def rebalance_of(
    observation: Observation,
    partitions: tuple[PartitionConfiguration, ...],
    unclear: Collection[PartitionId] = (),
) -> Rebalance:
    """The moves that run and the moves that wait, by the configurations that hold.

    An `unclear` partition does not move: pods dispute its configuration.
    """
    entries = {entry.partition: entry for entry in partitions}
    targets = targets_of(observation, entries, next_restart(observation, entries))
    full = full_pods(observation)
    on_one_node = tuple(_on_one_node(observation, partitions))
    running: list[str] = []
    pending: list[str] = []
    replicas: list[MovingReplica] = []
    for number, target in sorted(targets.placements.items()):
        entry = entries[number]
        if number in unclear or is_placed(entry, target):
            continue
        has_begun = set(entry.replicas) >= set(target.replicas)
        (running if has_begun else pending).append(_move(observation, entry, target))
        replicas += _replicas(observation, entry, target)
    return Rebalance(
        running=tuple(running),
        pending=tuple(pending),
        replicas=tuple(sorted(replicas, key=lambda one: one.state)),
        leaving=tuple(
            _leaving(observation, [one for one in partitions if one.partition not in unclear])
        ),
        held_up=targets.held_up,
        without_room=targets.without_room,
        waits_for=targets.waits_for,
        is_paused=observation.resource.spec.rebalance.paused,
        on_one_node=on_one_node,
        in_one_zone=tuple(
            number for number in _in_one_zone(observation, partitions) if number not in on_one_node
        ),
        without_pod=tuple(waiting_pins(observation)),
        without_rows=tuple(f"{number}={pod}" for number, pod in sorted(targets.rowless.items())),
        kept_empty=tuple(
            f"{pod.address.name} gets no replica while its volume is full: it waits for room, see "
            "Degraded"
            if pod.ordinal in full
            else f"{pod.address.name} gets no replica while its node is cordoned: it waits for "
            f"`kubectl uncordon {pod.node}`"
            for pod in observation.cluster.pods
            if pod.ordinal in targets.kept_empty
        ),
        are_full=full >= {*targets.kept_empty},
        on_closed=tuple(_on_closed(observation, partitions, full, targets.placements)),
    )


def _on_closed(
    observation: Observation,
    partitions: Sequence[PartitionConfiguration],
    full: Collection[Ordinal],
    targets: Mapping[PartitionId, Placement],
) -> Iterator[str]:
    """Words the replicas that are being made on closed pods, by pod."""
    for pod in observation.cluster.pods:
        learned = [
            entry.partition
            for entry in partitions
            if pod.ordinal in entry.replicas and pod.ordinal not in entry.in_sync
        ]
        goes = [
            one for one in learned if one in targets and pod.ordinal not in targets[one].replicas
        ]
        if goes and pod.ordinal in full:
            numbers = listed([str(number) for number in goes], _PARTITIONS_SHOWN)
            yield (
                f"the volume of {pod.address.name} has no room for the copy of partition "
                f"{numbers}: another pod gets it"
            )
        made = [str(one) for one in learned if pod.ordinal not in full or one not in goes]
        why = f"its node {pod.node} is cordoned" if pod.is_cordoned else None
        why = "its volume is full" if pod.ordinal in full else why
        if why is not None and made:
            numbers = listed(made, _PARTITIONS_SHOWN)
            yield (
                f"{pod.address.name} gets a replica of partition {numbers} although {why}: no "
                "other pod can take it, or the copy had begun"
            )


def _on_one_node(
    observation: Observation, partitions: Sequence[PartitionConfiguration]
) -> Iterator[str]:
    node_of = {pod.ordinal: pod.node for pod in observation.cluster.pods if pod.node}
    return _shared(node_of, partitions)


def _in_one_zone(
    observation: Observation, partitions: Sequence[PartitionConfiguration]
) -> Iterator[str]:
    """The partitions whose replicas share a zone, where the pods are in several."""
    zone_of = {pod.ordinal: pod.zone for pod in observation.cluster.pods if pod.zone}
    return _shared(zone_of, partitions) if len(set(zone_of.values())) > 1 else iter(())


def _shared(
    place_of: Mapping[Ordinal, str], partitions: Sequence[PartitionConfiguration]
) -> Iterator[str]:
    for entry in partitions:
        places = [place_of[pod] for pod in entry.replicas if pod in place_of]
        if len(set(places)) < len(places):
            yield str(entry.partition)


def _leaving(observation: Observation, certain: Sequence[PartitionConfiguration]) -> list[str]:
    """Words the replicas on pods that their partition's configuration does not name.

    Kept replicas are left out: `Degraded` says why, and no move ends before a person has acted.
    """
    resource = observation.resource
    kept = kept_replicas(observation, tuple(certain))
    entries = {entry.partition: entry for entry in certain}
    left = [
        (partition, pod, why)
        for pod, report in observation.reports.items()
        if report.store_id == resource.store_id
        for partition, why in _held(report).items()
        if partition in entries
        and entries[partition].role_of(pod) is None
        and (pod, partition) not in kept
    ]
    return [
        f"partition {partition}: leaves {resource.name}-{pod}{why}"
        for partition, pod, why in sorted(left)
    ]


def _held(report: ReplicasReport) -> dict[PartitionId, str]:
    """The partitions that a pod has a replica of, with why it is not deleted yet, or ""."""
    held = {one.configuration.partition: "" for one in report.replicas}
    waits = {
        one.partition: f", when it is open: {one.error}" for one in report.lost if one.is_waiting
    }
    return held | waits


def _move(observation: Observation, entry: PartitionConfiguration, target: Placement) -> str:
    """Words the move of a partition, as `partition 3: words-0 to words-2`."""
    going = [pod for pod in entry.replicas if pod not in target.replicas]
    added = [pod for pod in target.replicas if pod not in entry.in_sync]
    if entry.active != target.active and not added:
        going, added = [entry.active], [target.active]
    name = observation.resource.name
    where = listed([f"{name}-{pod}" for pod in added])
    source = listed([f"{name}-{pod}" for pod in going])
    if not added:
        return f"partition {entry.partition}: leaves {source}"
    progress = _progress(observation, entry, added)
    if not going:
        return f"partition {entry.partition}: a replica for {where}{progress}"
    return f"partition {entry.partition}: {source} to {where}{progress}"


def _replicas(
    observation: Observation, entry: PartitionConfiguration, target: Placement
) -> Iterator[MovingReplica]:
    """The replicas that a move makes; where it makes none, the replica that becomes the active."""
    added = [pod for pod in target.replicas if pod not in entry.in_sync]
    if not added and entry.active != target.active:
        added = [target.active]
    for pod in added:
        state = _RUNNING if pod in entry.replicas else _WAITING
        copy = _copy(observation, entry, pod)
        if copy is None:
            yield MovingReplica(partition=entry.partition, pod=pod, state=state)
            continue
        percent = 10 * min(10, 10 * copy.done_bytes // max(1, copy.total_bytes))
        yield MovingReplica(
            partition=entry.partition,
            pod=pod,
            state=state,
            done_bytes=copy.total_bytes * percent // 100,
            total_bytes=copy.total_bytes,
            percent=percent,
        )


def _copy(
    observation: Observation, entry: PartitionConfiguration, pod: Ordinal
) -> CopyReport | None:
    report = observation.reports.get(pod)
    copies = () if report is None else report.copies
    return next((one for one in copies if one.partition == entry.partition), None)


def _progress(observation: Observation, entry: PartitionConfiguration, added: list[Ordinal]) -> str:
    """The share of the database that was copied, in tenths, so that few statuses are written."""
    shares = [
        copy.done_bytes / max(1, copy.total_bytes)
        for pod in added
        if (copy := _copy(observation, entry, pod)) is not None
    ]
    return f" ({int(10 * min(shares)) * 10} % copied)" if shares else ""


def _told(moves: list[str]) -> str:
    more = len(moves) - _SHOWN
    shown = "; ".join(moves[:_SHOWN])
    return f"{shown}; and {more} more" if more > 0 else shown
