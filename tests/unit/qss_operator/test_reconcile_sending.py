"""A pod that is busy with an assignment is sent a newer one, whose epochs writers wait for."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from qss_core.errors import StaleEpochError
from qss_core.model import Ordinal, PodAddress, StoreAssignment
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.reconcile.reconciler import StoreReconciler
from qss_testing.fakes.control_world import World, resource_of, spec_of
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.virtual_time import run_in_virtual_time

_BUSY = Ordinal(1)


@dataclass(kw_only=True)
class _Busy(World):
    """Pod 1 makes databases until `go_on` is set, once it `is_busy`."""

    is_busy: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    taken: list[StoreAssignment] = field(default_factory=list)
    waiting: list[StoreAssignment] = field(default_factory=list)
    waiting_max: int = 0

    async def assign(self, pod: PodAddress, assignment: StoreAssignment) -> ReplicasReport:
        if pod.ordinal == _BUSY and self.is_busy:
            self.taken.append(assignment)
            self.waiting.append(assignment)
            self.waiting_max = max(self.waiting_max, len(self.waiting))
            try:
                await self.go_on.wait()
            finally:
                self.waiting.remove(assignment)
            if assignment != self.taken[-1]:
                raise StaleEpochError("the pod knows a newer epoch")
        return await super().assign(pod, assignment)


async def _ask_for(world: _Busy, reconciler: StoreReconciler, standbys: int) -> None:
    """Edits the number of standbys, and runs the rounds of five seconds."""
    spec = spec_of(replicas=3, standbys=standbys)
    generation = world.resource.generation + 1
    world.resource = replace(world.resource, spec=spec, generation=generation)
    for _ in range(5):
        await reconciler.run_round()
        world.seconds += 1.0


def test_a_pod_that_makes_databases_is_sent_the_newest_assignments_and_not_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        world = _Busy(resource=resource_of(spec_of(replicas=3, standbys=0)))
        reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
        await _ask_for(world, reconciler, 0)
        world.is_busy = True
        await _ask_for(world, reconciler, 1)
        epochs = [max(entry.epoch for entry in one.partitions) for one in world.taken]
        assert epochs == [2, 3], "the learners of the others have joined meanwhile"
        for standbys in (2, 1, 2, 1, 2):
            await _ask_for(world, reconciler, standbys)
        assert world.waiting_max == len(world.waiting) == 4
        assert world.waiting[-1].generation == world.resource.generation, "the newest goes at once"
        assert world.waiting[0] == world.taken[0], "the pod works on it"
        assert world.waiting[1:] == world.taken[-3:]
        world.go_on.set()
        await _ask_for(world, reconciler, 2)
        assert world.taken[-1].generation == world.resource.generation
        assert "newer epoch" not in caplog.text, "what was overtaken is no failure"

    run_in_virtual_time(story())


def test_a_newer_assignment_to_a_busy_pod_holds_up_no_round() -> None:
    """Each one held up the failovers of other partitions for two seconds."""

    async def story() -> None:
        world = _Busy(resource=resource_of(spec_of(replicas=3, standbys=0)))
        reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
        await _ask_for(world, reconciler, 0)
        world.is_busy = True
        begin_s = asyncio.get_running_loop().time()
        for standbys in (1, 2):
            await _ask_for(world, reconciler, standbys)
        assert len(world.taken) >= 3
        assert asyncio.get_running_loop().time() - begin_s == 2.0, "for the first one alone"
        world.go_on.set()
        await _ask_for(world, reconciler, 2)
        assert world.taken[-1].generation == world.resource.generation

    run_in_virtual_time(story())
