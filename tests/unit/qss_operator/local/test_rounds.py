"""The loop of one local store: its end, its failures, its intervals."""

from dataclasses import dataclass, field, replace

import pytest

from qss_core.model import StoreName
from qss_operator.errors import ConflictError
from qss_operator.local.rounds import run_rounds
from qss_operator.planning.model import StoreResource, StoreStatus
from qss_operator.reconcile.reconciler import Intervals, StoreReconciler
from qss_testing.fakes.control_world import World, resource_of, spec_of
from qss_testing.fakes.simulated_pod import STORE


@dataclass(kw_only=True)
class WaitingWorld(World):
    waits: list[float] = field(default_factory=list)

    async def wait_for_change(self, store: StoreName, timeout_s: float) -> None:
        assert store == STORE
        self.waits.append(timeout_s)
        self.seconds += timeout_s


async def run(world: WaitingWorld) -> None:
    reconciler = StoreReconciler(STORE, resources=world, cluster=world, pods=world, clock=world)
    await run_rounds(STORE, reconciler.run_round, world.wait_for_change, Intervals())


async def test_the_loop_ends_with_its_resource() -> None:
    @dataclass(kw_only=True)
    class Deleted(WaitingWorld):
        reads: list[StoreName] = field(default_factory=list)

        async def read(self, store: StoreName) -> StoreResource | None:
            self.reads.append(store)
            return await super().read(store) if len(self.reads) < 4 else None

    world = Deleted(resource=resource_of())
    await run(world)
    assert len(world.reads) == 4


async def test_the_loop_survives_a_conflict_and_a_bug() -> None:
    failures = [ConflictError("changed"), RuntimeError("a bug")]

    @dataclass(kw_only=True)
    class Failing(WaitingWorld):
        async def publish(self, resource: StoreResource, status: StoreStatus) -> None:
            if failures:
                raise failures.pop()
            await super().publish(resource, status)

        async def wait_for_change(self, store: StoreName, timeout_s: float) -> None:
            await super().wait_for_change(store, timeout_s)
            if self.published and self.published[-1].assigned == "6/6":
                # The deleted store ends the loop.
                self.resource = replace(self.resource, name=StoreName("gone"))

    world = Failing(resource=resource_of())
    await run(world)
    assert failures == []
    assert world.published[-1].assigned == "6/6"


async def test_an_unsettled_store_is_looked_at_more_often() -> None:
    @dataclass(kw_only=True)
    class Timed(WaitingWorld):
        async def read(self, store: StoreName) -> StoreResource | None:
            return await super().read(store) if len(self.waits) < 15 else None

    world = Timed(resource=resource_of(spec_of()))
    await run(world)
    assert world.waits[0] == 0.2
    assert world.waits[-1] == 1.0


async def test_a_round_after_a_conflict_comes_soon_and_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends: list[ConflictError | bool | None] = [ConflictError("changed"), True, None]
    waits: list[float] = []

    async def run_round() -> bool | None:
        end = ends.pop(0)
        if isinstance(end, ConflictError):
            raise end
        return end

    async def wait(_: StoreName, seconds: float) -> None:
        waits.append(seconds)

    await run_rounds(STORE, run_round, wait, Intervals())
    assert waits == [0.2, 1.0]
    assert caplog.records == []


async def test_rounds_that_fail_alike_are_told_once_and_tried_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = [RuntimeError("one")] * 6 + [RuntimeError("other")] * 2
    waits: list[float] = []

    async def run_round() -> bool | None:
        if errors:
            raise errors.pop(0)
        return None

    async def wait(_: StoreName, seconds: float) -> None:
        waits.append(seconds)

    await run_rounds(STORE, run_round, wait, Intervals())
    assert waits == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.4, 0.8]
    assert [one.levelname for one in caplog.records] == ["ERROR", "ERROR"]
