"""`qss mirror --verify` compares all rows with Spark's own reader; `--status` tells the lag."""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_core.model import StoreType
from qss_spark.mirroring.copies.state_copy import StateCopy
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_spark.mirroring.state_follower import StateFollower
from qss_spark.mirroring.verification import Verdict, verify
from qss_testing.clients.terminal import Terminal
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

FILES = Path(__file__).parents[2] / "contract" / "spark_state" / "4.3.0"
TIMED = {"retention_ms": 86_400_000, "key_serde": "string"}
WINDOWS = {**TIMED, "type": StoreType.WINDOW, "window_size_ms": 30_000}
SESSIONS = {**TIMED, "type": StoreType.SESSION, "session_gap_ms": 5_000, "format": "Plain"}
_WRITTEN_AT = re.compile(r"file:[^\"]*?/state/")
Copied = Callable[..., tuple[Path, PodCluster]]


@pytest.fixture
def copied(tmp_path: Path) -> Iterator[Copied]:
    """Copies a part of the state of a checkpoint that Spark wrote into a new store."""
    clusters: list[PodCluster] = []

    def copy(name: str, part: str | None = None, **definition: Any) -> tuple[Path, PodCluster]:
        checkpoint = tmp_path / "checkpoint"
        with zipfile.ZipFile(FILES / f"{name}.zip") as archive:
            archive.extractall(checkpoint)
        relocate(checkpoint)
        cluster = PodCluster(tmp_path / "pods", **{"key_serde": "json", **definition})
        clusters.append(cluster)
        cluster.__enter__()
        http = SyncHttp()
        follower = StateFollower(checkpoint, None, part)
        mirror = StateCopy(follower, http, cluster.url, cluster.store, cluster.store)
        assert len(list(iter(mirror.step, None))) == 1
        mirror.close()
        http.close()
        return checkpoint, cluster

    yield copy
    for cluster in clusters:
        cluster.__exit__(None, None, None)


def relocate(checkpoint: Path) -> None:
    """Spark's reader finds the schemas of such state where the query has written them."""
    for file in checkpoint.glob("state/*/_metadata/v2/*"):
        file.write_text(_WRITTEN_AT.sub(f"file:{checkpoint}/state/", file.read_text()))


def compared(checkpoint: Path, cluster: PodCluster, *, keep_deleted: bool = False) -> Verdict:
    """A comparison with the rows that this project reads; they are Spark's by `tests/contract`."""
    follower = StateFollower(checkpoint, None, None)
    batch = follower.checkpoint.newest()
    table: pa.Table = follower.whole(batch).changed
    key, value = (table.schema.field(name).type for name in ("key", "value"))
    with Store(cluster.url, cluster.store, raw=True) as store:
        rows = StoreRows(store.metadata().definition, key, value)
        return verify(table, store, batch, rows, keep_deleted=keep_deleted)


@pytest.mark.parametrize(
    ("name", "definition", "rows"),
    [
        ("aggregation-rocksdb", {"key_serde": "string"}, 5),
        ("windows-hdfs", WINDOWS, 5),
        ("sessions-rocksdb", SESSIONS, 5),
        ("sessions-rocksdb", {}, 5),
    ],
)
def test_a_copy_is_equal_to_the_state(
    copied: Copied, name: str, definition: dict[str, Any], rows: int
) -> None:
    verdict = compared(*copied(name, **definition))
    assert (verdict.unlike, verdict.differences, verdict.rows) == (0, (), rows)


def test_rows_that_differ_are_named_by_their_keys(copied: Copied) -> None:
    checkpoint, cluster = copied("aggregation-rocksdb", key_serde="string")
    with Writer(cluster.url, cluster.store) as writer:
        writer.write([Record("k0", {"changed": True}), Record("k1", None), Record("new", 1)])
    verdict = compared(checkpoint, cluster)
    assert verdict.unlike == 3
    assert verdict.differences == (
        '"k0" has another value in the store',
        '"k1" is not in the store',
        '"new" is in the store alone',
    )
    assert compared(checkpoint, cluster, keep_deleted=True).unlike == 2


@pytest.mark.parametrize(
    ("name", "part", "definition", "rows"),
    [
        ("windows-rocksdb", "", WINDOWS, 5),
        ("join-format-4-rocksdb", "left", {}, 5),
        ("timers-rocksdb", "registered-timers", {}, 10),
        ("scala-processor-rocksdb", "ports", {}, 15),
        ("intervals-rocksdb", "", {}, 48),
    ],
)
def test_the_command_compares_with_sparks_own_reader(
    copied: Copied, name: str, part: str, definition: dict[str, Any], rows: int
) -> None:
    checkpoint, cluster = copied(name, part, **definition)
    command = [sys.executable, "-m", "qss_client", "mirror", str(checkpoint), "--part", part]
    asked = [*command, "--url", cluster.url, "--store", cluster.store, "--verify"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=600)
    told = f"words: batch 3: {rows} rows, all as Spark reads them\n"
    assert (done.stdout, done.returncode) == (told, 0), done.stderr


def test_the_status_says_how_far_a_store_is_behind(
    copied: Copied, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, cluster = copied("dedup-hdfs")
    terminal = Terminal(cluster.url, capsys)
    asked = ("mirror", str(checkpoint), "--store", cluster.store)
    (told,) = terminal.json(*asked, "--status")
    newest = told["batch"]
    level = {"store": cluster.store, "batch": newest, "committed": newest}
    assert told == {**level, "batchesBehind": 0, "behindMs": 0}
    for batch in (newest + 1, newest + 2):
        for log in ("offsets", "commits"):
            shutil.copyfile(checkpoint / log / str(newest), checkpoint / log / str(batch))
    (told,) = terminal.json(*asked, "--status")
    assert (told["batchesBehind"], told["committed"]) == (2, newest + 2)
    assert told["behindMs"] >= 0
    refused = terminal.run(*asked, "--status", "--writer", "other")
    assert refused.code == 1
    assert "has no batch of" in refused.err
    assert terminal.run(*asked, "--status", "--verify").code == 2


def test_a_store_without_a_copy_has_nothing_to_compare(
    copied: Copied, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, cluster = copied("dedup-hdfs")
    other = checkpoint / "metadata"
    other.write_text('{"id":"another"}')
    refused = Terminal(cluster.url, capsys).run(
        "mirror", str(checkpoint), "--store", cluster.store, "--verify"
    )
    assert refused.code == 1
    assert f"has no batch of another.0 by the writer {cluster.store}" in refused.err
