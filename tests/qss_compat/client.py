"""`python -m qss_compat.client [PYTHON...]`: the wheel without extras on each Python that is here.

A Python is a version, which `uv` looks for, or a path.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from qss_compat.environments import ROOT, UV, run_uv
from qss_testing.pods.pod_process import PodCluster

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROGRAM = """
import asyncio, sys
from importlib.metadata import distributions
from qss_client import AsyncStore, Store
url, store = sys.argv[1:]
async def ask():
    async with AsyncStore(url, store) as asked:
        return await asked.get("absent")
with Store(url, store) as asked:
    assert asked.get("absent") is None and list(asked.prefix("a")) == []
assert asyncio.run(ask()) is None
print(len(list(distributions())))
"""


def main() -> int:
    """Tries each Python; returns the exit code, 1 also where no Python was found."""
    tried = 0
    with tempfile.TemporaryDirectory(prefix="qss-compat-") as made:
        directory = Path(made)
        dist = str(directory / "dist")
        hatch = (sys.executable, "-m", "hatchling", "build", "--target", "wheel")
        subprocess.run([*hatch, "--directory", dist], cwd=ROOT, check=True, capture_output=True)
        (wheel,) = Path(dist).glob("*.whl")
        with PodCluster(directory / "pods") as cluster:
            for version in sys.argv[1:] or PYTHONS:
                found = find(version)
                if found is None:
                    sys.stdout.write(f"Python {version}: not on this machine\n")
                    continue
                count = installed(directory / version.replace("/", "_"), found, wheel, cluster)
                sys.stdout.write(f"Python {version}: reads a store with {count} packages\n")
                tried += 1
    return 0 if tried else 1


def find(version: str) -> str | None:
    """The path of a Python of this machine."""
    command = [UV, "python", "find", "--no-python-downloads", "--system", version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def installed(place: Path, python: str, wheel: Path, cluster: PodCluster) -> int:
    """Installs the wheel and reads a store; the number of packages of the environment."""
    run_uv("venv", "--quiet", "--python", python, str(place))
    own = str(place / "bin" / "python")
    lock = ("--constraints", str(ROOT / "requirements.lock"))
    run_uv("pip", "install", "--quiet", "--python", own, *lock, str(wheel))
    done = subprocess.run(
        [own, "-c", PROGRAM, cluster.url, cluster.store], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
