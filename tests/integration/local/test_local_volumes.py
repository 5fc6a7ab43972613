"""Volumes of local pods: which resource may be started over them, and what a full one allows."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_core.errors import StoreError
from qss_core.model import Ordinal
from qss_operator.local.prepare import prepare
from qss_testing.clients.qss_command import REAL_POD, STORE, Finished, Qss, manifest
from qss_testing.faults.small_disk import SmallDisk
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import write_values

pytestmark = pytest.mark.long

_LONGER_THAN_A_TEST_S = 3600.0

NUMBERS = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "int64"}}
MIB = 1024 * 1024


@pytest.fixture
def qss(tmp_path: Path) -> Iterator[Qss]:
    command = Qss(tmp_path, REAL_POD)
    yield command
    command.down()


def with_rows(qss: Qss) -> Path:
    """The resource file of a stopped store that has rows with values of JSON."""
    assert qss.up(manifest(replicas=1)).code == 0
    url = qss.status()["status"]["endpoints"]["query"]
    write_values(url, STORE, {"a": 1})
    assert qss.down().code == 0
    return qss.state.resource_file(STORE)


def test_data_of_another_schema_refuses_a_store_whose_stored_resource_was_deleted(
    qss: Qss,
) -> None:
    with_rows(qss).unlink()
    done = qss.up(manifest(replicas=1, store=NUMBERS))
    assert done.code == 2
    assert "was written with spec.store.value.serde json, not int64" in done.err
    assert "give the file of the store as it was, or choose another metadata.name" in done.err
    assert f"`rm -r {qss.state.data_directory(STORE, Ordinal(0))}`" in done.err
    assert qss.living_pods() == []
    # The file as it was is enough.
    assert qss.up(manifest(replicas=1)).code == 0


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"store": {**NUMBERS, "value": {"serde": "json"}, "key": {"serde": "bytes"}}}, "key"),
        ({"partitions": 5}, "spec.partitions 6, not 5"),
        (
            {"store": {**NUMBERS, "type": "Versioned", "versioned": {"historyRetention": "1h"}}},
            "spec.store.type KeyValue, not Versioned and spec.store.value.serde json, not int64",
        ),
    ],
)
def test_data_of_another_schema_refuses_a_stored_resource_that_was_edited(
    qss: Qss, edit: dict[str, Any], message: str
) -> None:
    resource_file = with_rows(qss)
    stored = yaml.safe_load(resource_file.read_text())
    edited = yaml.safe_load(manifest(replicas=1, **edit))
    stored["spec"] |= {name: edited["spec"][name] for name in edit}
    resource_file.write_text(yaml.dump(stored))
    with pytest.raises(StoreError, match=message):
        prepare([resource_file], qss.state)


def test_a_store_whose_folder_was_renamed_begins_empty_nowhere_and_serves_its_rows_again(
    qss: Qss,
) -> None:
    folder = with_rows(qss).parent
    away = folder.rename(folder.with_name("renamed"))
    done = qss.up(manifest(replicas=1))
    assert done.code == 1
    back = f"mv {away} {folder}"
    assert f"store {STORE} would begin empty, although it has data: " in done.err
    assert f"`{back}` puts it back and loses nothing" in done.err
    assert not folder.exists()
    subprocess.run(back, shell=True, check=True)
    assert qss.up(manifest(replicas=1)).code == 0
    assert "\na    1 " in qss.run("get", STORE, "a").out


@pytest.mark.parametrize("pods", [2, 3])
@pytest.mark.parametrize("says_pods", [True, False])
def test_folders_of_pods_that_were_exchanged_are_put_back_as_told(
    qss: Qss, pods: int, says_pods: bool
) -> None:
    """Each of three folders has the name of the next one. Volumes may be of an older version."""
    file = manifest(replicas=pods, standbys=1, partitions=3)
    rows = {f"k{number}": number for number in range(20)}
    assert qss.up(file).code == 0
    write_values(qss.status()["status"]["endpoints"]["query"], STORE, rows)
    assert qss.down().code == 0
    turn_folders(qss, pods)
    if not says_pods:
        said = [
            qss.state.data_directory(STORE, Ordinal(ordinal)) / "pod-ordinal"
            for ordinal in range(pods)
        ]
        for one in said:
            one.unlink()
        qss.up(file, timeout_s=5)
        wait_until(lambda: all(one.exists() for one in said))
        assert qss.down().code == 0
    done = qss.up(file)
    assert done.code == 1
    folder = qss.state.path / STORE
    assert f"folders of pods of store {STORE} look exchanged: " in done.err
    assert f"{folder / 'pod-1'} has the data of pod 0" in done.err
    assert qss.living_pods() == []
    subprocess.run(done.err.split("`")[1], shell=True, check=True)
    assert qss.up(file).code == 0
    told = qss.run("scan", STORE, "--output", "ndjson")
    found = [json.loads(line) for line in told.out.splitlines()]
    assert {one["key"]: one["value"] for one in found} == rows


def turn_folders(qss: Qss, pods: int) -> None:
    """Gives each folder of a pod the number of the next one, and the last that of the first."""
    folder = qss.state.path / STORE
    (folder / f"pod-{pods - 1}").rename(folder / "x")
    for ordinal in reversed(range(pods - 1)):
        (folder / f"pod-{ordinal}").rename(folder / f"pod-{ordinal + 1}")
    (folder / "x").rename(folder / "pod-0")


def test_a_resource_that_is_edited_while_its_store_runs_is_not_taken_over_data(qss: Qss) -> None:
    resource_file = with_rows(qss)
    assert qss.up(manifest(replicas=1)).code == 0
    stored = yaml.safe_load(resource_file.read_text())
    stored["spec"]["store"] |= NUMBERS
    stored["metadata"]["generation"] += 1
    resource_file.write_text(yaml.dump(stored))
    wait_until(lambda: f"{STORE} goes on as before: " in qss.state.up_log.read_text())
    assert "was written with spec.store.value.serde json, not int64" in qss.state.up_log.read_text()
    wait_until(lambda: degraded(qss)["reason"] == "InvalidResource")
    assert "the store goes on as before: the data in " in degraded(qss)["message"]
    assert qss.status()["status"]["observedGeneration"] == 1
    # The edit is taken back.
    assert qss.run("apply", str(qss.write(manifest(replicas=1)))).code == 0
    wait_until(lambda: degraded(qss)["reason"] == "Healthy")


def test_a_pod_starts_on_a_full_disk_and_says_what_it_waits_for(tmp_path: Path) -> None:
    with SmallDisk(tmp_path / "state", 200 * MIB) as disk:
        small = Qss(tmp_path, REAL_POD, prefix=disk.command)
        try:
            up = small.up(manifest(replicas=1, partitions=2))
            assert up.code == 0, up.err
            url = small.status()["status"]["endpoints"]["query"]
            write_values(url, STORE, {"a": 1})
            disk.fill(leave_bytes=0)
            # The second one finds the process that was recorded on the full disk.
            full = "DISK_FULL: the volume is full: it has 0 MiB free of"
            for _ in range(2):
                assert small.run("kill", f"{STORE}-0").code == 0
                wait_until(lambda: full in asked(small, url).err)
            disk.make_room()
            wait_until(lambda: asked(small, url).code == 0)
        finally:
            assert small.down().code == 0


def asked(small: Qss, url: str) -> Finished:
    """The answer to a read, of a pod that is found although the status says nothing of it."""
    return small.run("get", STORE, "a", "--url", url, "--timeout", "1")


def degraded(qss: Qss) -> dict[str, str]:
    """The condition Degraded of the store."""
    conditions: list[dict[str, str]] = qss.status()["status"]["conditions"]
    return next(one for one in conditions if one["type"] == "Degraded")


def versioned(retention: str) -> str:
    """The resource of a store that keeps versions of values for a time."""
    kind = {"type": "Versioned", "versioned": {"historyRetention": retention}}
    return manifest(replicas=1, store={**NUMBERS, **kind})


def test_the_schema_of_the_databases_counts_where_an_assignment_and_the_resource_were_edited(
    qss: Qss,
) -> None:
    assert qss.up(versioned("744h")).code == 0
    url = qss.status()["status"]["endpoints"]["query"]
    write_values(url, STORE, {"a": 1})
    assert qss.down().code == 0
    kept = qss.state.data_directory(STORE, Ordinal(0)) / "assignment.json"
    kept.write_text(kept.read_text().replace("2678400000", "86400000"))
    qss.state.resource_file(STORE).unlink()
    # A command that waits longer than the test's limit for it fails the test.
    done = qss.up(versioned("24h"), timeout_s=_LONGER_THAN_A_TEST_S)
    assert done.code == 4
    told = "was written with spec.store.versioned.historyRetention 744 h, not 24 h"
    assert f"the data on this volume {told}" in done.err
    assert "storage.whenDeleted" not in done.err
    option = f" --state-dir {qss.state.path}"
    assert f"`qss down{option}`, then `qss up FILE...{option}` with all files" in done.err
    assert qss.down().code == 0
    # The databases were asked: the wrong file is refused before a pod starts, the right one taken.
    done = qss.up(versioned("24h"))
    assert (done.code, told in done.err) == (2, True)
    assert qss.up(versioned("744h")).code == 0
    assert "\na    " in qss.run("versions", STORE, "a").out


@pytest.mark.parametrize(
    "damage", [b"", b"\0" * 200, b'{"store_id": "'], ids=["empty", "zeros", "cut"]
)
def test_the_right_file_is_enough_where_the_kept_schema_is_damaged_after_an_edit(
    qss: Qss, damage: bytes
) -> None:
    """The databases have refused the assignment and the resource that a person had edited."""
    assert qss.up(versioned("744h")).code == 0
    write_values(qss.status()["status"]["endpoints"]["query"], STORE, {"a": 1})
    assert qss.down().code == 0
    volume = qss.state.data_directory(STORE, Ordinal(0))
    edit(volume / "assignment.json", "2678400000", "86400000")
    edit(qss.state.resource_file(STORE), "744h", "24h")
    (volume / "schema-of-rows.json").write_bytes(damage)
    done = qss.up(versioned("744h"))
    assert done.code == 0, done.err
    assert "\na    " in qss.run("versions", STORE, "a").out
    assert "2678400000" in (volume / "schema-of-rows.json").read_text()
    assert qss.down().code == 0
    # The databases have told their schema again.
    done = qss.up(versioned("24h"))
    assert done.code == 2
    assert "immutable" in done.err


def test_a_wrong_file_is_not_served_where_the_kept_schema_is_damaged(qss: Qss) -> None:
    assert qss.up(versioned("744h")).code == 0
    write_values(qss.status()["status"]["endpoints"]["query"], STORE, {"a": 1})
    kept = qss.state.data_directory(STORE, Ordinal(0)) / "schema-of-rows.json"
    kept.write_bytes(b"")
    # The store runs, so its own schema counts.
    refused = qss.run("apply", str(qss.write(versioned("24h"))))
    assert refused.code == 2
    assert "immutable" in refused.err
    assert qss.down().code == 0
    done = qss.up(versioned("24h"), timeout_s=60)
    assert done.code == 4
    assert "historyRetention 744 h, not 24 h" in done.err
    assert qss.down().code == 0
    assert qss.up(versioned("744h")).code == 0
    assert "\na    " in qss.run("versions", STORE, "a").out


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
