"""One run: a store is made, drivers write, readers read, faults happen; then all has to be well."""

import asyncio
import gc
import logging
import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 seeded by its argument.
from tempfile import TemporaryDirectory

from msgspec import structs

from qss_core.errors import NotReadyError, StoreError
from qss_core.spec.resource import StoreSpec, decode_spec
from qss_simulation.faults import Faults
from qss_simulation.history import PARTITIONS, HistoryError
from qss_simulation.parts.seeded_loop import SeededLoop
from qss_simulation.parts.store_type import TYPE_NAME
from qss_simulation.processes.reader import PartitionRows, read_partition
from qss_simulation.world import World
from qss_store.runtime.settings import Settings

_PODS = 3
_FAULTS_S = 20.0
_LIVENESS_S = 60.0
_LAST_BATCHES = 2
_CUSTOM = 0.3  # The share of stores with a user's own type, which has an index.
# Most stores fail over soon: with the defaults few of the faults last long enough.
_OF_QUICK, _QUICK = 0.7, ("1s", "2s", "5s")
_TIMES = ("leaseDuration", "failoverAfter", "replicaTimeout")
_SCALED = 0.3  # The share of runs that scale their store.
_RESTART = 0.3  # The share of such a run's changes that change the pods' template.
_QUERIES = ("query-a", "query-a", "query-a", "query-b")


STANDBYS: int | None = None
SCALED: float | None = None


class LivenessError(AssertionError):
    """The store does not go on although all faults are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run of a seed."""

    seed: int
    failure: str | None
    digest: str
    simulated_s: float
    turns: int
    counts: dict[str, int]
    lines: list[str]


def run_seed(seed: int) -> Outcome:
    """Runs one seed; the same seed gives the same outcome in every process."""
    return run_world(seed, _spec_of(Random(f"{seed}/spec")), _tell)


def has_standbys(seed: int) -> bool:
    """Whether the store of a seed has standbys from the beginning."""
    return _spec_of(Random(f"{seed}/spec")).effective_standbys > 0


def run_world(
    seed: int,
    spec: StoreSpec,
    tell: Callable[[World], Awaitable[None]],
    settings: Settings | None = None,
) -> Outcome:
    """Runs a story in a world of its own; without `settings` the seed chooses them."""
    was_enabled, hook = gc.isenabled(), sys.unraisablehook
    # The collector would end generators at moments of its own.
    gc.disable()
    logging.disable(logging.CRITICAL)
    # The coroutines of dead nodes end after the run: nothing sees what they still do.
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = _outcome(seed, spec, tell, settings)
            # Without the collector all objects of the run are in the youngest generation; what its
            # finalizers keep goes to the second.
            gc.collect(0)
            gc.collect(1)
            return outcome
    finally:
        sys.unraisablehook = hook
        logging.disable(logging.NOTSET)
        if was_enabled:
            gc.enable()


def _outcome(
    seed: int,
    spec: StoreSpec,
    tell: Callable[[World], Awaitable[None]],
    settings: Settings | None,
) -> Outcome:
    loop = SeededLoop(Random(f"{seed}/loop"))
    failure: str | None = None
    with TemporaryDirectory(dir=_in_memory()) as directory:
        world = World(loop, seed, Path(directory), spec, settings)
        try:
            loop.run_until_complete(tell(world))
        except Exception as error:  # noqa: BLE001 any failure of a run is its outcome.
            failure = f"{type(error).__name__}: {error}"
        if world.failures:
            # What broke first says more than what followed.
            first = world.failures[0]
            failure = f"{type(first).__name__}: {first}"
        loop.bury()
        loop.close()
    return Outcome(
        seed=seed,
        failure=failure,
        digest=world.trace.digest(),
        simulated_s=loop.now_s,
        turns=loop.turns,
        counts=world.trace.counts,
        lines=world.trace.lines,
    )


def _in_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _spec_of(random: Random) -> StoreSpec:
    is_custom = random.random() < _CUSTOM
    standbys = random.choice([0, 0, 1, 2]) if STANDBYS is None else STANDBYS
    retention = random.choice(["1", "2000", "1Gi"])
    times = {name: random.choice(_QUICK) for name in _TIMES} if random.random() < _OF_QUICK else {}
    return spec_of(standbys=standbys, retention=retention, is_custom=is_custom, times=times)


def spec_of(
    *,
    standbys: int,
    retention: str,
    is_custom: bool = False,
    row_format: str = "Timestamped",
    replicas: int = _PODS,
    times: Mapping[str, str] | None = None,
) -> StoreSpec:
    """The spec of a run's store; a custom type has an index. `times` are members of `rebalance`."""
    own_type: dict[str, object] = {"custom": {"name": TYPE_NAME}} if is_custom else {}
    members = {
        "store": {
            "type": "Custom" if is_custom else "KeyValue",
            "format": row_format,
            **own_type,
            "key": {"serde": "bytes"},
            "value": {"serde": "string"},
            "partitioner": "Explicit",
            "allowLossyMigration": True,
        },
        "partitions": PARTITIONS,
        "replicas": replicas,
        "standbys": standbys,
        "changelog": {"retentionBytes": retention},
        "rebalance": {**(times or {})},
    }
    return decode_spec(members)


async def _tell(world: World) -> None:
    random = world.random("story")
    for host in world.hosts:
        world.loop.rates[host] = random.uniform(0.955, 1.045)
    for number in range(world.pods):
        world.start_pod(number)
    world.start_operator()
    for _ in range(2):
        world.start_reader()
    watching = asyncio.create_task(world.watch_actives())
    world.is_scaled = world.random("scaled").random() < (_SCALED if SCALED is None else SCALED)
    faults = Faults(world, world.random("faults"))
    scaling = _scale(world, world.random("scale"))
    await asyncio.gather(faults.run(_FAULTS_S), _drive(world, world.random("drivers")), scaling)
    faults.heal()
    await check_all(world)
    watching.cancel()


async def check_all(world: World) -> None:
    """Without faults the store goes on and is whole, also after all machines lost power."""
    await _goes_on(world)
    await _is_whole(world)
    for number in range(world.pods):
        world.lose_power(number, holes=False)
        world.start_pod(number)
    await _is_whole(world)


async def _drive(world: World, random: Random) -> None:
    """Drivers one after the other, sometimes two at once; each dies at some moment."""
    number = 0
    while world.loop.now_s < _FAULTS_S:
        number += 1
        driver = world.driver(random.choice(_QUERIES), number, deadline_s=20.0)
        node = world.start_driver(driver, number, batches=1000)
        await asyncio.sleep(random.expovariate(1 / 5.0))
        if random.random() < 0.7:
            world.trace.note("end", node)
            world.loop.kill(node)


async def _scale(world: World, random: Random) -> None:
    """In some runs a person changes the numbers of pods and of standbys, or restarts the pods."""
    while world.is_scaled:
        await asyncio.sleep(random.expovariate(1 / 4.0))
        if world.loop.now_s >= _FAULTS_S:
            return
        if random.random() < _RESTART:
            world.template += 1
            world.trace.note("asked", "another template")
            continue
        replicas, standbys = random.randint(1, _PODS), random.choice([0, 0, 1, 2])
        world.trace.note("asked", f"{replicas} pods, {standbys} standbys")
        world.api.edit(structs.replace(world.spec, replicas=replicas, standbys=standbys))


async def _goes_on(world: World) -> None:
    """The youngest run writes within a minute; it takes over from every earlier query."""
    try:
        async with asyncio.timeout(_LIVENESS_S):
            written, number = 0, 1000
            while written < _LAST_BATCHES:
                number += 1
                driver = world.driver(f"query-{number}", number, deadline_s=_LIVENESS_S)
                written = await driver.live(_LAST_BATCHES)
    except TimeoutError as error:
        raise LivenessError("no batch is committed although all faults are over") from error


async def _is_whole(world: World) -> None:
    """All partitions are served, at one sequence, and have whole batches."""
    try:
        async with asyncio.timeout(_LIVENESS_S):
            while True:
                try:
                    found = [await _replicas(world, number) for number in range(PARTITIONS)]
                except StoreError:
                    await asyncio.sleep(0.1)
                    continue
                sequences = {one.sequence for replicas in found for one in replicas}
                if len(sequences) == 1 and world.is_migrated() and world.is_placed:
                    break
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise LivenessError("the partitions do not reach one sequence, format, place") from error
    history = world.histories.present
    history.check_end([replicas[0].rows for replicas in found])
    for number, replicas in enumerate(found):
        history.check_times(replicas[0].times_ms)
        for one in replicas[1:]:
            if (one.rows, one.times_ms) != (replicas[0].rows, replicas[0].times_ms):
                raise HistoryError(f"the replicas of partition {number} differ")
    newest = max(history.acknowledged.values(), default=0)
    if found[0][0].sequence < newest:
        reached = found[0][0].sequence
        raise HistoryError(f"the store is at {reached}, and {newest} was acknowledged")


async def _replicas(world: World, partition: int) -> list[PartitionRows]:
    """The rows of all replicas of a partition, those of its active first. Raises StoreError."""
    status = world.api.resource.status
    if status is None or status.assignment is None:
        raise NotReadyError("nothing is assigned")
    placed = status.assignment[partition]
    pods = sorted(placed.replicas, key=lambda pod: pod != placed.active)
    return [
        await read_partition(world.network, partition, pod, 2.0, of_active=pod == placed.active)
        for pod in pods
    ]
