"""Makes the environment of a PySpark, and removes it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / ".compat"
UV = str(Path(sys.executable).parent / "uv")
# PySpark's sources are 400 MB, and their wheel as much.
_INSTALL_S = 1800.0
_PYSPARK = ("pyspark", "py4j")


@contextmanager
def environment(version: str) -> Iterator[Path]:
    """The Python of an environment with this PySpark; the environment is removed behind it."""
    place = DIRECTORY / version
    try:
        yield _make(place, version)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _make(place: Path, version: str) -> Path:
    run_uv("venv", "--quiet", "--clear", "--python", sys.executable, str(place))
    python = place / "bin" / "python"
    lock = DIRECTORY / "requirements.txt"
    lock.write_text(without_pyspark((ROOT / "spark-jobs" / "requirements.lock").read_text()))
    build = str(ROOT / ".ci" / "build.lock")
    install = ("pip", "install", "--quiet", "--python", str(python), "--build-constraints", build)
    run_uv(*install, "--require-hashes", "--requirements", str(lock))
    # Not kept by the cache: each build of a PySpark would stay there.
    run_uv(*install, "--no-cache", f"pyspark=={version}")
    return python


def without_pyspark(lock: str) -> str:
    """The lock without PySpark and its own Py4J: a package is a line and the hashes behind it."""
    kept: list[str] = []
    is_kept = True
    for line in lock.splitlines():
        if not line.startswith((" ", "\t")):
            is_kept = line.partition("==")[0] not in _PYSPARK
        if is_kept:
            kept.append(line)
    return "\n".join(kept) + "\n"


def run_uv(*arguments: str) -> None:
    """Runs uv of `.venv`. Raises CalledProcessError where it fails."""
    subprocess.run([UV, *arguments], check=True, timeout=_INSTALL_S, env=os.environ)
