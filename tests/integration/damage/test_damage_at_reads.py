"""Damage that only a read meets: a block of an SST whose checksum is wrong."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from qss_client.http.sync_http import SyncHttp
from qss_core.errors import StoreError
from qss_core.wire.replica_reports import ReplicaReport
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import ProcessWriter

KEYS = [f"key-{number:03}" for number in range(200)]
_LARGE_BYTES = 50_000


def value_of(key: str) -> bytes:
    """A value that compression makes little smaller."""
    pieces = (sha256(f"{key} {number}".encode()).hexdigest() for number in range(20))
    return json.dumps("".join(pieces)).encode()


def spoil(database: Path) -> None:
    """Flips a bit in the middle of each large SST: those of the rows, and of the staged rows."""
    budget = MemoryBudget.of(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)
    engine = RocksDbEngine(database, budget)
    engine.flush()
    engine.close()
    for table in database.glob("*.sst"):
        data = bytearray(table.read_bytes())
        if len(data) > _LARGE_BYTES:
            data[len(data) // 2] ^= 1
            table.write_bytes(data)


def failures(pod: PodProcess) -> set[str]:
    """The codes of the reads that fail, of all keys and of a scan, in this replica alone."""
    found, http = set(), SyncHttp()
    url = f"{pod.query}/state/stores/words"
    try:
        for target in [*(f"{url}/{key}?scope=local" for key in KEYS), f"{url}?scope=local"]:
            try:
                answer = http.request("GET", target)
            except StoreError as error:
                found.add(error.code)
            else:
                partitions = json.loads(answer.body).get("partitions", {})
                found |= {
                    one["failure"]["reason"] for one in partitions.values() if "failure" in one
                }
    finally:
        http.close()
    return found


def report_of(pod: PodProcess) -> ReplicaReport:
    report = pod.report()
    assert report is not None
    (replica,) = report.replicas
    return replica


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_replica_whose_rows_are_damaged_is_reported(tmp_path: Path, standbys: int) -> None:
    """Readers of a partition with a standby are sent there."""
    with PodCluster(tmp_path, pods=1 + standbys, standbys=standbys, partitions=1) as cluster:
        writer = ProcessWriter(cluster, "job")
        writer.open()
        writer.write(0, {0: {key.encode(): value_of(key) for key in KEYS}})
        writer.close()
        spoilt = cluster.pods[-1]
        # A replica with an entry to apply would meet the damage before a reader does.
        wait_until(cluster.is_level)
        spoilt.stop()
        spoil(spoilt.volume / "partitions" / "0")
        spoilt.start()
        cluster.assign(spoilt)
        code = "NOT_READY" if standbys else "STORE_EXCEPTION"
        wait_until(lambda: code in failures(spoilt) and report_of(spoilt).has_damage)
        assert report_of(spoilt).state == "serving", "it goes on until another one takes over"
