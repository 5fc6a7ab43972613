"""Plays a scenario from its first line, and then makes the checks that every seed makes."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from qss_core.errors import StoreError
from qss_core.spec.resource import StoreSpec
from qss_simulation.scenarios import breakage, writing
from qss_simulation.scenarios.conditions import Conditions
from qss_simulation.scenarios.script import Line, Scenario, ScriptError, scenarios_in
from qss_simulation.scenarios.stage import UNTIL_S, Stage
from qss_simulation.settings import OF_SCENARIOS
from qss_simulation.story import Outcome, check_all, run_world, spec_of
from qss_simulation.world import World

_SEED = 1
_TIMES = {
    "lease": "leaseDuration",
    "failover": "failoverAfter",
    "patience": "replicaTimeout",
}
_DIRECTORY = Path(__file__).parents[2] / "simulation" / "scenarios"
_Method = Callable[..., Awaitable[None] | None]


def play(scenario: Scenario, seed: int = _SEED) -> Outcome:
    """The outcome of a scenario; the same seed gives the same one."""

    async def tell(world: World) -> None:
        await _Player(scenario, world).play()

    return run_world(seed, _store_of(scenario), tell, OF_SCENARIOS)


def _store_of(scenario: Scenario) -> StoreSpec:
    store = {"standbys": "1", "retention": "1Gi", "format": "Timestamped", **scenario.store}
    times = {member: store[word] for word, member in _TIMES.items() if word in store}
    return spec_of(
        times=times,
        standbys=int(store["standbys"]),
        retention=store["retention"],
        row_format=store["format"],
        replicas=int(store.get("pods", "3")),
    )


class _Player:
    """The lines of one scenario in its world."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._world = world
        self._stage = Stage(world)
        self._conditions = Conditions(self._stage)
        self._methods: list[tuple[str, _Method]] = [
            (r"let (\w+) be (.+)", self._let),
            (r"wait ([\d.]+) s", self._wait),
            (r"until (.+?)(?: within ([\d.]+) s)?", self._until),
            (r"now (.+)", self._now),
            (r"for ([\d.]+) s (.+)", self._for),
            (r"(\w+) succeeds", self._succeeds),
            (r"(\w+) fails with (\w+)", self._fails),
            (r"heal", self._heal),
        ]
        for lines, of in (
            (breakage.LINES, breakage.Breakage(self._stage)),
            (writing.LINES, writing.Writing(self._stage)),
        ):
            self._methods += [(pattern, getattr(of, name)) for pattern, name in lines.items()]

    async def play(self) -> None:
        """All lines in order. Raises ScriptError, and the errors of the checks."""
        world = self._world
        for number in range(world.pods):
            world.start_pod(number)
        world.start_operator()
        for _ in range(int(self._scenario.store.get("readers", "1"))):
            world.start_reader()
        watching = asyncio.create_task(world.watch_actives())
        await self._stage.until(self._conditions.of("the store is settled"), "the store is made")
        for line in self._scenario.lines:
            world.trace.note("line", f"{line.number}: {line.text}")
            try:
                await self._play(line)
            except (StoreError, ScriptError) as error:
                where = f"{self._scenario.file}:{line.number}: {line.text}"
                raise ScriptError(f"{where}: {error}") from error
        self._heal()
        for task in self._stage.background.values():
            await asyncio.gather(task, return_exceptions=True)
        await check_all(world)
        watching.cancel()

    async def _play(self, line: Line) -> None:
        text, _, code = (part.strip() for part in line.text.partition("->"))
        text, _, alias = (part.strip() for part in text.partition(" as-task "))
        if alias:
            work = self._perform(text)
            self._stage.background[alias] = asyncio.create_task(work)
            return
        if not code:
            await self._perform(text)
            return
        try:
            await self._perform(text)
        except StoreError as error:
            if error.code != code:
                raise
        else:
            raise ScriptError(f"it succeeds, and does not fail with {code}")

    async def _perform(self, text: str) -> None:
        for pattern, method in self._methods:
            if match := re.fullmatch(pattern, text):
                result = method(*match.groups())
                if inspect.isawaitable(result):
                    await result
                return
        raise ScriptError("nobody understands this line")

    # --- Lines

    def _let(self, alias: str, name: str) -> None:
        self._stage.aliases[alias] = self._stage.host(name)

    async def _wait(self, seconds: str) -> None:
        await asyncio.sleep(float(seconds))

    async def _until(self, text: str, within_s: str | None) -> None:
        await self._stage.until(self._conditions.of(text), text, float(within_s or UNTIL_S))

    def _now(self, text: str) -> None:
        if not self._conditions.of(text)():
            raise ScriptError(f"{text!r} does not hold")

    async def _for(self, seconds: str, text: str) -> None:
        await self._stage.throughout(self._conditions.of(text), text, float(seconds))

    async def _succeeds(self, alias: str) -> None:
        await self._stage.background.pop(alias)

    async def _fails(self, alias: str, code: str) -> None:
        try:
            await self._stage.background.pop(alias)
        except StoreError as error:
            if error.code != code:
                raise
        else:
            raise ScriptError(f"it succeeds, and does not fail with {code}")

    def _heal(self) -> None:
        """Ends all faults, and starts what does not run."""
        self._world.heal()


def all_scenarios() -> list[Scenario]:
    """The scenarios of all files, in their order."""
    return [one for path in sorted(_DIRECTORY.glob("*.txt")) for one in scenarios_in(path)]
