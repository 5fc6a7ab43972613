"""`qss status NAME` prints each long sentence of a trouble once."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qss_core.model import Ordinal
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.pods.guarded import get_json
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

LONG = 50
FILE = manifest(replicas=2, partitions=4)


@pytest.fixture
def qss(tmp_path: Path) -> Iterator[Qss]:
    command = Qss(tmp_path, REAL_POD)
    assert command.up(FILE).code == 0
    write(command, 1)
    yield command
    assert command.down().code == 0


def write(qss: Qss, value: int) -> None:
    url = qss.status()["status"]["endpoints"]["query"]
    write_values(url, STORE, {f"k{number}": value for number in range(9)})


def conditions(qss: Qss) -> dict[str, dict[str, Any]]:
    """The published conditions by their type; empty before the first round."""
    return {one["type"]: one for one in qss.status()["status"].get("conditions", [])}


def told_by_pods(qss: Qss) -> list[dict[str, Any]]:
    """The conditions as the first pod tells its readers."""
    url = qss.status()["status"]["endpoints"]["pods"][0]["query"]
    told = get_json(f"{url}/state/status/{STORE}")["conditions"]
    found: list[dict[str, Any]] = told["conditions"]
    assert told["operatorSilentS"] < 30
    return found


def conditions_without_generation(qss: Qss) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in one.items() if name != "observedGeneration"}
        for one in qss.status()["status"]["conditions"]
    ]


def settled_trouble(qss: Qss, reason: str) -> tuple[dict[str, dict[str, Any]], str] | None:
    """The conditions with that reason and what `qss status` shows; None if a round lay between."""
    before = conditions(qss)
    shown = qss.run("status", STORE).out
    found = conditions(qss)
    degraded = found.get("Degraded", {})
    return (found, shown) if before == found and degraded.get("reason") == reason else None


def shown_once(qss: Qss, reason: str) -> str:
    """The lines of the store in that trouble, in which no long part of a message comes twice."""
    found, shown = wait_until(lambda: settled_trouble(qss, reason))
    said = {part for one in found.values() for part in one["message"].split("; ")}
    parts = Counter({part: shown.count(part) for part in said if len(part) >= LONG})
    assert parts, "the trouble has a long message"
    assert set(parts.values()) == {1}, parts
    return shown


def test_a_lost_volume(qss: Qss) -> None:
    assert qss.down().code == 0
    shutil.rmtree(qss.state.data_directory(STORE, Ordinal(1)))
    qss.up(FILE, timeout_s=8)
    shown = shown_once(qss, "NoInSyncReplica")
    assert "NoInSyncReplica: word-counts-1: the volume is empty or incomplete" in shown
    assert "NoInSyncReplica: as Ready says" in shown
    now = conditions(qss)
    degraded, ready = now["Degraded"]["message"], now["Ready"]["message"]
    assert degraded == ready, "the status itself has it whole"


def test_partitions_that_were_rolled_back(qss: Qss) -> None:
    volume, older = qss.state.data_directory(STORE, Ordinal(1)), qss.directory / "older"
    assert qss.down().code == 0
    shutil.copytree(volume, older)
    assert qss.up(FILE).code == 0
    write(qss, 2)
    assert qss.down().code == 0
    shutil.rmtree(volume)
    older.rename(volume)
    qss.up(FILE, timeout_s=8)
    assert "accept the loss: write" in shown_once(qss, "PartitionRolledBack")


def test_a_suspended_pod(qss: Qss) -> None:
    pod = qss.pod(1)
    assert pod is not None
    os.kill(pod.pid, signal.SIGSTOP)
    try:
        shown = shown_once(qss, "PodsFailing")
        wait_until(lambda: told_by_pods(qss) == conditions_without_generation(qss))
    finally:
        os.kill(pod.pid, signal.SIGCONT)
    assert "2 of 4 partitions are served; word-counts-1 runs and has not answered" in shown
    assert "PartitionsOpening: as Ready says" in shown
