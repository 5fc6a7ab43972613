"""A siege: one pod with TLS and checked callers, all hostile kinds at once, and good clients."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

import msgspec

from qss_siege.good_program import Seen
from qss_siege.hostile import KINDS
from qss_siege.memory_group import MemoryGroup
from qss_siege.target import (
    LARGE_BYTES,
    LARGE_KEYS,
    SMALL_BYTES,
    SMALL_KEYS,
    Target,
    large_key,
    small_key,
)
from qss_siege.witnesses import (
    GoodWriter,
    OpenFiles,
    Partitions,
    Probes,
    status_of,
    watches,
    writing,
)
from qss_store.runtime.process.memory_shares import with_shares
from qss_store.runtime.settings import Settings
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.certificates import Authority
from qss_testing.pods.guarded import BOTH, READER, STORE, WRITER, guarded, rights
from qss_testing.pods.pod_forge import TESTS
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.writers.writer import Record, Writer

PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Duration, number of callers and memory limit of a siege."""

    limit_bytes: int
    seconds: float = 120.0
    idle_seconds: float = 15.0
    share: float = 1.0  # Share of the callers of each kind.
    kinds: tuple[str, ...] = tuple(KINDS)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The measurements of a siege."""

    limit_bytes: int
    group: str  # Why there is no control group; empty if there is one.
    idle: Seen = field(default_factory=Seen)
    under: Seen = field(default_factory=Seen)
    writer_failures: list[str] = field(default_factory=list)
    batches: int = 0
    slowest_batch_s: float = 0.0
    rss_bytes: int = 0
    rss_before_bytes: int = 0
    group_peak_bytes: int = 0
    socket_peak_bytes: int = 0
    kills: int = 0
    files_max: int = 0
    files_limit: int = 0
    probes: Probes | None = None
    partitions_stopped: int = 0
    reports: int = 0
    hostile: dict[str, dict[str, int]] = field(default_factory=dict)


def besiege(plan: Plan, directory: Path) -> Outcome:
    """Runs the callers against the pod, and returns the outcome."""
    with ExitStack() as stack:
        group, why = _group(plan, stack)
        reviewer = stack.enter_context(Reviewer(rights()))
        cluster, authority = stack.enter_context(_cluster(plan, directory, reviewer, group))
        outcome = Outcome(limit_bytes=plan.limit_bytes, group=why)
        target = _target(cluster, authority)
        with Writer(
            cluster.pods[0].internal, STORE, token=make_token(BOTH), ca_file=authority.file
        ) as writer:
            _fill(writer)
            _meet(plan, cluster.pods[0], target, writer, outcome)
        if group is not None:
            outcome.group_peak_bytes = group.peak_bytes()
            outcome.socket_peak_bytes = group.socket_peak_bytes()
            outcome.kills = group.kills()
        return outcome


def _group(plan: Plan, stack: ExitStack) -> tuple[MemoryGroup | None, str]:
    try:
        return stack.enter_context(MemoryGroup.make(plan.limit_bytes)), ""
    except OSError as error:
        return None, f"{error}"


@contextmanager
def _cluster(
    plan: Plan, directory: Path, reviewer: Reviewer, group: MemoryGroup | None
) -> Iterator[tuple[PodCluster, Authority]]:
    authority = Authority.make(directory / "authority")
    tls = authority.issue(directory / "tls")
    # The pod cannot find its limit, so it gets the settings that it would compute from it.
    if group is None:
        command: tuple[str, ...] = ("sh", "-c", 'exec "$@"', "sh")
        environment = _shares(plan.limit_bytes)
    else:
        command, environment = group.command, {}
    with guarded(
        directory,
        reviewer,
        ("--tls-dir", str(tls)),
        operator={"ca_file": authority.file},
        command=command,
        environment=environment,
        partitions=PARTITIONS,
    ) as cluster:
        yield cluster, authority


def _shares(limit_bytes: int) -> dict[str, str]:
    made, names = with_shares(Settings(), limit_bytes, limit_bytes), fields(Settings)
    return {f"QSS_{one.name.upper()}": str(getattr(made, one.name)) for one in names}


def _target(cluster: PodCluster, authority: Authority) -> Target:
    query, internal, ops = cluster.pods[0].ports
    return Target(
        store=STORE,
        store_id=str(cluster.assignment.definition.store_id),
        query_port=query,
        internal_port=internal,
        ops_port=ops,
        ca_file=str(authority.file),
        reader_token=make_token(READER),
        writer_token=make_token(WRITER),
    )


def _fill(writer: Writer) -> None:
    for number in range(LARGE_KEYS):
        writer.write([Record(large_key(number), "x" * LARGE_BYTES)])
    for first in range(0, SMALL_KEYS, 10_000):
        keys = range(first, first + 10_000)
        writer.write([Record(small_key(number), "v" * SMALL_BYTES) for number in keys])


def _meet(plan: Plan, pod: PodProcess, target: Target, writer: Writer, outcome: Outcome) -> None:
    assert pod.process is not None
    pid = pod.process.pid
    probes, partitions = Probes(pod.ports[2]), Partitions(pod)
    files, batches = OpenFiles(pid), GoodWriter(writer)
    outcome.probes = probes
    with ExitStack() as stack:
        good = stack.enter_context(_program("good_program", _told(target)))
        _line(good)
        for watch in watches(pod, probes, partitions, files):
            stack.enter_context(watch)
        stack.enter_context(writing(batches))
        _ask(good)
        time.sleep(plan.idle_seconds)  # noqa: TID251 It measures how it is at rest.
        outcome.idle = _ask(good)
        outcome.rss_before_bytes = status_of(pid, "VmRSS")
        outcome.hostile = _attack(plan, target, pod)
        outcome.under = _ask(good)
    partitions.look()
    outcome.rss_bytes = status_of(pid, "VmHWM")
    outcome.files_max = files.most
    outcome.files_limit = _files_limit(pid)
    outcome.partitions_stopped = len(partitions.stopped)
    outcome.reports = partitions.reports
    outcome.batches, outcome.writer_failures = len(batches.took_s), batches.failures
    outcome.slowest_batch_s = max(batches.took_s)


def _attack(plan: Plan, target: Target, pod: PodProcess) -> dict[str, dict[str, int]]:
    """Runs all hostile kinds at once, until the time is over or the pod has ended."""
    with ExitStack() as stack:
        programs = {
            name: stack.enter_context(
                _program("hostile_program", name, str(plan.share), _told(target))
            )
            for name in plan.kinds
        }
        assert pod.process is not None
        for program in programs.values():
            _line(program)  # It takes signals from now on.
        with suppress(subprocess.TimeoutExpired):
            code = pod.process.wait(plan.seconds)
            raise AssertionError(f"the pod ended with {code}: {pod.log()[-2000:]}")
        for program in programs.values():
            program.terminate()
        return {
            name: msgspec.json.decode(_line(program), type=dict[str, int])
            for name, program in programs.items()
        }


def _told(target: Target) -> str:
    return msgspec.json.encode(target).decode()


@contextmanager
def _program(module: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", f"qss_siege.{module}", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def _line(program: "subprocess.Popen[str]") -> str:
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line, f"{program.args!r} ended with {program.wait()}"
    return line


def _ask(good: "subprocess.Popen[str]") -> Seen:
    good.send_signal(signal.SIGUSR1)
    return msgspec.json.decode(_line(good), type=Seen)


def _files_limit(pid: int) -> int:
    for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return int(line.split()[3])
    raise AssertionError("the system tells no limit of open files")
