"""The whole story at its shortest: helm install, a store, a Spark job, every key compared."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.clients import start_client
from e2e.environment import ROOT, Images
from e2e.kubectl import Cluster, Object
from e2e.namespaces import fresh_namespace
from e2e.releases import install
from qss_client import Row
from qss_spark.demo.expected import differences, expected_aircraft_stats

MANIFESTS = ROOT / "spark-jobs" / "kubernetes"
_JOB_TIMEOUT_S = 600.0


@pytest.fixture(scope="module")
def system(cluster: Cluster, images: Images) -> Iterator[Cluster]:
    """The operator of all namespaces."""
    with fresh_namespace(cluster, "qss-e2e-smoke-system") as made:
        install(made, images)
        yield made
        made.helm("uninstall", "qss", "--wait")


def documents(file: Path, images: Images) -> list[Object]:
    text = file.read_text().replace("queryable-state/spark:0.1.0", images.spark)
    return list(yaml.safe_load_all(text))


def test_a_spark_job_fills_a_store_and_every_key_is_right(
    system: Cluster, namespace: Cluster, images: Images
) -> None:
    system.helm("test", "qss", "--logs")
    namespace.apply(*documents(MANIFESTS / "aircraft-stats-store.yaml", images))
    namespace.wait("qss/aircraft-stats", "condition=Ready")
    namespace.apply(*documents(MANIFESTS / "aircraft-stats-job.yaml", images))
    client = start_client(namespace, images.store)
    expected = expected_aircraft_stats()
    namespace.wait("job/aircraft-stats", "condition=Complete", _JOB_TIMEOUT_S)
    held = [Row(key=key, value=value) for key, value in client.read("aircraft-stats").items()]
    assert differences(expected, held) == []
    assert len(held) == len(expected) == 4043
