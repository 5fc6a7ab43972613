"""A store of a user's own type on one machine: the file of the guide, and `qss up`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_client import ReadOptions, Store
from qss_core.model import StoreName
from qss_operator.local.cluster import POD_COMMAND
from qss_testing.clients.qss_command import Qss
from qss_testing.pods.extension_package import install_guide, resource_of_guide
from qss_testing.writers.writer import Record, Writer

pytestmark = pytest.mark.long

NAME = StoreName("aircraft")
ACTIVE = ReadOptions(require_active=True)
ROWS = {"N1": {"origin": "EWR"}, "N2": {"origin": "JFK"}, "N3": {"origin": "EWR"}}


@pytest.fixture
def qss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Qss]:
    """Runs commands that find the package of the guide."""
    paths = [str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    made = Qss(tmp_path, POD_COMMAND)
    yield made
    made.down()


def guides_file(**custom: Any) -> str:
    """The file of the guide's store, with two pods."""
    resource = resource_of_guide()
    resource["spec"]["replicas"] = 2
    resource["spec"]["store"]["custom"] |= custom
    return yaml.safe_dump(resource)


def condition(qss: Qss, kind: str) -> dict[str, Any]:
    """The published condition of a type."""
    status = qss.status(NAME)["status"]
    return next(one for one in status["conditions"] if one["type"] == kind)


def test_the_guides_store_comes_up_and_is_asked(qss: Qss, tmp_path: Path) -> None:
    """Actives answer: a standby may be a moment behind what another program has just written."""
    install_guide(tmp_path / "site")
    for run in range(2):
        done = qss.up(guides_file())
        assert done.code == 0, done.err
        endpoints = qss.status(NAME)["status"]["endpoints"]
        if run == 0:
            with Writer(endpoints["changelog"], NAME) as writer:
                writer.write(Record(*row) for row in ROWS.items())
        with Store(endpoints["query"], NAME) as store:
            found = store.range("EWR", "EWR", index="by-origin", options=ACTIVE)
            assert sorted(row.key for row in found) == ["N1", "N3"]
            counted = store.query("CountByIndexQuery", index="by-origin", options=ACTIVE)
            counts = counted.partition_results
            assert sum(one.get_result().get("EWR", 0) for one in counts.values()) == 2
        by_origin = ("scan", NAME, "--index", "by-origin", "--from", "EWR", "--to", "EWR")
        scanned = qss.run(*by_origin, "--require-active", "-o", "ndjson")
        assert scanned.code == 0, scanned.err
        shown = [json.loads(line) for line in scanned.out.splitlines()]
        assert sorted((one["indexKey"], one["key"]) for one in shown) == [
            ("EWR", "N1"),
            ("EWR", "N3"),
        ]
        assert qss.run(*by_origin, "--prefix", "E").code == 2
        assert qss.down().code == 0


@pytest.mark.parametrize(
    ("custom", "says"),
    [
        ({"options": {"top": "5"}}, "does not take them: KeyError: 'member'"),
        ({"name": "ByNothing"}, "no package in this pod has the store type 'ByNothing'"),
    ],
)
def test_what_the_pods_cannot_serve_is_told_by_the_conditions(
    custom: dict[str, Any], says: str, qss: Qss, tmp_path: Path
) -> None:
    install_guide(tmp_path / "site")
    done = qss.up(guides_file(**custom), timeout_s=100.0)
    assert done.code != 0
    assert "aircraft: StoreTypeRefused: " in done.err
    assert says in " ".join(done.err.split())
    degraded = condition(qss, "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "StoreTypeRefused")
    assert says in degraded["message"]
