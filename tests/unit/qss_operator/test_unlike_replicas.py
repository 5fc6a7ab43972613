"""The operator and partitions whose replicas have other rows: a person decides which rows stay."""

from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from qss_core.model import (
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    Role,
    Sequence,
)
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport, UnlikeRows
from qss_operator.planning.findings.obstacles import unlike_message
from qss_operator.planning.model import Observation
from qss_testing.fakes.control_world import World, resource_of, spec_of

_ROUNDS = 200


@dataclass(kw_only=True)
class UnlikeWorld(World):
    """All actives say that their standbys have other rows, until a partition has had none."""

    equal: set[int] = field(default_factory=set)  # Partitions whose standbys are new copies.
    led: dict[int, set[int]] = field(default_factory=dict)  # The actives that readers had.
    silent_s: dict[Ordinal, float] = field(default_factory=dict)

    def observation(self) -> Observation:
        seen = super().observation()
        reports = {pod: self._unlike(report) for pod, report in seen.reports.items()}
        return changed(seen, reports=reports, silent_s=self.silent_s)

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
            pods=held.replicas, epoch=held.epoch, sequence=Sequence(17), offset=Offset(33)
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


def entries_of(world: World) -> tuple[PartitionConfiguration, ...]:
    status = world.resource.status
    assert status is not None
    assert status.assignment is not None
    return status.assignment


def actives_of(world: World) -> dict[PartitionId, Ordinal]:
    return {entry.partition: entry.active for entry in entries_of(world)}


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
        led = {entry.partition for entry in entries_of(world) if entry.active == pod.ordinal}
        assert {one.partition for one in pod.held} == led, "no standby is left on a volume"
    assert {pod.template for pod in world.pods} == {world.template}
    world.ask_for(replicas=pods, standbys=standbys, partitions=6)
    world.run()
    assert {len(entry.in_sync) for entry in entries_of(world)} == {1 + min(standbys, pods - 1)}


def test_the_rows_that_readers_get_do_not_change_for_the_balance_of_the_actives() -> None:
    world = running(replicas=2, standbys=1, partitions=4)
    world.pods[1].is_reachable, world.silent_s = False, {Ordinal(1): 3600.0}
    world.run()
    world.pods[1].is_reachable, world.silent_s = True, {}
    world.run()
    assert {len(entry.in_sync) for entry in entries_of(world)} == {2}
    assert {*actives_of(world).values()} == {0}
    world.resource = changed(world.resource, actives="3=1")
    world.run()
    assert actives_of(world) == {0: 0, 1: 0, 2: 0, 3: 1}, "a person chooses a standby's rows"


def test_a_restart_hands_an_active_over_although_its_standbys_have_other_rows() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    world.template = 1
    world.run()
    assert {pod.template for pod in world.pods} == {1}


def test_the_message_names_the_pod_of_each_active() -> None:
    world = running(replicas=2, standbys=1, partitions=2)
    assert actives_of(world) == {0: 0, 1: 1}
    said = unlike_message(world.observation())
    assert said is not None
    epochs = [entry.epoch for entry in entries_of(world)]
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
    assert said.endswith("Leave the volumes alone: each has the rows of other partitions, too")
