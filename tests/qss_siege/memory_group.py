"""A memory control group for one process: version 1 or version 2, as this machine has."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_ROOT = Path("/sys/fs/cgroup")
_REMOVE_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class _Names:
    """The files of one version."""

    limit: str
    tcp_limit: str
    peak: str
    tcp_peak: str
    events: str


# Version 2 counts the buffers of sockets with all other memory; version 1 counts them separately.
_V1 = _Names(
    limit="memory.limit_in_bytes",
    tcp_limit="memory.kmem.tcp.limit_in_bytes",
    peak="memory.max_usage_in_bytes",
    tcp_peak="memory.kmem.tcp.max_usage_in_bytes",
    events="memory.oom_control",
)
_V2 = _Names(
    limit="memory.max", tcp_limit="", peak="memory.peak", tcp_peak="", events="memory.events"
)


class MemoryGroup:
    """One group with a limit; processes join it by `command`."""

    def __init__(self, path: Path, names: _Names) -> None:
        self._path = path
        self._names = names

    @classmethod
    def make(cls, limit_bytes: int) -> "MemoryGroup":
        """Makes a group. Raises OSError if this machine or this user cannot make one."""
        for parent, names in _parents():
            group = cls(parent / f"qss-siege-{os.getpid()}-{time.monotonic_ns()}", names)
            group._path.mkdir()
            try:
                group._limit(limit_bytes)
            except OSError:
                group._path.rmdir()
                raise
            return group
        raise OSError("no memory control group of version 1 or 2 is mounted at /sys/fs/cgroup")

    def _limit(self, limit_bytes: int) -> None:
        (self._path / self._names.limit).write_text(str(limit_bytes))
        # The kernel counts the buffers of sockets once they have a limit.
        if self._names.tcp_limit:
            (self._path / self._names.tcp_limit).write_text(str(limit_bytes))

    @property
    def command(self) -> tuple[str, ...]:
        """The beginning of a command that puts its process into the group."""
        return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._path / "cgroup.procs"))

    def peak_bytes(self) -> int:
        """The highest use, with the page cache and the buffers of sockets."""
        return self._number(self._names.peak) + self.socket_peak_bytes()

    def socket_peak_bytes(self) -> int:
        """The highest use of socket buffers, where the kernel counts them separately."""
        return self._number(self._names.tcp_peak) if self._names.tcp_peak else 0

    def kills(self) -> int:
        """The number of processes that the kernel killed for lack of memory."""
        lines = (self._path / self._names.events).read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def _number(self, name: str) -> int:
        return int((self._path / name).read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + _REMOVE_WITHIN_S
        while True:  # The kernel still counts a process that has just ended.
            try:
                self._path.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                os.sched_yield()
            else:
                return


def _parents() -> list[tuple[Path, _Names]]:
    """The directories in which a group can be made: inside the control group of this process."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append((_existing(_ROOT / "memory", own), _V1))
        elif not controllers and "memory" in _controllers(_ROOT):
            found.append((_delegating(_existing(_ROOT, own)), _V2))
    return found


def _existing(mount: Path, own: str) -> Path:
    inside = mount / own.lstrip("/")
    return inside if inside.is_dir() else mount


def _controllers(path: Path) -> list[str]:
    try:
        return (path / "cgroup.controllers").read_text().split()
    except OSError:
        return []


def _delegating(path: Path) -> Path:
    """The nearest group that may limit groups inside; a group with processes may not."""
    while path != _ROOT and "memory" not in (path / "cgroup.subtree_control").read_text().split():
        path = path.parent
    return path
