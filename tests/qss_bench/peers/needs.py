"""The programs that the comparisons need, and the Debian packages that have them."""

import os
import shutil
from glob import glob
from pathlib import Path

_PACKAGES = {
    "java": "openjdk-17-jre-headless",
    "mvn": "maven",
    "gcc": "gcc",
    "wrk": "wrk",
    "curl": "curl",
    "redis-server": "redis-server",
    "redis-cli": "redis-tools",
    "initdb": "postgresql",
    "postgres": "postgresql",
    "taskset": "util-linux",
    "setpriv": "util-linux",
}
CORES_MIN = 2


def program(name: str) -> Path | None:
    """The path of a program, also in the directories of Debian's PostgreSQL; None if absent."""
    if found := shutil.which(name):
        return Path(found)
    return next((Path(one) for one in sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"))), None)


def path_of(name: str) -> str:
    """The path of a program that `missing` has looked for."""
    found = program(name)
    assert found is not None, f"{name} is missing"
    return str(found)


def missing(names: set[str]) -> str | None:
    """What the machine lacks of these programs, with the command that installs it, or None."""
    absent = sorted(name for name in names if program(name) is None)
    if absent:
        packages = " ".join(dict.fromkeys(_PACKAGES[name] for name in absent))
        return f"missing: {', '.join(absent)}; on Debian: apt-get install {packages}"
    if len(cores()) < CORES_MIN:
        return f"{CORES_MIN} cores are needed: one for the servers, one for the load"
    return None


def cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0))
