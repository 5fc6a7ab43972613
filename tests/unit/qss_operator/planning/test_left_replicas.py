"""Replicas that no configuration names are deleted, unless they have what their active lacks."""

from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, Role, Sequence
from qss_core.wire.losses import DataLoss
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.model import ConditionType, Observation, RetireReplica
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_testing.fakes.control_world import (
    NOW,
    World,
    assignment_of,
    configuration,
    resource_of,
    spec_of,
)

_ROUNDS = 200
_SEQUENCE = Sequence(100)
LOSS = DataLoss(first=Sequence(5), last=Sequence(7), epoch=Epoch(1))
LATER = DataLoss(first=Sequence(90), last=Sequence(95), epoch=Epoch(3))
UNKNOWN = DataLoss(first=Sequence(90), last=Sequence(89), epoch=Epoch(3))


@dataclass(kw_only=True)
class LossyWorld(World):
    """Replicas that have taken accepted losses; all have the same sequence."""

    losses: dict[int, tuple[DataLoss, ...]] = field(default_factory=dict)  # By pod.

    def observation(self) -> Observation:
        seen = super().observation()
        reports = {pod: self._lossy(report) for pod, report in seen.reports.items()}
        return changed(seen, reports=reports)

    def _lossy(self, report: ReplicasReport) -> ReplicasReport:
        losses = self.losses.get(report.ordinal, ())

        def lossy(one: ReplicaReport) -> ReplicaReport:
            return replace(one, losses=losses, sequence=_SEQUENCE)

        return replace(report, replicas=tuple(map(lossy, report.replicas)))

    def ask_for(self, **spec: Any) -> None:
        self.resource = changed(self.resource, spec=spec_of(**spec))
        self.settle(_ROUNDS)


def running(world: World, partitions: int) -> None:
    world.settle(_ROUNDS)
    for pod in world.pods:
        pod.written = set(range(partitions))
    world.settle(_ROUNDS)


def reason(world: World, kind: ConditionType) -> str:
    condition = world.status().condition(kind)
    assert condition is not None
    return condition.reason


def test_standbys_come_back_after_an_accepted_loss() -> None:
    """The replicas that leave have followed their active through the loss."""
    spec = {"replicas": 3, "partitions": 3}
    world = LossyWorld(resource=resource_of(spec_of(**spec, standbys=1)))
    running(world, 3)
    world.losses = dict.fromkeys(range(3), (LOSS,))
    world.ask_for(**spec, standbys=0)
    assert [len(pod.held) for pod in world.pods] == [1, 1, 1]
    assert reason(world, ConditionType.DEGRADED) != "LeftReplicaHasMore"
    world.ask_for(**spec, standbys=1)
    assert {len(entry.in_sync) for entry in assignment_of(world)} == {2}
    assert reason(world, ConditionType.REBALANCING) == "NothingToMove"


@pytest.mark.parametrize(
    ("of_active", "of_left", "is_kept"),
    [
        ((LOSS,), (), True),
        ((LOSS,), (LOSS,), False),
        ((LOSS, LATER), (LOSS,), True),
        ((LOSS, UNKNOWN), (LOSS,), False),
        ((UNKNOWN, LOSS), (UNKNOWN,), True),
        ((), (LOSS,), False),
    ],
)
def test_a_left_replica_is_kept_for_batches_beyond_the_losses_that_it_has_not_taken(
    of_active: tuple[DataLoss, ...], of_left: tuple[DataLoss, ...], *, is_kept: bool
) -> None:
    """A person has accepted that the batches of each loss are gone, and no more than these."""
    spec = {"replicas": 2, "partitions": 1}
    world = LossyWorld(resource=resource_of(spec_of(**spec, standbys=1)))
    running(world, 1)
    (entry,) = assignment_of(world)
    (other,) = set(entry.replicas) - {entry.active}
    world.losses = {entry.active: of_active, other: of_left}
    world.ask_for(**spec, standbys=0)
    holders = {pod.ordinal for pod in world.pods if pod.held}
    assert holders == ({0, 1} if is_kept else {entry.active})


def test_a_condition_on_a_loss_names_the_left_replica_that_has_the_batches() -> None:
    """The active's volume went back, and after the acceptance the left replica is deleted."""
    spec = {"replicas": 2, "partitions": 1}
    world = LossyWorld(resource=resource_of(spec_of(**spec, standbys=1)))
    running(world, 1)
    world.resource = changed(world.resource, spec=spec_of(**spec, standbys=0))
    while not any(isinstance(step, RetireReplica) for step in plan(world.observation())):
        for step in plan(world.observation()):
            world.apply(step)
    seen = world.observation()
    (entry,) = assignment_of(world)
    report = seen.reports[entry.active]
    older = replace(report.replicas[0], state="behind", sequence=Sequence(90), completed=_SEQUENCE)
    behind = replace(report, replicas=(older,))
    seen = changed(seen, reports={**seen.reports, entry.active: behind})
    condition = status_of(seen, NOW).condition(ConditionType.DEGRADED)
    assert condition is not None
    assert condition.reason == "PartitionRolledBack"
    (other,) = {0, 1} - {entry.active}
    assert f"left word-counts-{other}, whose replica has sequence 100" in condition.message
    assert (
        "replica that was left is deleted after an accepted loss: make its pod the active"
        in condition.message
    )


@dataclass(kw_only=True)
class AwayWorld(World):
    """Actives report that these standbys have taken nothing for long."""

    away: set[int] = field(default_factory=set)

    def observation(self) -> Observation:
        seen = super().observation()

        def told(one: ReplicaReport) -> ReplicaReport:
            standbys = [pod for pod in one.configuration.in_sync if pod in self.away]
            return replace(one, silent=tuple(standbys)) if one.role is Role.ACTIVE else one

        reports = {
            pod: replace(report, replicas=tuple(map(told, report.replicas)))
            for pod, report in seen.reports.items()
        }
        silent_s = {pod.ordinal: 3600.0 for pod in self.pods if not pod.is_reachable}
        return changed(seen, reports=reports, silent_s=silent_s)


def with_a_left_replica() -> AwayWorld:
    """Partition 0 is on pods 0 and 2, and has a replica left on pod 1."""
    world = AwayWorld(resource=resource_of(spec_of(replicas=3, partitions=1, standbys=1)))
    running(world, 1)
    pods = (Ordinal(0), Ordinal(2))
    entry = configuration(0, pods[0], epoch=9, others=pods[1:])
    status = world.resource.status
    assert status is not None
    world.resource = changed(world.resource, status=replace(status, assignment=(entry,)))
    for pod in world.pods:
        pod.held, pod.store_id, pod.written = (entry,), world.resource.store_id, {0}
    return world


@pytest.mark.parametrize("fault", ["lost", "waiting", "silent"])
def test_a_pod_is_emptied_although_its_standby_does_not_open_and_its_successor_has_an_old_one(
    fault: str,
) -> None:
    """The old replica is deleted before its pod gets a new one, also where a learner is away."""
    world = with_a_left_replica()
    world.away = {2}
    world.pods[2].is_reachable = fault != "silent"
    world.pods[2].lost = {} if fault == "silent" else {0: "the files are not readable"}
    world.pods[2].waiting = {0} if fault == "waiting" else set()
    world.resource = changed(world.resource, spec=spec_of(replicas=2, partitions=1, standbys=1))
    steps: list[type] = []
    while todo := plan(world.observation()):
        assert len(steps) < _ROUNDS
        for step in todo:
            if isinstance(step, RetireReplica):
                assert step.ordinal == 1
                assert {*assignment_of(world)[0].replicas} == {0, 2}, "a new replica waits"
            steps.append(type(step))
            world.apply(step)
    assert steps.count(RetireReplica) == 1
    assert len(world.pods) == 2
    assert {*assignment_of(world)[0].in_sync} == {0, 1}


def test_a_left_replica_stays_while_an_in_sync_replica_does_not_know_that_it_has_left() -> None:
    world = with_a_left_replica()
    (entry,) = assignment_of(world)
    world.pods[2].held = (replace(entry, epoch=Epoch(8)),)
    assert RetireReplica not in {type(step) for step in plan(world.observation())}
    world.pods[2].held = (entry,)
    assert RetireReplica in {type(step) for step in plan(world.observation())}
