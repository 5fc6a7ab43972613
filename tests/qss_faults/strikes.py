"""Strikes with one fault, and takes it away again; what stays broken, the store has to mend."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 a seed chooses.
from signal import SIGCONT, SIGKILL, SIGSTOP

from qss_faults.history import History
from qss_faults.machines import OPERATOR, Machines, pod_name
from qss_faults.parts.damage import Damage, flip_sst, flip_wal, hole_wal, tear_wal
from qss_faults.parts.network import CLIENTS, Network
from qss_faults.parts.operator_program import steps_file
from qss_faults.plan import Fault, Kind
from qss_faults.writing import FaultWriter
from qss_testing.waiting import wait_until

_LEFT_BYTES = 1024 * 1024
_SLOW_S, _FROZEN_S, _THAWED_S = 6.0, 0.25, 0.05
_ENDS_WITHIN_S, _WHOLE_WITHIN_S = 20.0, 60.0


@dataclass(slots=True, kw_only=True)
class Field:
    """The store and the load that a strike meets."""

    machines: Machines
    history: History
    writer: FaultWriter

    def wait(self, seconds: float) -> None:
        """Lets a fault last so long."""
        threading.Event().wait(seconds)

    @property
    def past_lease_s(self) -> float:
        return self.machines.plan.past_lease_s

    @property
    def network(self) -> Network:
        assert self.machines.network is not None
        return self.machines.network


def strike(field: Field, fault: Fault) -> str:
    """Strikes with one fault until it is over; returns details that only the run knows."""
    return _STRIKES[fault.kind](field, fault) or ""


# --- Processes


def _kill(field: Field, fault: Fault) -> None:
    field.machines.processes.signal(pod_name(fault.pod), SIGKILL)


def _kill_all(field: Field, fault: Fault) -> None:
    for pod in field.machines.pods:
        field.machines.processes.signal(pod_name(pod), SIGKILL)


def _pause(field: Field, fault: Fault) -> None:
    _paused(field, [fault.pod], field.machines.plan.lease_s / 2)


def _pause_past_lease(field: Field, fault: Fault) -> None:
    _paused(field, [fault.pod], field.past_lease_s)


def _pause_all(field: Field, fault: Fault) -> None:
    _paused(field, list(field.machines.pods), field.past_lease_s)


def _paused(field: Field, pods: list[int], seconds: float) -> None:
    processes = field.machines.processes
    for pod in pods:
        processes.signal(pod_name(pod), SIGSTOP)
    field.wait(seconds)
    for pod in pods:
        processes.signal(pod_name(pod), SIGCONT)


def _operator(field: Field, fault: Fault) -> str:
    """A pod is killed, and the operator at one of the steps that follow."""
    processes, file = field.machines.processes, steps_file(field.machines.state)
    starts = processes.starts(OPERATOR)
    file.write_text(str(fault.step))
    _kill(field, fault)
    try:
        wait_until(lambda: processes.starts(OPERATOR) > starts, field.past_lease_s)
    except AssertionError:
        return "the operator had nothing to do at this step"
    finally:
        file.unlink(missing_ok=True)
    return "the operator was killed"


def _operator_away(field: Field, fault: Fault) -> None:
    processes = field.machines.processes
    processes.hold(OPERATOR)
    processes.signal(OPERATOR, SIGKILL)
    _kill(field, fault)
    field.wait(field.past_lease_s)
    processes.release(OPERATOR)


def _driver(field: Field, fault: Fault) -> None:
    field.writer.again.set()


# --- Files


def _damaged(damage: Damage) -> Callable[[Field, Fault], str]:
    """Kills a pod, and damages each of its partitions that another in-sync replica has."""

    def strike(field: Field, fault: Fault) -> str:
        random = Random(fault.seed)
        with_pod = _stopped(field, fault.pod)
        told = [damage(database, random) for database in with_pod]
        field.machines.processes.release(pod_name(fault.pod))
        return "; ".join(one for one in told if one is not None) or "no such file"

    return strike


def _stopped(field: Field, pod: int) -> list[Path]:
    """Kills a pod and keeps it from starting; the databases that another replica has, too."""
    processes, name = field.machines.processes, pod_name(pod)
    processes.hold(name)
    processes.signal(name, SIGKILL)
    wait_until(lambda: not processes.is_running(name), _ENDS_WITHIN_S)
    partitions = field.machines.volumes[pod].data / "partitions"
    return [
        partitions / str(one.partition)
        for one in field.machines.configurations()
        if pod in one.replicas and set(one.in_sync) - {pod}
    ]


def _flip_sst(field: Field, fault: Fault) -> str:
    """Flips bits, lets readers meet them, and replaces the disk: no damage stays."""
    told = _damaged(flip_sst)(field, fault)
    field.wait(field.past_lease_s)
    wait_until(field.machines.is_whole, _WHOLE_WITHIN_S)
    for database in _stopped(field, fault.pod):
        shutil.rmtree(database, ignore_errors=True)
    field.machines.processes.release(pod_name(fault.pod))
    return told


def _lose_volume(field: Field, fault: Fault) -> str:
    databases = _stopped(field, fault.pod)
    data = field.machines.volumes[fault.pod].data
    if len(databases) == len(list((data / "partitions").glob("[0-9]*"))):
        for entry in data.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    field.machines.processes.release(pod_name(fault.pod))
    return f"{len(databases)} replicas"


# --- Links


def _cut_off(field: Field, fault: Fault) -> None:
    _cut(field, lambda: field.network.cut_off(pod_name(fault.pod)))


def _cut_peers(field: Field, fault: Fault) -> None:
    one, other = pod_name(fault.pod), pod_name(fault.other)

    def cut() -> None:
        field.network.drop(one, other)
        field.network.drop(other, one)

    _cut(field, cut)


def _one_way(field: Field, fault: Fault) -> None:
    _cut(field, lambda: field.network.drop(pod_name(fault.pod), pod_name(fault.other)))


def _one_way_operator(field: Field, fault: Fault) -> None:
    _cut(field, lambda: field.network.drop(pod_name(fault.pod), OPERATOR))


def _cut_clients(field: Field, fault: Fault) -> None:
    _cut(field, lambda: field.network.drop(pod_name(fault.pod), CLIENTS))


def _only_clients(field: Field, fault: Fault) -> None:
    """Cuts a pod off from its peers and the operator: readers still find an old active."""
    name = pod_name(fault.pod)
    others = [OPERATOR, *(pod_name(pod) for pod in field.machines.pods if pod != fault.pod)]

    def cut() -> None:
        for other in others:
            field.network.drop(name, other)
            field.network.drop(other, name)

    _cut(field, cut)


def _cut(field: Field, cut: Callable[[], None]) -> None:
    try:
        cut()
        field.wait(field.past_lease_s)
    finally:
        field.network.mend()


# --- Disks


def _full_disk(field: Field, fault: Fault) -> str:
    volume = field.machines.volumes[fault.pod]
    try:
        size = volume.fill(_LEFT_BYTES)
        field.wait(field.past_lease_s)
    finally:
        volume.make_room()
    return f"{size} bytes were taken"


def _slow_disk(field: Field, fault: Fault) -> None:
    volume = field.machines.volumes[fault.pod]
    for _ in range(int(_SLOW_S / (_FROZEN_S + _THAWED_S))):
        _frozen(field, fault.pod, _FROZEN_S)
        field.wait(_THAWED_S)
    volume.thaw()


def _hung_disk(field: Field, fault: Fault) -> None:
    _frozen(field, fault.pod, field.past_lease_s)


def _frozen(field: Field, pod: int, seconds: float) -> None:
    volume = field.machines.volumes[pod]
    try:
        volume.freeze()
        field.wait(seconds)
    finally:
        volume.thaw()


_STRIKES: dict[Kind, Callable[[Field, Fault], str | None]] = {
    Kind.KILL: _kill,
    Kind.KILL_ALL: _kill_all,
    Kind.PAUSE: _pause,
    Kind.PAUSE_PAST_LEASE: _pause_past_lease,
    Kind.PAUSE_ALL: _pause_all,
    Kind.TORN_WAL: _damaged(tear_wal),
    Kind.HOLED_WAL: _damaged(hole_wal),
    Kind.FLIPPED_WAL: _damaged(flip_wal),
    Kind.FLIPPED_SST: _flip_sst,
    Kind.LOST_VOLUME: _lose_volume,
    Kind.OPERATOR: _operator,
    Kind.OPERATOR_AWAY: _operator_away,
    Kind.DRIVER: _driver,
    Kind.CUT_OFF: _cut_off,
    Kind.CUT_PEERS: _cut_peers,
    Kind.ONE_WAY: _one_way,
    Kind.ONE_WAY_OPERATOR: _one_way_operator,
    Kind.CUT_CLIENTS: _cut_clients,
    Kind.ONLY_CLIENTS: _only_clients,
    Kind.FULL_DISK: _full_disk,
    Kind.SLOW_DISK: _slow_disk,
    Kind.HUNG_DISK: _hung_disk,
}
