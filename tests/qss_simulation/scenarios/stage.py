"""The stage that the lines of one scenario share: the world, and the names that they use."""

import asyncio
import re
from collections.abc import Callable

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.model import StoreStatus
from qss_simulation.history import PARTITIONS
from qss_simulation.scenarios.script import ScriptError
from qss_simulation.world import Volume, World

_LOOK_S = 0.02
UNTIL_S = 60.0


class Stage:
    """The world of a scenario, and its aliases, volumes and work in the background."""

    def __init__(self, world: World) -> None:
        """No line was played yet."""
        self.world = world
        self.aliases: dict[str, str] = {}
        self.volumes: dict[str, Volume] = {}
        self.statuses: dict[str, StoreStatus] = {}
        self.background: dict[str, asyncio.Task[object]] = {}

    @property
    def status(self) -> StoreStatus:
        """The published status. Raises ScriptError where none is published."""
        status = self.world.api.resource.status
        if status is None:
            raise ScriptError("no status is published")
        return status

    def entry(self, partition: int | str) -> PartitionConfiguration:
        """The published configuration of a partition."""
        if self.status.assignment is None:
            raise ScriptError("nothing is assigned")
        return self.status.assignment[int(partition)]

    def host(self, name: str) -> str:
        """A machine by its name, by an alias, or by its pod's role in a partition."""
        if name in self.aliases:
            return self.aliases[name]
        if match := re.fullmatch(r"(active|standby|learner|stranger) of (\d)", name):
            return f"pod-{self._pod_of(match[1], match[2])}"
        if name in self.world.hosts:
            return name
        raise ScriptError(f"no machine is called {name!r}")

    def number(self, name: str) -> int:
        """The number of a pod's machine."""
        return int(self.host(name).removeprefix("pod-"))

    def _pod_of(self, role: str, partition: str) -> int:
        entry = self.entry(partition)
        match role:
            case "active":
                return entry.active
            case "standby":
                pods = [pod for pod in entry.in_sync if pod != entry.active]
            case "learner":
                pods = [pod for pod in entry.replicas if pod not in entry.in_sync]
            case _:
                pods = [
                    pod for pod in map(Ordinal, range(self.world.pods)) if not entry.role_of(pod)
                ]
        if not pods:
            raise ScriptError(f"partition {partition} has no {role}: {entry}")
        return pods[0]

    def partitions_of(self, host: str) -> list[PartitionId]:
        """The partitions of which a pod reports a replica."""
        process = self.world.processes.get(host)
        replicas = process.pod.report().replicas if process else ()
        return [one.configuration.partition for one in replicas]

    def all_partitions(self) -> range:
        """The numbers of all partitions."""
        return range(PARTITIONS)

    async def until(self, holds: Callable[[], bool], told: str, within_s: float = UNTIL_S) -> None:
        """Waits for a condition. Raises ScriptError where it takes too long."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    if holds():
                        return
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError as error:
            raise ScriptError(f"{told!r} does not hold within {within_s:g} s") from error

    async def throughout(self, holds: Callable[[], bool], told: str, for_s: float) -> None:
        """Looks again and again. Raises ScriptError where a condition does not hold."""
        end_s = self.world.loop.now_s + for_s
        while self.world.loop.now_s < end_s:
            if not holds():
                raise ScriptError(f"{told!r} does not hold at {self.world.loop.now_s:.2f} s")
            await asyncio.sleep(_LOOK_S)
