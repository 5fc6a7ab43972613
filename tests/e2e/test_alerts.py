"""promtool checks each alert and each panel of the dashboard on given series."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.alert_series import ALERTS, JOB, PANELS, Series
from e2e.chart_values import RELEASE
from e2e.environment import CHART
from e2e.kubectl import Cluster

Object = dict[str, Any]
_INTERVAL = "1m"
_LONG_AFTER = "3h"


@pytest.fixture(scope="module")
def rules(cluster: Cluster) -> list[Object]:
    """The groups of rules that the chart makes."""
    text = cluster.within("system").helm(
        "template", RELEASE, str(CHART), "--set=metrics.prometheusRule.create=true"
    )
    made = [one for one in yaml.safe_load_all(text) if one]
    found: list[Object] = next(
        one["spec"]["groups"] for one in made if one["kind"] == "PrometheusRule"
    )
    return found


def check(cluster: Cluster, folder: Path, rules: list[Object], test: Object) -> None:
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rules}))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(document))
    cluster.run("promtool", "test", "rules", str(folder / "test.yaml"))


def input_of(series: Series) -> list[Object]:
    return [{"series": name, "values": values} for name, values in series.items()]


def alerts_of(rules: list[Object]) -> dict[str, Object]:
    return {one["alert"]: one for group in rules for one in group["rules"]}


def queries() -> dict[str, list[str]]:
    """The expressions of the dashboard, by the title of a panel or the name of an annotation."""
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    panels = {
        panel["title"]: [target["expr"] for target in panel["targets"]]
        for panel in dashboard["panels"]
        if panel.get("targets")
    }
    return panels | {one["name"]: [one["expr"]] for one in dashboard["annotations"]["list"]}


def test_every_alert_and_every_panel_has_a_case(rules: list[Object]) -> None:
    assert set(alerts_of(rules)) == set(ALERTS)
    assert set(queries()) == set(PANELS)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_fires_on_its_series_and_not_before(
    alert: str, cluster: Cluster, rules: list[Object], tmp_path: Path
) -> None:
    case = ALERTS[alert]
    rule = alerts_of(rules)[alert]
    labels = {"severity": rule["labels"]["severity"], **case.labels}
    fires = {
        "exp_labels": labels,
        "exp_annotations": {
            "summary": case.summary,
            "runbook_url": rule["annotations"]["runbook_url"],
        },
    }
    expected = [
        {"eval_time": "1m", "alertname": alert, "exp_alerts": []},
        {"eval_time": _LONG_AFTER, "alertname": alert, "exp_alerts": [fires]},
    ]
    test = {"interval": _INTERVAL, "input_series": input_of(case.fires)}
    check(cluster, tmp_path, rules, {**test, "alert_rule_test": expected})


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_silent_on_healthy_series(
    alert: str, cluster: Cluster, rules: list[Object], tmp_path: Path
) -> None:
    expected = [{"eval_time": _LONG_AFTER, "alertname": alert, "exp_alerts": []}]
    test = {"interval": _INTERVAL, "input_series": input_of(ALERTS[alert].silent)}
    check(cluster, tmp_path, rules, {**test, "alert_rule_test": expected})


@pytest.mark.parametrize("title", PANELS)
def test_a_panel_shows_the_samples_of_its_series(
    title: str, cluster: Cluster, tmp_path: Path
) -> None:
    series, samples = PANELS[title]
    expected = [
        {
            "expr": expression,
            "eval_time": _LONG_AFTER,
            "exp_samples": [{"labels": name, "value": value} for name, value in samples.items()],
        }
        for expression in queries()[title]
    ]
    test = {"interval": _INTERVAL, "input_series": input_of(series)}
    check(cluster, tmp_path, [], {**test, "promql_expr_test": expected})


def test_monitors_keep_the_namespace_of_the_store(cluster: Cluster) -> None:
    """Else it becomes `exported_namespace`, and alerts name the operator's namespace."""
    sets = [f"--set=metrics.{one}.create=true" for one in ("serviceMonitor", "podMonitor")]
    text = cluster.within("system").helm("template", RELEASE, str(CHART), *sets)
    made = {one["kind"]: one.get("spec") for one in yaml.safe_load_all(text) if one}
    endpoints = made["ServiceMonitor"]["endpoints"] + made["PodMonitor"]["podMetricsEndpoints"]
    assert [one["honorLabels"] for one in endpoints] == [True, True]


def test_the_store_job_of_the_alerts_is_the_job_of_the_pod_monitor(cluster: Cluster) -> None:
    text = cluster.within("system").helm(
        "template", RELEASE, str(CHART), "--set=metrics.podMonitor.create=true"
    )
    monitors = [one for one in yaml.safe_load_all(text) if one and one["kind"] == "PodMonitor"]
    assert [f"system/{one['metadata']['name']}" for one in monitors] == [JOB]
