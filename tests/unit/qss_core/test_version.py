"""The package and the chart have the same version."""

import tomllib
from pathlib import Path

import yaml

from qss_core.version import VERSION

ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_package_and_of_the_chart() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((ROOT / "charts" / "queryable-state" / "Chart.yaml").read_text())
    assert {VERSION, project["version"], chart["version"], chart["appVersion"]} == {VERSION}
