"""Upgrades and rollbacks of the chart keep the subjects that the operator wrote.

No operator runs here: the tests write the subjects in its place.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.environment import CHART
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace

RELEASE = "reviews"
_SETTINGS = (
    "--set=image.repository=none,image.tag=none,storeImage.repository=none,storeImage.tag=none",
    "--set=crds.install=false,rbac.userRoles=false,operator.replicas=0",
)
GROUP = "Group/system:serviceaccounts"
ACCOUNT = "ServiceAccount/words-pods"
_WRITTEN = """
{"subjects": [{"kind": "ServiceAccount", "name": "words-pods", "namespace": "shop"}]}
"""


def older_chart(directory: Path) -> Path:
    """The chart as it was when all accounts could ask for reviews."""
    chart = directory / "older"
    shutil.copytree(CHART, chart)
    file = chart / "templates" / "reviews.yaml"
    text = file.read_text()
    begin = text.index("{{- $live :=")
    end = text.index("{{- if .Values.rbac.create }}")
    groups = (
        "subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, "
        "name: 'system:serviceaccounts'}]\n"
    )
    file.write_text(text[:begin] + groups + text[end:])
    return chart


class Release:
    """A release whose operator does not run."""

    def __init__(self, system: Cluster) -> None:
        self._system = system
        self.binding = f"{system.namespace}-{RELEASE}-queryable-state-store-pods"

    def upgrade(self, chart: Path, *options: str) -> None:
        self._system.helm("upgrade", "--install", RELEASE, str(chart), *_SETTINGS, *options)

    def rollback(self, revision: int, *options: str) -> None:
        self._system.helm("rollback", RELEASE, str(revision), *options)

    def operator_writes(self) -> None:
        of = ("patch", "clusterrolebinding", self.binding, "--type=merge")
        self._system.kubectl(*of, "--field-manager=queryable-state-operator", "--patch", _WRITTEN)

    def subjects(self) -> list[str]:
        found: dict[str, Any] = self._system.get("clusterrolebinding", self.binding)
        return [f"{one['kind']}/{one['name']}" for one in found.get("subjects") or []]


@contextmanager
def release(cluster: Cluster, name: str) -> Iterator[Release]:
    with fresh_namespace(cluster, f"qss-e2e-reviews-{name}") as system:
        made = Release(system)
        try:
            yield made
        finally:
            kept = ("clusterrolebinding,clusterrole", made.binding, "--ignore-not-found")
            system.kubectl("delete", *kept)


@pytest.mark.parametrize("server_side", ["true", "false"])
def test_subjects_of_the_operator_outlive_upgrades_and_rollbacks(
    cluster: Cluster, server_side: str
) -> None:
    with release(cluster, f"kept-{server_side}") as made:
        made.upgrade(CHART, f"--server-side={server_side}")
        assert made.subjects() == []
        made.operator_writes()
        made.upgrade(CHART, "--set=operator.logLevel=debug")
        assert made.subjects() == [ACCOUNT]
        made.rollback(1)
        assert made.subjects() == [ACCOUNT]


@pytest.mark.parametrize("server_side", ["true", "false"])
def test_groups_of_an_older_chart_stay_until_the_operator_writes_accounts(
    cluster: Cluster, tmp_path: Path, server_side: str
) -> None:
    with release(cluster, f"older-{server_side}") as made:
        made.upgrade(older_chart(tmp_path), f"--server-side={server_side}")
        assert made.subjects() == [GROUP]
        for _ in range(2):
            made.upgrade(CHART)
            assert made.subjects() == [GROUP], "the operator has not written accounts yet"
        made.operator_writes()
        made.upgrade(CHART)
        # Helm's client-side patch removes the subjects of an older manifest once more.
        assert made.subjects() == ([ACCOUNT] if server_side == "true" else [])
        made.operator_writes()
        made.upgrade(CHART)
        assert made.subjects() == [ACCOUNT]
