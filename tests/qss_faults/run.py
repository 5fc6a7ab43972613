"""Runs a plan: the store, its writer and its readers, one fault after the other, the last check."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from qss_faults.content import content_of
from qss_faults.history import KINDS, SHARED_KEYS, Batches, History
from qss_faults.last_check import check_replicas
from qss_faults.machines import Machines, machines_of
from qss_faults.plan import OF_DISKS, OF_LINKS, Fault, Plan
from qss_faults.reading import ClientReader, ReplicaReader
from qss_faults.strikes import Field, strike
from qss_faults.writing import FaultWriter
from qss_testing.clients.qss_command import STORE
from qss_testing.waiting import wait_until

WHOLE_WITHIN_S = 60.0
_BATCHES_AFTER = 3


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The findings of one run of a plan."""

    plan: Plan
    history: History
    writer: FaultWriter
    client: ClientReader
    replica: ReplicaReader
    struck: Counter[str] = field(default_factory=Counter)
    stuck: str = ""  # Why the store did not become whole again after a fault.
    compared_rows: int = 0

    @property
    def failed_reads(self) -> Counter[tuple[str, str]]:
        """The reads of clients that failed, by fault and code."""
        return self.client.failures

    @property
    def longest_wait(self) -> tuple[float, str]:
        """The longest time between two acknowledgements, and the fault of that time."""
        return max(self.history.waits, default=(0.0, "nothing"))

    @property
    def holds(self) -> bool:
        """Whether the run broke no bound."""
        return not self.stuck and not any(self.history.broken[kind] for kind in KINDS)


Tell = Callable[[str], None]


def run_plan(plan: Plan, directory: Path, tell: Tell) -> Outcome:
    """Strikes with all faults of a plan that this machine allows; `tell` gets a line for each."""
    with machines_of(plan, directory) as machines:
        wait_until(machines.is_whole, WHOLE_WITHIN_S)
        outcome = _outcome(plan, machines)
        with _load(outcome):
            _strike_all(machines, outcome, tell)
        outcome.history.now = "the end"
        if not outcome.stuck:
            outcome.compared_rows = check_replicas(
                machines, outcome.history, outcome.writer.content
            )
        return outcome


def _outcome(plan: Plan, machines: Machines) -> Outcome:
    history = History(Batches(plan.partitions))
    content = content_of(plan.content, history.batches)
    urls = machines.urls
    return Outcome(
        plan=plan,
        history=history,
        writer=FaultWriter(urls, STORE, history, content),
        client=ClientReader(urls, STORE, history, content, "client"),
        replica=ReplicaReader(urls, STORE, history, content, "reader"),
    )


@contextmanager
def _load(outcome: Outcome) -> Iterator[None]:
    """Writes and reads inside the context; raises what ended a thread."""
    writer, client, replica = outcome.writer, outcome.client, outcome.replica
    broken: list[BaseException] = []

    def guarded(run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 the end of the context raises it.
            broken.append(error)

    writing = threading.Thread(target=guarded, args=(writer.run,))
    reading = [threading.Thread(target=guarded, args=(run,)) for run in (client.run, replica.run)]
    writing.start()
    try:
        wait_until(lambda: outcome.history.acknowledged > SHARED_KEYS, WHOLE_WITHIN_S)
        for thread in reading:
            thread.start()
        yield
    finally:
        writer.over.set()
        client.over.set()
        replica.over.set()
        for thread in (writing, *(one for one in reading if one.ident is not None)):
            thread.join()
    if broken:
        raise broken[0]


def _strike_all(machines: Machines, outcome: Outcome, tell: Tell) -> None:
    field = Field(machines=machines, history=outcome.history, writer=outcome.writer)
    for number, fault in enumerate(outcome.plan.faults, 1):
        if not _is_possible(machines, fault):
            tell(f"{number:3} {fault.told}: left out")
            continue
        began_s = time.monotonic()
        outcome.history.now = f"{number} {fault.kind}"
        details, struck_s = "", 0.0
        outcome.struck[fault.kind] += 1
        try:
            details = strike(field, fault)
            struck_s = time.monotonic() - began_s
            wait_until(lambda: _is_over(machines, outcome), WHOLE_WITHIN_S)
        except AssertionError:
            outcome.stuck = f"not whole {WHOLE_WITHIN_S:g} s after fault {number}, {fault.told}"
        whole_s = time.monotonic() - began_s - struck_s
        tell(_told(outcome, number, fault, details, struck_s, whole_s))
        if outcome.stuck:
            for line in machines.trouble():
                tell(f"    {line}")
            return


def _is_possible(machines: Machines, fault: Fault) -> bool:
    return machines.network is not None or fault.kind not in (*OF_LINKS, *OF_DISKS)


def _is_over(machines: Machines, outcome: Outcome) -> bool:
    """Whether the store is whole, and the writer goes on."""
    machines.processes.check()
    now = outcome.history.now
    last = [fault for _, fault in outcome.history.waits[-_BATCHES_AFTER:]]
    return last == [now] * _BATCHES_AFTER and machines.is_whole()


def _told(
    outcome: Outcome, number: int, fault: Fault, details: str, struck_s: float, whole_s: float
) -> str:
    now = outcome.history.now
    waited_s = max((wait for wait, of in outcome.history.waits if of == now), default=0.0)
    failed = Counter(
        {code: count for (of, code), count in outcome.failed_reads.items() if of == now}
    )
    failures = ", ".join(f"{count} {code}" for code, count in sorted(failed.items())) or "none"
    return (
        f"{number:3} {fault.told}{f' ({details})' if details else ''}: {struck_s:.1f} s, "
        f"whole after {whole_s:.1f} s; writer waited {waited_s:.1f} s; failed reads: {failures}"
    )
