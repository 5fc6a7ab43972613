"""The flights' job on Kubernetes: its manifests, its progress, and a check of its store."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.clients import PodClient
from e2e.environment import ROOT, Images
from e2e.kubectl import Cluster, CommandError, Object
from qss_spark.demo.expected import differences, expected_aircraft_stats
from qss_testing.waiting import wait_until

JOB = "job/aircraft-stats"
STORE = "aircraft-stats"
KEYS = 4043
DRIVERS = ("pods", "--selector", "batch.kubernetes.io/job-name=aircraft-stats")
EXECUTORS = ("pods", "--selector", "spark-role=executor")
_MANIFESTS = ROOT / "spark-jobs" / "kubernetes"
MIRROR = _MANIFESTS / "mirror.yaml"
_JOB_TIMEOUT_S = 600.0
_BEGIN_TIMEOUT_S = 300.0


def start(here: Cluster, images: Images) -> None:
    """Starts the store, and the job when the store is ready."""
    start_store(here, images)
    here.wait(f"qss/{STORE}", "condition=Ready")
    start_job(here, images)


def start_store(here: Cluster, images: Images, **storage: str) -> None:
    """Applies the store and the job's right to write it; `storage` is added to its spec."""
    store, *others = documents(here, _MANIFESTS / "aircraft-stats-store.yaml", images)
    store["spec"]["storage"] |= storage
    here.apply(store, *others)


def start_job(here: Cluster, images: Images) -> None:
    here.apply(*documents(here, _MANIFESTS / "aircraft-stats-job.yaml", images))


def documents(here: Cluster, file: Path, images: Images) -> list[Object]:
    """The objects of a manifest, with the image and the namespace of this run."""
    text = file.read_text().replace("queryable-state/spark:0.1.0", images.spark)
    text = text.replace("queryablestate.dev/flights/", f"queryablestate.dev/{here.namespace}/")
    text = text.replace(".flights.svc", f".{here.namespace}.svc")
    return list(yaml.safe_load_all(text))


def running_pods(here: Cluster, selector: tuple[str, ...]) -> list[str]:
    """The names of the running pods."""
    return sorted(
        one["metadata"]["name"]
        for one in here.items(*selector)
        if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
    )


def wait_for_batches(here: Cluster, count: int) -> None:
    """Returns when the running driver has committed `count` batches."""

    def committed() -> bool:
        drivers = running_pods(here, DRIVERS)
        if not drivers:
            return False
        try:
            said = here.kubectl("logs", drivers[0])
        except CommandError:
            return False  # The driver ends now.
        return said.count('{"batch"') >= count

    wait_until(committed, _BEGIN_TIMEOUT_S)


def wait_for_executors(here: Cluster) -> dict[str, str]:
    """The node of each executor, as soon as two run."""

    def placed() -> dict[str, str] | None:
        nodes = {
            one["metadata"]["name"]: one["spec"]["nodeName"]
            for one in here.items(*EXECUTORS)
            if one["status"].get("phase") == "Running"
        }
        return nodes if len(nodes) == 2 else None

    return wait_until(placed, _BEGIN_TIMEOUT_S)


def wait_for_end(here: Cluster) -> None:
    """Returns when the job is complete."""
    here.wait(JOB, "condition=Complete", _JOB_TIMEOUT_S)


def compare(here: Cluster, client: PodClient) -> None:
    """Waits for the end of the job, and compares all rows with a computation without Spark."""
    wait_for_end(here)
    check_rows(client.read(STORE))


def check_rows(held: Mapping[str, Any]) -> None:
    """Asserts that the rows equal the rows of a computation without Spark."""
    assert differences(_expected(), list(held.items())) == []
    assert len(held) == len(_expected()) == KEYS


@cache
def _expected() -> dict[str, dict[str, Any]]:
    return expected_aircraft_stats()
