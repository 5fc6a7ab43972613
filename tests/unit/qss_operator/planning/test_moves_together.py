"""Changes of moves are published together, once a second; changes that a fault needs, at once."""

from dataclasses import dataclass, field
from dataclasses import replace as changed
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_core.spec.resource import RebalanceSpec
from qss_operator.planning.model import PublishAssignment, StoreResource, StoreStatus
from qss_operator.planning.plan import plan
from qss_operator.reconcile.reconciler import StoreReconciler
from qss_testing.fakes.control_world import World, assignment_of, resource_of, running, say, spec_of
from qss_testing.fakes.simulated_pod import STORE

_ROUND_S = 0.2
_ROUNDS_MAX = 1000


@dataclass(kw_only=True)
class Dated(World):
    """A world that keeps when each assignment was published."""

    assigned_s: list[float] = field(default_factory=list)

    async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
        before = self.resource.status and self.resource.status.assignment
        await super().publish(resource, status)
        if status.assignment != before:
            self.assigned_s.append(self.seconds)


async def settled(**spec: Any) -> tuple[Dated, StoreReconciler]:
    world = Dated(resource=resource_of(spec_of(**spec)))
    reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
    await settle(world, reconciler)
    world.assigned_s.clear()
    return world, reconciler


async def settle(world: World, reconciler: StoreReconciler) -> None:
    for _ in range(_ROUNDS_MAX):
        if await reconciler.run_round():
            return
        world.seconds += _ROUND_S
    raise AssertionError("not settled")


async def test_a_scale_publishes_its_changes_once_a_second_for_all_partitions() -> None:
    rebalance = RebalanceSpec(max_warmup_replicas=64)
    world, reconciler = await settled(partitions=12, replicas=4, standbys=1, rebalance=rebalance)
    grown = spec_of(partitions=12, replicas=5, standbys=1, rebalance=rebalance)
    world.resource = changed(world.resource, spec=grown, generation=2)
    await settle(world, reconciler)
    assert all(after - before >= 1.0 for before, after in pairwise(world.assigned_s))
    # A learner, its join, a handover, a removal.
    assert len(world.assigned_s) == 4
    assert {pod for one in assignment_of(world) for pod in one.replicas} == {0, 1, 2, 3, 4}


async def test_a_round_in_which_moves_wait_has_not_settled() -> None:
    """Else the next round would come later than the second in which they wait."""
    world, reconciler = await settled(partitions=1, replicas=1)
    world.resource = changed(
        world.resource, spec=spec_of(partitions=1, replicas=2, standbys=1), generation=2
    )
    while len(assignment_of(world)[0].in_sync) == 1:
        await reconciler.run_round()
        world.seconds += _ROUND_S
    assert await reconciler.run_round() is False
    world.seconds += 1.0
    assert await reconciler.run_round() is True


def hold(world: World, entry: PartitionConfiguration) -> None:
    """Has the store and its pods hold this configuration."""
    say(world, entry)
    for pod in world.pods:
        others = tuple(one for one in pod.held if one.partition != entry.partition)
        pod.held = (*others, entry) if entry.role_of(pod.ordinal) is not None else others


def planned(world: World, *, moves_wait: bool) -> dict[PartitionId, PartitionConfiguration]:
    """The configurations that a plan changes."""
    steps = plan(changed(world.observation(), moves_wait=moves_wait))
    made = [one for step in steps if isinstance(step, PublishAssignment) for one in step.partitions]
    return {one.partition: one for one in made if one not in assignment_of(world)}


def test_a_learner_beside_all_replicas_in_sync_waits_for_other_moves() -> None:
    world = running(partitions=2, replicas=3, standbys=1)
    entry = assignment_of(world)[0]
    (other,) = {Ordinal(0), Ordinal(1), Ordinal(2)} - {*entry.replicas}
    learns = replace(entry, epoch=Epoch(entry.epoch + 1), replicas=(*entry.replicas, other))
    hold(world, learns)
    assert planned(world, moves_wait=True) == {}
    joined = planned(world, moves_wait=False)[entry.partition]
    assert set(joined.in_sync) == {0, 1, 2}


def test_a_partition_without_its_standby_does_not_wait_for_moves() -> None:
    world = running(partitions=2, replicas=2, standbys=1)
    entry = assignment_of(world)[0]
    short = replace(entry, epoch=Epoch(entry.epoch + 1), in_sync=(entry.active,))
    hold(world, short)
    joined = planned(world, moves_wait=True)[entry.partition]
    assert set(joined.in_sync) == {0, 1}
    alone = replace(short, epoch=Epoch(short.epoch + 1), replicas=(entry.active,))
    hold(world, alone)
    assert len(planned(world, moves_wait=True)[entry.partition].replicas) == 2


def test_a_pod_that_ends_hands_its_actives_over_at_once() -> None:
    world = running(partitions=6, replicas=3, standbys=1)
    left = {one.partition for one in assignment_of(world) if one.active == 1}
    world.leaving = {1}
    changes = planned(world, moves_wait=True)
    assert left <= set(changes)
    assert all(one.active != 1 for one in changes.values())
