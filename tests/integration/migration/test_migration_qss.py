"""The format changes in a file, and `qss up` moves the rows of real pods."""

import json
from pathlib import Path
from typing import Any

import pytest

from qss_client.chunks.chunk import encode_slice
from qss_client.http.sync_http import SyncHttp
from qss_client.store import Store
from qss_client.writes.batch import commit, open_writer, stage
from qss_core.partitioning import partition_of
from qss_operator.local.cluster import POD_COMMAND
from qss_testing.clients.qss_command import STORE, Qss, manifest
from qss_testing.pods.write_cluster import table_of
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import PATIENT

pytestmark = pytest.mark.long

KEYS = [f"word-{number}" for number in range(500)]


def store_file(row_format: str, **rows: Any) -> str:
    given = {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}}
    return manifest(replicas=2, store=given | {"format": row_format, **rows})


@pytest.fixture
def qss(tmp_path: Path) -> Any:
    made = Qss(tmp_path, POD_COMMAND)
    yield made
    made.down()


def url_of(qss: Qss) -> str:
    url: str = qss.status()["status"]["endpoints"]["query"]
    return url


def write(qss: Qss) -> None:
    http = SyncHttp()
    metadata = Store(url_of(qss), STORE).metadata()
    run = open_writer(http, metadata, "job", query_id="q", run_id="r", limits=PATIENT)
    rows: dict[int, dict[bytes, bytes | None]] = {}
    for key in KEYS:
        partition = partition_of(key.encode(), metadata.definition.partitions)
        rows.setdefault(partition, {})[key.encode()] = json.dumps(len(key)).encode()
    slices = [encode_slice(p, table_of(of_it)) for p, of_it in rows.items()]
    staged = stage(http, run, 0, "t0", slices, PATIENT)
    commit(http, run, 0, staged, position={}, fingerprint="0", limits=PATIENT)
    http.close()


def rows_of(qss: Qss) -> list[Any]:
    http = SyncHttp()
    answer = http.request("GET", f"{url_of(qss)}/state/stores/{STORE}?limit=1000")
    http.close()
    return list(json.loads(answer.body)["rows"])


def migrating(qss: Qss) -> Any:
    conditions = qss.status()["status"]["conditions"]
    return next(one for one in conditions if one["type"] == "FormatMigrating")


def test_a_changed_file_moves_the_rows_and_a_lossy_one_is_refused_with_what_is_lost(
    qss: Qss,
) -> None:
    assert qss.up(store_file("Timestamped")).code == 0
    write(qss)
    qss.down()

    refused = qss.up(store_file("Plain"))
    assert refused.code != 0
    assert "spec.store.format: the rows stay Timestamped: Plain cannot hold their timestamps" in (
        refused.err
    )
    assert "set spec.store.allowLossyMigration: true" in refused.err

    assert qss.up(store_file("TimestampedWithHeaders")).code == 0
    wait_until(lambda: migrating(qss)["status"] == "False")
    assert qss.status()["status"]["format"] == "TimestampedWithHeaders"
    assert "TimestampedWithHeaders" in qss.run("status").out
    rows = rows_of(qss)
    assert sorted(row["key"] for row in rows) == sorted(KEYS)
    assert all(row["headers"] == [] and row["timestamp"] > 0 for row in rows)
    qss.down()

    assert qss.up(store_file("Plain", allowLossyMigration=True)).code == 0
    wait_until(lambda: migrating(qss)["status"] == "False")
    rows = rows_of(qss)
    assert sorted(row["key"] for row in rows) == sorted(KEYS)
    assert rows[0].keys() == {"key", "value"}
