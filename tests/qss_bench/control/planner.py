"""Measures the planner: a round over many partitions, and how many replicas it moves."""

import time
from dataclasses import replace
from pathlib import Path

import msgspec

from qss_bench.report import Figure
from qss_core.spec.resource import RebalanceSpec, StoreSpec
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, assignment_of, resource_of, spec_of

_PARTITIONS, _PODS, _STANDBYS = 4096, 100, 2  # More partitions than one resource may have.
_ROUND_AT_MOST_S = 1.0
_ABOVE_THE_LEAST_AT_MOST = 1.05
_ROUNDS_MAX = 400


def measure(_: Path) -> list[Figure]:
    """A store of 100 pods settles; then a pod is added, and at the end removed again."""
    world = World(resource=resource_of(_spec(_PODS)))
    slowest = _settle(world)
    before = assignment_of(world)
    ratios = []
    for pods, least in ((_PODS + 1, _PARTITIONS * (1 + _STANDBYS) // (_PODS + 1)), (_PODS, None)):
        on_last = sum(_PODS in one.replicas for one in before)
        world.resource = replace(world.resource, spec=_spec(pods))
        slowest = max(slowest, _settle(world))
        after = assignment_of(world)
        moved = sum(
            len(set(new.replicas) - set(old.replicas))
            for old, new in zip(before, after, strict=True)
        )
        ratios.append(moved / (least or on_last))
        before = after
    return [
        Figure(
            name="longest round of the planner, 4096 partitions x 3 over 100 pods",
            value=slowest,
            unit="s",
            at_most=_ROUND_AT_MOST_S,
            detail="in memory; the pods' reports are at hand",
        ),
        Figure(
            name="replicas that move where a pod is added or removed / the fewest",
            value=max(ratios),
            unit="x",
            at_most=_ABOVE_THE_LEAST_AT_MOST,
            detail=f"added {ratios[0]:.3f}, removed {ratios[1]:.3f}",
        ),
    ]


def _spec(pods: int) -> StoreSpec:
    spec = spec_of(
        replicas=pods, standbys=_STANDBYS, rebalance=RebalanceSpec(max_warmup_replicas=64)
    )
    return msgspec.structs.replace(spec, partitions=_PARTITIONS)


def _settle(world: World) -> float:
    """Carries out plans until nothing is left to do; returns the seconds of the longest plan."""
    longest = 0.0
    for _ in range(_ROUNDS_MAX):
        seen = world.observation()
        started = time.perf_counter()
        steps = plan(seen)
        longest = max(longest, time.perf_counter() - started)
        if not steps:
            return longest
        for step in steps:
            world.apply(step)
    raise AssertionError(f"the store has not settled in {_ROUNDS_MAX} rounds")
