"""The chart's copies of files, and its statements about itself; needs no cluster and no helm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "queryable-state"


def test_the_chart_has_the_crd_of_this_tree() -> None:
    copy = (CHART / "files" / "queryablestatestores.yaml").read_bytes()
    assert copy == (ROOT / "crds" / "queryablestatestores.yaml").read_bytes()


def test_the_template_of_the_crd_finds_the_place_of_its_annotation() -> None:
    copy = (CHART / "files" / "queryablestatestores.yaml").read_text()
    assert copy.count("metadata:\n  name: queryablestatestores.queryablestate.dev\n") == 1


def test_every_alert_has_a_section_of_the_runbook() -> None:
    alerts = [one["alert"] for one in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    page, _, _ = values["metrics"]["prometheusRule"]["runbookUrl"].partition("#")
    runbook = (ROOT / page).read_text()
    assert [alert for alert in alerts if f"\n## {alert}\n" not in runbook] == []


def test_the_package_leaves_the_pages_out() -> None:
    ignored = {line.rstrip("/") for line in (CHART / ".helmignore").read_text().splitlines()}
    packaged = {path.name for path in CHART.iterdir()} - ignored
    assert packaged == {
        ".helmignore",
        "Chart.yaml",
        "README.md",
        "files",
        "templates",
        "values.schema.json",
        "values.yaml",
    }


def test_every_value_is_explained_and_in_the_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    lines = (CHART / "values.yaml").read_text().splitlines()
    unexplained = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if ": " in line
        and not line.lstrip().startswith(("#", "-", "requests", "limits"))
        and not before.lstrip().startswith("#")
    ]
    assert unexplained == []
    assert set(_leaves(values)) == set(_schema_leaves(schema)) - {"global"}


def _leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in ("resources", "labels"):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def _schema_leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, member in schema["properties"].items():
        if "properties" in member:
            yield from _schema_leaves(member, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def test_viewers_may_get_the_status_and_the_scale_of_stores() -> None:
    roles = (CHART / "templates" / "userroles.yaml").read_text()
    (line,) = [one for one in roles.splitlines() if '"queryablestate-view-status"' in one]
    assert '"queryablestatestores/status, queryablestatestores/scale" "verbs" (list "get")' in line
    assert 'list "view" "edit" "admin"' in line


def test_the_first_store_of_the_notes_is_not_open_to_the_cluster() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    store = notes.partition("<<EOF\n")[2].partition("EOF\n")[0]
    assert yaml.safe_load(store)["spec"].get("access") is None, "tokens are asked for by default"
