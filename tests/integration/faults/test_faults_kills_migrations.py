"""A real pod is killed again and again in the middle of a migration, while a writer writes."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from qss_core.partitioning import partition_of
from qss_core.wire.replica_reports import MigrationReport
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import ProcessWriter, key_in

ROWS = 6000
PARTITIONS = 2
KILLS = 3
# So slow that every kill meets it: after each step a rest a thousand times as long.
ENVIRONMENT = {
    "QSS_MIGRATION_SHARE": "0.001",
    "QSS_MIGRATION_STEP_ROWS": "10",
    "QSS_MAINTENANCE_INTERVAL_S": "0.2",
}


def migrations_of(pod: PodProcess) -> list[MigrationReport]:
    report = pod.report()
    assert report is not None
    return [one.migration for one in report.replicas if one.migration]


def moved(pod: PodProcess) -> int:
    """The number of rows that were moved; a begun partition is not finished at this moment."""
    return sum(one.rows_moved for one in migrations_of(pod))


def wait_until_moved(pod: PodProcess, least: int) -> int:
    """Waits until so many rows were moved; returns the number."""
    found = wait_until(lambda: found if (found := moved(pod)) >= least else None)
    assert len(migrations_of(pod)) == PARTITIONS, "one is over: its rows are not counted any more"
    return found


def restart(pod: PodProcess) -> None:
    """Kills the pod, and waits until it serves again."""
    pod.kill()
    pod.start()
    wait_until(lambda: (report := pod.report()) and report.ready)


def change_format(cluster: PodCluster, row_format: str) -> None:
    definition = msgspec.structs.replace(cluster.assignment.definition, format=row_format)
    cluster.assignment = msgspec.structs.replace(cluster.assignment, definition=definition)
    for pod in cluster.pods:
        cluster.assign(pod)


def scanned(writer: ProcessWriter, cluster: PodCluster, *, order: str) -> list[Any]:
    rows: list[Any] = []
    cursor = ""
    while True:
        url = f"{cluster.url}/state/stores/words?limit=10000&order={order}{cursor}"
        answer = json.loads(writer.http.request("GET", url).body)
        rows += answer["rows"]
        if answer["cursor"] is None:
            return rows
        cursor = f"&cursor={answer['cursor']}"


class Written:
    """The rows of one writer: rows that stay, and one row for each partition that grows."""

    def __init__(self, cluster: PodCluster) -> None:
        self.writer = ProcessWriter(cluster, "job")
        self.own = {f"row-{number:05}": f"value {number}" for number in range(ROWS)}
        self._keys = {p: key_in(p, PARTITIONS, "job") for p in range(PARTITIONS)}
        self.least = dict.fromkeys(self._keys.values(), 0)

    def begin(self) -> None:
        rows: dict[int, dict[bytes, bytes | None]] = {p: {} for p in range(PARTITIONS)}
        for key, value in self.own.items():
            there = rows[partition_of(key.encode(), PARTITIONS)]
            there[key.encode()] = json.dumps(value).encode()
        self.writer.open()
        self.writer.commit(0, self.writer.stage(0, rows))
        self.write(1)

    def write(self, batch: int) -> None:
        """Writes a batch; the client repeats it until the pod serves again."""
        rows = {p: {key.encode(): b"%d" % batch} for p, key in self._keys.items()}
        self.writer.commit(batch, self.writer.stage(batch, rows))
        self.least = dict.fromkeys(self.least, batch)


def check(cluster: PodCluster, written: Written) -> None:
    """Every row is there once, in both orders, and no row is older than acknowledged."""
    own, least = written.own, written.least
    for order in ("ASCENDING", "DESCENDING"):
        rows = scanned(written.writer, cluster, order=order)
        found = {row["key"]: row["value"] for row in rows}
        assert len(found) == len(rows), "a row twice"
        assert {key: found[key] for key in own} == own
        assert all(found[key] >= value for key, value in least.items())
        assert len(found) == len(own) + len(least)


def test_a_pod_that_is_killed_in_the_middle_of_a_migration_goes_on_with_it(tmp_path: Path) -> None:
    cluster = PodCluster(
        tmp_path, partitions=PARTITIONS, format="Timestamped", environment=ENVIRONMENT
    )
    with cluster:
        (pod,) = cluster.pods
        written = Written(cluster)
        written.begin()
        change_format(cluster, "TimestampedWithHeaders")
        before = 0
        for number in range(2, 2 + KILLS):
            before = wait_until_moved(pod, before + 1)
            writing = written.writer.in_background(partial(written.write, number))
            restart(pod)
            assert moved(pod) >= before, "what was moved is moved"
            assert len(migrations_of(pod)) == PARTITIONS
            writing.result(timeout=600)
            check(cluster, written)
        # The change back begins in the middle of the first one.
        change_format(cluster, "Timestamped")
        wait_until(lambda: moved(pod) > 0 or not migrations_of(pod))
        pod.environment["QSS_MIGRATION_SHARE"] = "0.9"
        restart(pod)
        wait_until(lambda: not migrations_of(pod))
        check(cluster, written)
        written.writer.close()
