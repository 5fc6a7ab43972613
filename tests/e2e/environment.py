"""The cluster and the images of a run: from the environment, or of the test bed."""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.kubectl import Cluster

Tell = Callable[[str], object]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "queryable-state"
CRD = ROOT / "crds" / "queryablestatestores.yaml"
TESTBED = ROOT / "tests" / "e2e" / "testbed" / "testbed"
_IMAGES = ROOT / "tests" / "e2e" / "images" / "images"
_UP_TIMEOUT_S = 1800.0
_DEFAULT_TAG = "0.1.0"
_LOCK = Path(tempfile.gettempdir()) / "queryable-state-e2e.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """References of the three images."""

    store: str
    operator: str
    spark: str


def is_own_bed(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the tests run on the test bed of this machine, which they may break."""
    return "E2E_KUBECONFIG" not in environment


def find_cluster(environment: Mapping[str, str] = os.environ) -> Cluster:
    """The cluster of E2E_KUBECONFIG, or the test bed; starts the test bed if it does not run."""
    if not is_own_bed(environment):
        return Cluster(kubeconfig=environment["E2E_KUBECONFIG"], path=environment["PATH"])
    last = _output(str(TESTBED), "up", "2").splitlines()[-1]
    values = dict(part.partition("=")[::2] for part in last.removeprefix("export ").split(" "))
    path = values["PATH"].replace("$PATH", environment["PATH"])
    return Cluster(kubeconfig=values["KUBECONFIG"], path=path)


def find_images(environment: Mapping[str, str] = os.environ) -> Images:
    """The images of E2E_IMAGE_PREFIX (and E2E_IMAGE_TAG), or new images of the test bed."""
    prefix = environment.get("E2E_IMAGE_PREFIX")
    if prefix is not None:
        tag = environment.get("E2E_IMAGE_TAG", _DEFAULT_TAG)
        names = {name: f"{prefix}/{name}:{tag}" for name in ("store", "operator", "spark")}
        return Images(**names)
    assert is_own_bed(environment), (
        "E2E_KUBECONFIG needs E2E_IMAGE_PREFIX, the prefix of the images"
    )
    lines = dict(
        line.partition("=")[::2] for line in _output(str(_IMAGES), "load").strip().splitlines()
    )
    return Images(
        store=lines["STORE_IMAGE"], operator=lines["OPERATOR_IMAGE"], spark=lines["SPARK_IMAGE"]
    )


def find_next_store_image() -> str:
    """The store's image with one more layer, on the nodes of the test bed."""
    return _output(str(_IMAGES), "load-next").strip().partition("=")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The version before this one: references of its images, and its chart."""

    store: str
    operator: str
    chart: Path


def find_before(commit: str) -> Before:
    """The images of an earlier commit, on the nodes of the test bed; the first time they are built.

    Fails with a line that says what to do where the history lacks the commit.
    """
    said = _output(str(_IMAGES), "load-before", commit).strip().splitlines()
    lines = dict(line.partition("=")[::2] for line in said)
    return Before(
        store=lines["BEFORE_STORE_IMAGE"],
        operator=lines["BEFORE_OPERATOR_IMAGE"],
        chart=Path(lines["BEFORE_CHART"]),
    )


def on_testbed(*arguments: str) -> str:
    """Runs a command of the test bed."""
    return _output(str(TESTBED), *arguments)


@contextmanager
def alone() -> Iterator[None]:
    """Lets one run at a time use the test bed: a run deletes the objects of earlier runs."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _output(*command: str) -> str:
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=_UP_TIMEOUT_S,
    )
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.stdout}{ended.stderr}"
    return ended.stdout
