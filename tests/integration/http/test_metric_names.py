"""Pods and operator show all metrics that the chart's alerts and dashboard use."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import urllib3
import yaml
from prometheus_client.parser import text_string_to_metric_families

from qss_operator.kubernetes.leadership.health import Health, HealthLimits, serve_ops
from qss_operator.metrics import OperatorMetrics
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import ProcessWriter

FILES = Path(__file__).parents[3] / "charts" / "queryable-state" / "files"
_NAME = re.compile(r"\bqss_[a-z_]+\b")
_SUFFIXES = ("_bucket", "_count", "_sum")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    cluster = PodCluster(tmp_path_factory.mktemp("metrics"), pods=1, partitions=1)
    try:
        cluster.pods[0].start()
        yield cluster
    finally:
        cluster.pods[0].kill()


def metrics_of(cluster: PodCluster) -> str:
    return urllib3.request("GET", cluster.pods[0].ops + "/metrics").data.decode()


def value_of(text: str, name: str) -> float:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                return sample.value
    raise AssertionError(f"no {name}")


def shown_names(text: str) -> set[str]:
    """The names that a query may use, including metrics without samples."""
    found = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            suffixes = _SUFFIXES if kind == "histogram" else ("",)
            found |= {f"{name}{suffix}" for suffix in suffixes}
    return found


def expressions() -> list[str]:
    alerts = yaml.safe_load((FILES / "alerts.yaml").read_text())
    dashboard = json.loads((FILES / "dashboard.json").read_text())
    targets = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    annotations = [one["expr"] for one in dashboard["annotations"]["list"]]
    return [*(alert["expr"] for alert in alerts), *targets, *annotations]


async def test_every_metric_that_alerts_and_dashboard_name_is_shown(cluster: PodCluster) -> None:
    metrics = OperatorMetrics()
    health = Health(HealthLimits(), clock=SetClock())
    async with (
        serve_ops(health, metrics, "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        operator = await answer.text()
    known = shown_names(operator) | shown_names(metrics_of(cluster))
    named = {name for expression in expressions() for name in _NAME.findall(expression)}
    assert named
    assert named - known == set()


def test_a_pod_shows_its_volume_and_the_silence_of_its_writers(cluster: PodCluster) -> None:
    cluster.assign(cluster.pods[0])
    text = metrics_of(cluster)
    size, free = (value_of(text, f"qss_volume{one}_bytes") for one in ("", "_free"))
    assert 0 < free < size
    assert value_of(text, "qss_writer_silent_seconds") == 0.0
    writer = ProcessWriter(cluster, "silent")
    writer.open()
    wait_until(lambda: value_of(metrics_of(cluster), "qss_writer_silent_seconds") > 0.0)
    writer.close()
