"""The operator and partitions whose replicas have other rows: a person decides which rows stay."""

from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionId,
    Role,
    Sequence,
)
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport, UnlikeRows
from qss_operator.planning.findings.obstacles import unlike_message
from qss_operator.planning.model import (
    ConditionType,
    Observation,
    PublishAssignment,
    RetireReplica,
)
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, assignment_of, resource_of, spec_of

_ROUNDS = 200


@dataclass(kw_only=True)
class UnlikeWorld(World):
    """All actives say that their standbys have other rows, until a partition has had none."""

    equal: set[int] = field(default_factory=set)  # Partitions whose standbys are new copies.
    led: dict[int, set[int]] = field(default_factory=dict)  # The actives that readers had.
    compared: tuple[Ordinal, ...] = ()  # The pods of the alarm; else those of the configuration.

    def observation(self) -> Observation:
        seen = super().observation()
        reports = {pod: self._unlike(report) for pod, report in seen.reports.items()}
        return changed(seen, reports=reports)

    def _unlike(self, report: ReplicasReport) -> ReplicasReport:
        return replace(report, replicas=tuple(self._told(one) for one in report.replicas))

    def _told(self, one: ReplicaReport) -> ReplicaReport:
        held = one.configuration
        if len(held.replicas) == 1:
            self.equal.add(held.partition)
        if one.role is not Role.ACTIVE or held.partition in self.equal:
            return one
        self.led.setdefault(held.partition, set()).add(held.active)
        unlike = UnlikeRows(
            pods=self.compared or held.replicas,
            epoch=held.epoch,
            sequence=Sequence(17),
            offset=Offset(33),
        )
        return replace(one, unlike=unlike)

    def run(self) -> None:
        """Plans and applies until no step is left."""
        self.settle(_ROUNDS)

    def ask_for(self, **spec: Any) -> None:
        self.resource = changed(self.resource, spec=spec_of(**spec))


def running(**spec: Any) -> UnlikeWorld:
    world = UnlikeWorld(resource=resource_of(spec_of(**spec)))
    world.run()
    for pod in world.pods:
        pod.written = set(range(world.resource.spec.partitions))
    return world


def actives_of(world: World) -> dict[PartitionId, Ordinal]:
    return {entry.partition: entry.active for entry in assignment_of(world)}


@pytest.mark.parametrize("pods", [2, 3])
@pytest.mark.parametrize("standbys", [1, 2])
@pytest.mark.parametrize("is_rolling", [False, True])
def test_a_store_without_standbys_for_a_while_keeps_the_rows_of_all_its_actives(
    pods: int, standbys: int, *, is_rolling: bool
) -> None:
    """It is what the message tells a person: a pod's volume may have rows of other partitions."""
    world = running(replicas=pods, standbys=standbys, partitions=6)
    world.template = 1
    world.run()  # Actives are handed over meanwhile.
    before = actives_of(world)
    world.template += is_rolling
    world.led.clear()
    world.ask_for(replicas=pods, standbys=0, partitions=6)
    world.run()
    assert world.led == {partition: {active} for partition, active in before.items()}
    assert world.equal == {*before}
    for pod in world.pods:
        led = {entry.partition for entry in assignment_of(world) if entry.active == pod.ordinal}
        assert {one.partition for one in pod.held} == led, "no standby is left on a volume"
    assert {pod.template for pod in world.pods} == {world.template}
    world.ask_for(replicas=pods, standbys=standbys, partitions=6)
    world.run()
    assert {len(entry.in_sync) for entry in assignment_of(world)} == {1 + min(standbys, pods - 1)}


def test_the_rows_that_readers_get_do_not_change_for_the_balance_of_the_actives() -> None:
    world = running(replicas=2, standbys=1, partitions=4)
    world.pods[1].is_reachable, world.silent_s = False, {Ordinal(1): 3600.0}
    world.run()
    world.pods[1].is_reachable, world.silent_s = True, {}
    world.run()
    assert {len(entry.in_sync) for entry in assignment_of(world)} == {2}
    assert {*actives_of(world).values()} == {0}
    world.resource = changed(world.resource, actives="3=1")
    world.run()
    assert actives_of(world) == {0: 0, 1: 0, 2: 0, 3: 1}, "a person chooses a standby's rows"


def test_a_restart_hands_an_active_over_although_its_standbys_have_other_rows() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    world.template = 1
    world.run()
    assert {pod.template for pod in world.pods} == {1}


def test_a_standby_that_is_not_deleted_yet_does_not_come_back_with_its_rows() -> None:
    """A person who sets the old number again too early gets new copies all the same."""
    world = running(replicas=2, standbys=1, partitions=2)
    world.ask_for(replicas=2, standbys=0, partitions=2)
    steps = plan(world.observation())
    while any(not isinstance(step, RetireReplica) for step in steps):
        for step in steps:
            if not isinstance(step, RetireReplica):
                world.apply(step)
        steps = plan(world.observation())
    assert {len(entry.replicas) for entry in assignment_of(world)} == {1}
    world.ask_for(replicas=2, standbys=1, partitions=2)
    late = plan(world.observation())
    assert [type(step) for step in late] == [RetireReplica, RetireReplica]
    for step in late:
        world.apply(step)
    assert [len(pod.held) for pod in world.pods] == [1, 1]
    world.run()
    assert {len(entry.in_sync) for entry in assignment_of(world)} == {2}


def test_a_replica_that_waits_for_room_does_not_come_back_with_its_rows() -> None:
    world = running(replicas=2, standbys=0, partitions=1)
    (entry,) = assignment_of(world)
    (other,) = [pod for pod in world.pods if pod.ordinal != entry.active]
    other.held, other.lost, other.waiting = (entry,), {0: "the volume is full"}, {0}
    world.ask_for(replicas=2, standbys=1, partitions=1)
    assert not [step for step in plan(world.observation()) if isinstance(step, PublishAssignment)]
    other.lost, other.waiting = {}, set()
    assert RetireReplica in {type(step) for step in plan(world.observation())}
    world.run()
    assert {len(one.in_sync) for one in assignment_of(world)} == {2}


def replicas_of(world: World) -> dict[PartitionId, set[Ordinal]]:
    return {entry.partition: {*entry.replicas} for entry in assignment_of(world)}


def test_a_store_that_grows_deletes_no_replica_that_may_have_the_right_rows() -> None:
    world = running(replicas=2, standbys=1, partitions=3)
    before = replicas_of(world)
    world.ask_for(replicas=3, standbys=1, partitions=3)
    world.run()
    assert replicas_of(world) == before
    told = world.status().condition(ConditionType.REBALANCING)
    assert told is not None
    assert told.message == "partition 0, 1 stays while its replicas differ: see Degraded"
    world.equal = {0, 1, 2}  # Its rows were written again.
    world.run()
    assert {len(pods) for pods in replicas_of(world).values()} == {2}
    assert any(2 in pods for pods in replicas_of(world).values()), "the moves go on"


def test_fewer_standbys_and_a_wish_for_a_pod_without_the_rows_wait_for_a_person() -> None:
    world = running(replicas=4, standbys=2, partitions=1)
    before = replicas_of(world)
    (other,) = {0, 1, 2, 3} - before[PartitionId(0)]
    world.resource = changed(world.resource, actives=f"0={other}")
    world.ask_for(replicas=4, standbys=1, partitions=1)
    world.run()
    assert replicas_of(world) == before
    told = world.status().condition(ConditionType.REBALANCING)
    assert told is not None
    assert told.message == (
        "partition 0 stays while its replicas differ: see Degraded; "
        f"0={other} of queryablestate.dev/actives waits: that pod has no replica"
    )
    chosen = next(iter(before[PartitionId(0)] - {*actives_of(world).values()}))
    world.resource = changed(world.resource, actives=f"0={chosen}")
    world.run()
    assert (replicas_of(world), actives_of(world)) == (before, {0: chosen})


def test_a_wish_for_a_pod_without_the_rows_is_named_where_nothing_else_would_move() -> None:
    world = running(replicas=4, standbys=1, partitions=1)
    (other, _) = sorted({0, 1, 2, 3} - replicas_of(world)[PartitionId(0)])
    world.resource = changed(world.resource, actives=f"0={other}")
    assert plan(world.observation()) == []
    told = world.status().condition(ConditionType.REBALANCING)
    assert told is not None
    assert (told.reason, told.message.split("; ")[1:]) == (
        "NothingToMove",
        [f"0={other} of queryablestate.dev/actives waits: that pod has no replica"],
    )
    world.equal = {0}
    world.run()
    assert actives_of(world) == {0: other}


def test_a_pod_that_is_removed_is_emptied_although_its_replicas_differ() -> None:
    world = running(replicas=3, standbys=1, partitions=3)
    world.ask_for(replicas=2, standbys=1, partitions=3)
    world.run()
    assert len(world.pods) == 2
    assert {frozenset(entry.in_sync) for entry in assignment_of(world)} == {frozenset({0, 1})}


def test_a_dead_active_is_replaced_although_its_replicas_differ() -> None:
    world = running(replicas=2, standbys=1, partitions=2)
    before = replicas_of(world)
    world.pods[0].is_reachable, world.silent_s = False, {Ordinal(0): 3600.0}
    world.run()
    assert {*actives_of(world).values()} == {1}
    assert replicas_of(world) == before


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_left_replica_that_was_compared_is_kept_until_a_person_gives_up_the_standbys(
    standbys: int,
) -> None:
    """The alarm of its partition may come when the replica has left, and is not deleted yet."""
    world = running(replicas=3, standbys=1, partitions=1)
    (entry,) = assignment_of(world)
    (other,) = {0, 1, 2} - {*entry.replicas}
    left = replace(entry, epoch=Epoch(entry.epoch + 1))
    status = world.resource.status
    assert status is not None
    world.resource = changed(world.resource, status=replace(status, assignment=(left,)))
    for pod in world.pods:
        pod.held, pod.written = (left,), {0}
    world.compared = tuple(map(Ordinal, (0, 1, 2)))
    world.ask_for(replicas=3, standbys=standbys, partitions=1)
    world.run()
    holders = {pod.ordinal for pod in world.pods if pod.held}
    assert (other in holders) is (standbys == 1)
    assert holders == ({0, 1, 2} if standbys else {entry.active})


def test_the_message_names_the_pod_of_each_active() -> None:
    world = running(replicas=2, standbys=1, partitions=2)
    assert actives_of(world) == {0: 0, 1: 1}
    said = unlike_message(world.observation())
    assert said is not None
    epochs = [entry.epoch for entry in assignment_of(world)]
    assert (
        f"partition 0: active word-counts-0, compared with pod 1 (epoch {epochs[0]}, batch 17"
        in said
    )
    assert (
        f"partition 1: active word-counts-1, compared with pod 0 (epoch {epochs[1]}, batch 17"
        in said
    )


def test_the_message_says_what_to_do_also_for_many_partitions() -> None:
    """A condition's message has at most 1024 characters."""
    world = running(replicas=5, standbys=4, partitions=64)
    said = unlike_message(world.observation())
    assert said is not None
    assert len(said) <= 1024
    assert "and 61 more" in said
    assert "set spec.standbys to 0" in said
    assert "wait until Rebalancing says NothingToMove" in said
    assert said.endswith("Leave the volumes alone: each has the rows of other partitions, too")
