"""The conditions of lines such as `until`, `now` and `for`: each is a fact about the world.

Most are what a person or a writer can see: the status, the reports of pods, acknowledgements.
"""

import re
from collections.abc import Callable
from itertools import pairwise

from qss_operator.planning.model import ConditionType
from qss_simulation.scenarios.script import ScriptError
from qss_simulation.scenarios.stage import Stage


class Conditions:
    """Each method is a condition; its pattern is in CONDITIONS."""

    def __init__(self, stage: Stage) -> None:
        """All conditions are about one world."""
        self._stage = stage
        self._world = stage.world

    def of(self, text: str) -> Callable[[], bool]:
        """The condition that a text says. Raises ScriptError for another text."""
        for pattern, name in CONDITIONS.items():
            if match := re.fullmatch(pattern, text):
                work, words = getattr(self, name), match.groups()
                return lambda: bool(work(*words))
        raise ScriptError(f"no condition is called {text!r}")

    def leads(self, name: str, partition: str) -> bool:
        return self._stage.entry(partition).active == self._stage.number(name)

    def leads_not(self, name: str, partition: str) -> bool:
        return not self.leads(name, partition)

    def is_in_sync(self, name: str, partition: str) -> bool:
        return self._stage.number(name) in self._stage.entry(partition).in_sync

    def is_not_in_sync(self, name: str, partition: str) -> bool:
        return not self.is_in_sync(name, partition)

    def has_in_sync(self, partition: str, count: str) -> bool:
        return len(self._stage.entry(partition).in_sync) == int(count)

    def has_learner(self, partition: str) -> bool:
        entry = self._stage.entry(partition)
        return len(entry.replicas) > len(entry.in_sync)

    def has_no_learner(self, partition: str) -> bool:
        return not self.has_learner(partition)

    def acts(self, name: str, partition: str) -> bool:
        return self._stage.host(name) in self._world.acting(int(partition))

    def acts_not(self, name: str, partition: str) -> bool:
        return not self.acts(name, partition)

    def nobody_acts(self, partition: str) -> bool:
        return not self._world.acting(int(partition))

    def is_assigned(self) -> bool:
        status = self._world.api.resource.status
        return status is not None and bool(status.assignment)

    def is_settled(self) -> bool:
        return self._world.is_placed and (not self._world.standbys or self._world.is_redundant)

    def has_replica(self, name: str, partition: str) -> bool:
        return int(partition) in self._stage.partitions_of(self._stage.host(name))

    def has_no_replica(self, name: str, partition: str) -> bool:
        return not self.has_replica(name, partition)

    def has_lost(self, name: str, partition: str) -> bool:
        return int(partition) in self._world.lost(self._stage.host(name))

    def has_lost_nothing(self, name: str) -> bool:
        return not self._world.lost(self._stage.host(name))

    def rested_at_most(self, seconds: str) -> bool:
        """Since the first batch, no time was longer in which no writer was told of a batch."""
        told_s = [at_s for at_s, _ in self._world.histories.present.told]
        ends_s = [*told_s, self._world.loop.now_s]
        return max(after - before for before, after in pairwise(ends_s)) <= float(seconds)

    def epoch_at_most(self, partition: str, epoch: str) -> bool:
        return self._stage.entry(partition).epoch <= int(epoch)

    def epoch_at_least(self, partition: str, epoch: str) -> bool:
        return self._stage.entry(partition).epoch >= int(epoch)

    def condition(self, kind: str, status: str, reason: str | None) -> bool:
        found = self._stage.status.condition(ConditionType(kind))
        return found is not None and found.status == status and reason in (None, found.reason)

    def happened(self, what: str, times: str) -> bool:
        return self._world.trace.counts.get(what, 0) >= int(times)

    def never_happened(self, what: str) -> bool:
        return what not in self._world.trace.counts

    def runs(self, count: str) -> bool:
        return len(self._world.processes) == int(count)

    def actives_show_all(self) -> bool:
        """Whether each replica that may answer as an active shows what writers were told."""
        newest = max(self._world.histories.present.acknowledged.values(), default=0)
        return all(
            self._world.processes[host].shown_sequence(partition) >= newest
            for partition in self._stage.all_partitions()
            for host in self._world.acting(partition)
        )

    def syncs(self, name: str) -> bool:
        return self._world.disks[self._stage.number(name)].syncs > 0

    def reports_no_migration(self, name: str) -> bool:
        process = self._world.processes[self._stage.host(name)]
        return all(one.migration is None for one in process.pod.report().replicas)

    def shows(self, name: str, sequence: str, partition: str) -> bool:
        """Whether readers of a pod's replica see this sequence: so many batches."""
        process = self._world.processes.get(self._stage.host(name))
        return process is not None and process.shown_sequence(int(partition)) == int(sequence)

    def is_migrated(self) -> bool:
        return self._world.is_migrated()

    def acknowledged(self, count: str) -> bool:
        return len(self._world.histories.present.acknowledged) == int(count)


_HOST = r"(\S+(?: of \d)?)"
CONDITIONS: dict[str, str] = {
    rf"{_HOST} leads (\d)": "leads",
    rf"{_HOST} does not lead (\d)": "leads_not",
    rf"{_HOST} is in sync in (\d)": "is_in_sync",
    rf"{_HOST} is not in sync in (\d)": "is_not_in_sync",
    r"(\d) has (\d) in sync": "has_in_sync",
    r"(\d) has a learner": "has_learner",
    r"(\d) has no learner": "has_no_learner",
    r"nobody acts for (\d)": "nobody_acts",
    rf"{_HOST} acts for (\d)": "acts",
    rf"{_HOST} does not act for (\d)": "acts_not",
    r"the store is assigned": "is_assigned",
    r"the store is settled": "is_settled",
    rf"{_HOST} has a replica of (\d)": "has_replica",
    rf"{_HOST} has no replica of (\d)": "has_no_replica",
    rf"{_HOST} has lost (\d)": "has_lost",
    rf"{_HOST} has lost nothing": "has_lost_nothing",
    r"no writer rested for ([\d.]+) s": "rested_at_most",
    r"the epoch of (\d) is at most (\d+)": "epoch_at_most",
    r"the epoch of (\d) is at least (\d+)": "epoch_at_least",
    r"(\w+) is (True|False)(?: for (\w+))?": "condition",
    r"([\w-]+) happened (\d+) times?": "happened",
    r"([\w-]+) never happened": "never_happened",
    r"(\d) pods run": "runs",
    rf"the disk of {_HOST} syncs": "syncs",
    r"actives show what is acknowledged": "actives_show_all",
    rf"{_HOST} reports no migration": "reports_no_migration",
    rf"{_HOST} shows (\d+) batch(?:es)? in (\d)": "shows",
    r"all rows have the format": "is_migrated",
    r"(\d+) batches are acknowledged": "acknowledged",
}
