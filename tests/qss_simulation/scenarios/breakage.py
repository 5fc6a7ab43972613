"""The lines that break and mend things, and those of a person or another operator.

A rule of messages is of those to a host, or of the answers from it; `for` names the one that asks.
A message that is late arrives although its sender has ended. The syncs
of a disk may be slow alone: then writes are there, and not durable.
"""

import asyncio
from collections.abc import Callable

from msgspec import structs

from qss_core.formats.values import Format
from qss_core.model import Epoch, Ordinal, PartitionConfiguration
from qss_core.spec.resource import StoreSpec
from qss_simulation.parts.network import Rule
from qss_simulation.parts.seeded_loop import WORLD, context_of
from qss_simulation.scenarios.stage import Stage

_LATE_S = 7.0  # Longer than a lease, its margin and the heartbeat before.


class Breakage:
    """Each method is a line; its pattern is in LINES."""

    def __init__(self, stage: Stage) -> None:
        """At first everything in the world works."""
        self._stage = stage
        self._world = stage.world

    # --- Processes and machines

    def kill(self, name: str) -> None:
        host = self._stage.host(name)
        self._world.resume(host)
        self._world.end(host)

    def start(self, name: str) -> None:
        host = self._stage.host(name)
        if host == "operator":
            self._world.start_operator()
        else:
            self._world.start_pod(self._stage.number(name))

    def start_all(self) -> None:
        for number in range(self._world.pods):
            self._world.start_pod(number)
        self._world.start_operator()

    def kill_all(self) -> None:
        for number in range(self._world.pods):
            self._world.end(f"pod-{number}")

    def power(self, name: str, how: str | None) -> None:
        all_of_it = how == " and all that no sync covered"
        holes = how == " with holes"
        self._world.lose_power(self._stage.number(name), holes=holes, all_of_it=all_of_it)

    def power_of_all(self) -> None:
        for number in range(self._world.pods):
            self._world.lose_power(number, holes=False)

    def pause(self, name: str) -> None:
        self._world.pause(self._stage.host(name))

    def resume(self, name: str) -> None:
        self._world.resume(self._stage.host(name))

    def clock(self, name: str, by_s: str) -> None:
        self._world.clocks[self._stage.host(name)].jumped_s += float(by_s)

    def rate(self, name: str, rate: str) -> None:
        self._world.loop.rates[self._stage.host(name)] = float(rate)

    # --- Disks and volumes

    def slow(self, name: str, seconds: str) -> None:
        self._world.loop.work_s[self._stage.host(name)] = float(seconds)

    def quick(self, name: str) -> None:
        self._world.loop.work_s.pop(self._stage.host(name), None)

    def syncs(self, name: str, seconds: str) -> None:
        """Only syncs are slow: what was written is applied and sent as quickly as before."""
        self._world.loop.sync_s[self._stage.host(name)] = float(seconds)

    def syncs_are_quick(self, name: str) -> None:
        self._world.loop.sync_s.pop(self._stage.host(name), None)

    def damage(self, partition: str, name: str) -> None:
        """The process ends, and does not find the whole log of one database."""
        self.kill(name)
        self._world.damage(self._stage.number(name), int(partition))

    def full(self, name: str) -> None:
        self._world.disks[self._stage.number(name)].is_full = True

    def roomy(self, name: str) -> None:
        self._world.disks[self._stage.number(name)].is_full = False

    def keep_volume(self, name: str, alias: str) -> None:
        number = self._stage.number(name)
        self._stage.volumes[alias] = self._world.volume(number, is_synced=True)

    def put_volume(self, alias: str, name: str) -> None:
        self.kill(name)
        self._world.put_volume(self._stage.number(name), self._stage.volumes[alias])

    def put_databases(self, alias: str, name: str) -> None:
        """Puts the databases of a kept volume back, and leaves the other files as they are."""
        self.kill(name)
        self._world.disks[self._stage.number(name)].replace(self._stage.volumes[alias].files)

    def lose_volume(self, name: str) -> None:
        self.kill(name)
        self._world.put_volume(self._stage.number(name), None)

    # --- The network

    def cut(self, one: str, other: str) -> None:
        self._world.network.faults.cut.add((self._stage.host(one), self._stage.host(other)))

    def cut_both(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def isolate(self, name: str) -> None:
        """Cuts a machine off all other ones; writers and readers still reach it."""
        host = self._stage.host(name)
        for other in self._world.hosts:
            if other != host:
                self._world.network.faults.cut |= {(host, other), (other, host)}

    def mend_network(self) -> None:
        self._world.network.faults.heal()

    def lose(self, times: str | None, what: str, path: str, name: str) -> None:
        self._rule(times, what, path, name, lambda _: None)

    def repeat(self, times: str | None, what: str, path: str, name: str) -> None:
        def twice(arrive: Callable[[], None]) -> None:
            arrive()
            self._later(0.05, arrive)

        self._rule(times, what, path, name, twice)

    def delay(self, times: str | None, what: str, path: str, name: str, by_s: str | None) -> None:
        seconds = float(by_s or _LATE_S)
        self._rule(times, what, path, name, lambda arrive: self._later(seconds, arrive))

    def delay_of_one(
        self, times: str | None, what: str, path: str, name: str, other: str, by_s: str
    ) -> None:
        """Only the messages of one sender are late, or the answers to it."""
        self._rule(times, what, path, name, lambda arrive: self._later(float(by_s), arrive), other)

    def kill_at(self, name: str, when: str, path: str, power: str | None) -> None:
        """Ends the process when the message arrives, or when it was answered; power goes, too."""
        host = self._stage.host(name)

        def end(_: Callable[[], None]) -> None:
            if power is None:
                self._world.end(host)
            else:
                number = int(host.removeprefix("pod-"))
                self._world.lose_power(number, holes=False, all_of_it=True)

        self._rule(None, "messages" if when == "gets" else "answers", path, name, end)

    def power_behind(self, name: str, path: str) -> None:
        """Takes the machine's power when the answer has arrived, and all that no sync covered."""
        number = self._stage.number(name)

        def end(arrive: Callable[[], None]) -> None:
            arrive()
            self._world.lose_power(number, holes=False, all_of_it=True)

        self._rule(None, "answers", path, name, end)

    def kill_in_commit(self, name: str, partition: str) -> None:
        """Ends the process when its next commit of several slices has written the first one."""
        host, disk = self._stage.host(name), self._world.disks[self._stage.number(name)]

        def end(written: str) -> None:
            if written == partition:
                disk.on_part = lambda _: None
                self._world.end(host)

        disk.on_part = end

    def _rule(
        self,
        times: str | None,
        what: str,
        path: str,
        name: str,
        effect: Callable[[Callable[[], None]], None],
        other: str | None = None,
    ) -> None:
        rule = Rule(
            other=None if other is None else self._stage.host(other),
            host=self._stage.host(name),
            path=path,
            is_answer=what == "answers",
            times=10**9 if times == "all" else int(times or 1),
            effect=effect,
        )
        self._world.network.faults.rules.append(rule)

    def _later(self, seconds: float, arrive: Callable[[], None]) -> None:
        """A message on its way does not end with the process that sent it."""
        loop = self._world.loop
        loop.call_at(loop.now_s + seconds, arrive, context=context_of(WORLD))

    # --- The API server, and people

    def api_away(self) -> None:
        self._world.api.faults.is_away = True

    def api_loses(self) -> None:
        self._world.api.faults.lost_answer = 1.0

    def api_stale(self) -> None:
        self._world.api.faults.stale_read = 0.7

    def api_refuses(self) -> None:
        self._world.api.faults.refuses = True

    def api_well(self) -> None:
        self._world.api.faults.heal()

    def keep_status(self, alias: str) -> None:
        self._stage.statuses[alias] = self._stage.status

    def put_status(self, alias: str) -> None:
        self._world.api.edit_status(self._stage.statuses[alias])

    def status_lost(self) -> None:
        self._world.api.edit_status(None)

    def raise_epochs(self) -> None:
        """Another operator publishes the next epoch of all partitions."""
        status = self._stage.status
        raised = tuple(
            structs.replace(one, epoch=Epoch(one.epoch + 1)) for one in status.assignment or ()
        )
        self._world.api.edit_status(structs.replace(status, assignment=raised))

    def hand_over(self, partition: str, name: str) -> None:
        """Another operator publishes that a pod leads a partition; the old active stays in sync."""
        entry = self._stage.entry(partition)
        self._publish(entry, active=Ordinal(self._stage.number(name)))

    def fail_over(self, partition: str, name: str) -> None:
        """Another operator publishes that a pod leads a partition in place of a lost active."""
        entry = self._stage.entry(partition)
        left = tuple(pod for pod in entry.in_sync if pod != entry.active)
        self._publish(entry, active=Ordinal(self._stage.number(name)), in_sync=left)

    def leave_out(self, name: str, partition: str) -> None:
        """Another operator publishes that a pod has no replica of a partition."""
        entry, number = self._stage.entry(partition), self._stage.number(name)
        self._publish(
            entry,
            in_sync=tuple(pod for pod in entry.in_sync if pod != number),
            replicas=tuple(pod for pod in entry.replicas if pod != number),
        )

    def _publish(self, entry: PartitionConfiguration, **changed: object) -> None:
        status = self._stage.status
        taken = structs.replace(entry, epoch=Epoch(entry.epoch + 1), **changed)
        entries = tuple(
            taken if one.partition == entry.partition else one for one in status.assignment or ()
        )
        self._world.api.edit_status(structs.replace(status, assignment=entries))

    def edit(self, what: str, value: str) -> None:
        spec: StoreSpec = self._world.spec
        match what:
            case "standbys" | "replicas":
                spec = structs.replace(spec, **{what: int(value)})
            case "format":
                spec = structs.replace(
                    spec, store=structs.replace(spec.store, format=Format(value))
                )
            case _:
                changelog = structs.replace(spec.changelog, retention_bytes=value)
                spec = structs.replace(spec, changelog=changelog)
        self._world.api.edit(spec)

    def template(self) -> None:
        self._world.template += 1

    def accept_loss(self, partition: str) -> None:
        self._world.api.annotate(f"{partition}@{self._stage.entry(partition).epoch}")

    def accept_losses(self, name: str) -> None:
        """A person accepts the loss of all partitions that a pod reports as lost."""
        lost = self._world.lost(self._stage.host(name))
        self._world.api.annotate(",".join(f"{one}@{self._stage.entry(one).epoch}" for one in lost))

    def delete_store(self) -> None:
        self._world.delete_store()

    def make_again(self) -> None:
        self._world.make_store_again()

    async def write_fails(self, name: str) -> None:
        """The next write of the pod's disk fails, and those of a second after it."""
        disk = self._world.disks[self._stage.number(name)]
        disk.is_full = True
        await asyncio.sleep(1.0)
        disk.is_full = False


_PATH = r"([\w/-]+)"
_MANY = r"(?:(\d+|all) )?"
LINES: dict[str, str] = {
    r"kill all pods": "kill_all",
    r"kill (.+)": "kill",
    r"start everything": "start_all",
    r"start (.+)": "start",
    r"all machines lose power": "power_of_all",
    r"(\S+(?: of \d)?) loses power( with holes| and all that no sync covered)?": "power",
    r"pause (.+)": "pause",
    r"resume (.+)": "resume",
    r"the clock of (.+) jumps by (-?\d+) s": "clock",
    r"the clock of (.+) runs at ([\d.]+)": "rate",
    r"the disk of (.+) takes ([\d.]+) s": "slow",
    r"the disk of (.+) is quick": "quick",
    r"the syncs of (.+) take ([\d.]+) s": "syncs",
    r"the syncs of (.+) are quick": "syncs_are_quick",
    r"the log of (\d) at (.+) is damaged": "damage",
    r"the disk of (.+) is full": "full",
    r"the disk of (.+) has room": "roomy",
    r"the disk of (.+) fails for a second": "write_fails",
    r"keep the volume of (.+) as (\w+)": "keep_volume",
    r"put the volume (\w+) into (.+)": "put_volume",
    r"put the databases (\w+) into (.+)": "put_databases",
    r"(.+) loses its volume": "lose_volume",
    r"cut (.+) from (.+)": "cut",
    r"cut (.+) and (.+) off each other": "cut_both",
    r"isolate (.+)": "isolate",
    r"mend the network": "mend_network",
    rf"delay {_MANY}(messages|answers) {_PATH} of (.+) for (.+) by ([\d.]+) s": "delay_of_one",
    rf"lose {_MANY}(messages|answers) {_PATH} of (.+)": "lose",
    rf"repeat {_MANY}(messages) {_PATH} of (.+)": "repeat",
    rf"delay {_MANY}(messages|answers) {_PATH} of (\S+(?: of \d)?)(?: by ([\d.]+) s)?": "delay",
    rf"(.+) ends when it (gets|has answered) {_PATH}( without power)?": "kill_at",
    r"(.+) ends in the middle of a commit of (\d)": "kill_in_commit",
    rf"(.+) loses power behind its answer {_PATH}": "power_behind",
    r"the API server is away": "api_away",
    r"the API server loses its answers": "api_loses",
    r"the API server shows older states": "api_stale",
    r"the API server refuses what the operator publishes": "api_refuses",
    r"the API server is well": "api_well",
    r"keep the status as (\w+)": "keep_status",
    r"put the status (\w+) back": "put_status",
    r"the status is lost": "status_lost",
    r"another operator raises all epochs": "raise_epochs",
    r"another operator hands (\d) over to (.+)": "hand_over",
    r"another operator fails (\d) over to (.+)": "fail_over",
    r"another operator leaves (.+) out of (\d)": "leave_out",
    r"edit (standbys|replicas|format|retention) to (\S+)": "edit",
    r"edit the pods' template": "template",
    r"accept the loss of (\d)": "accept_loss",
    r"accept all losses of (.+)": "accept_losses",
    r"delete the store": "delete_store",
    r"make the store again": "make_again",
}
