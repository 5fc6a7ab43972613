"""The reports of one round are of nearly the same moment."""

from dataclasses import dataclass, field

import pytest

from qss_core.model import PodAddress
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.reconcile.pod_reports import PodReports
from qss_testing.fakes.control_world import World, resource_of
from qss_testing.fakes.simulated_pod import STORE


@dataclass(kw_only=True)
class Waiting(World):
    """The last pod answers after a while, or not at all."""

    waits_s: float = 0.0
    is_silent: bool = False
    asked: list[int] = field(default_factory=list)

    async def report(self, pod: PodAddress) -> ReplicasReport | None:
        self.asked.append(pod.ordinal)
        if pod.ordinal == 2:
            self.seconds += self.waits_s
            if self.is_silent:
                return None
        return await super().report(pod)


@pytest.mark.parametrize("is_silent", [True, False])
async def test_reports_that_waited_for_another_pod_are_asked_for_again(is_silent: bool) -> None:
    """A pod may have ended, and lost a replica, while another one kept the round.

    Also one that answers at last may tell that it cannot act, and a standby takes over.
    """
    world = Waiting(resource=resource_of(), is_silent=is_silent)
    world.scale(3)
    reports = PodReports(STORE, world, world)
    heard = {0, 1} if is_silent else {0, 1, 2}
    assert set(await reports.of(world.cluster())) == heard
    assert world.asked == [0, 1, 2]
    world.asked.clear()
    world.waits_s = 1.9
    assert set(await reports.of(world.cluster())) == heard
    assert world.asked == [0, 1, 2, 0, 1]


async def test_a_pod_that_ends_while_another_one_keeps_the_round_has_no_report() -> None:
    @dataclass(kw_only=True)
    class Ending(Waiting):
        async def report(self, pod: PodAddress) -> ReplicasReport | None:
            report = await super().report(pod)
            if pod.ordinal == 2:
                self.pods[1].is_reachable = False
            return report

    world = Ending(resource=resource_of(), waits_s=1.9)
    world.scale(3)
    assert set(await PodReports(STORE, world, world).of(world.cluster())) == {0, 2}
