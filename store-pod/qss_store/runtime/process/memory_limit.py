"""Finds the memory limit of this process."""

import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_MEMORY = Path("/proc/meminfo")
_NO_LIMIT_BYTES = 2**60
_UNKNOWN_BYTES = 1024 * 1024 * 1024


def memory_limit(groups: Path = _GROUPS, own: Path = _OWN_GROUPS) -> int | None:
    """The smallest limit of its control group and of groups around it; None without one."""
    limits = [limit for file in _limit_files(groups, own) if (limit := _limit_in(file))]
    return min(limits, default=None)


def memory_of_machine() -> int:
    try:
        for line in _MEMORY.read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _UNKNOWN_BYTES


def _limit_files(groups: Path, own: Path) -> Iterator[Path]:
    """The files of versions 1 and 2, from the process's own group upwards.

    In a container the mounted tree may begin at its own group, whatever the path is.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        lines = []
    paths = {"": "/", "memory": "/"}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    for mount, path, name in (
        (groups, paths[""], "memory.max"),
        (groups / "memory", paths["memory"], "memory.limit_in_bytes"),
    ):
        inside = Path(os.path.normpath(path)).parts[1:]
        for depth in range(len(inside), -1, -1):
            yield mount.joinpath(*inside[:depth], name)


def _limit_in(file: Path) -> int | None:
    try:
        limit = int(file.read_text())
    except (OSError, ValueError):
        return None  # There is no limit, or it is `max`.
    return limit if limit < _NO_LIMIT_BYTES else None
