"""A full volume: staging is refused, applying waits, reads are answered, no data is lost."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from qss_client.writes.batch import Staged
from qss_core.errors import BatchInProgressError, DiskFullError, UnreachableError
from qss_core.model import StoreSettings
from qss_core.wire.messages import CommitAnswer
from qss_testing.faults.gates import Gate
from qss_testing.faults.small_disk import SmallDisk
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import (
    IMPATIENT,
    ProcessWriter,
    key_in,
    put_gates,
    sequences,
)

pytestmark = pytest.mark.long

MIB = 1024 * 1024
KEPT_FREE_BYTES = 32 * MIB  # A pod keeps so many bytes free.
ENVIRONMENT = {
    "QSS_MAINTENANCE_INTERVAL_S": "0.2",
    "QSS_FINISH_TIMEOUT_S": "1",
    "QSS_PEER_TIMEOUT_S": "5",
}


class Stage2:
    """Pod 0 coordinates; pod 1 is on the small disk, behind a gate."""

    def __init__(self, cluster: PodCluster, disk: SmallDisk, gate: Gate) -> None:
        self.cluster = cluster
        self.disk = disk
        self.gate = gate

    @property
    def pod(self) -> PodProcess:
        return self.cluster.pods[1]

    def error(self) -> str | None:
        """The error that partition 1 reports."""
        report = self.pod.report()
        return report.replicas[0].error if report else None


@pytest.fixture(scope="module")
def stage2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage2]:
    directory: Path = tmp_path_factory.mktemp("disk")
    # The disk is full before this limit is reached.
    limits = StoreSettings(staged_bytes_max=1024 * MIB)
    cluster = PodCluster(directory, pods=2, partitions=2, settings=limits, environment=ENVIRONMENT)
    with ExitStack() as stack:
        small = cluster.pods[1]
        disk = stack.enter_context(SmallDisk(small.volume, 160 * MIB))
        small.prefix = disk.command
        gates = [stack.enter_context(Gate(pod.ports[1])) for pod in cluster.pods]
        put_gates(cluster, gates)
        stack.enter_context(cluster)
        yield Stage2(cluster, disk, gates[1])


@pytest.fixture
def writer(stage2: Stage2, request: pytest.FixtureRequest) -> Iterator[ProcessWriter]:
    writer = ProcessWriter(stage2.cluster, f"w{zlib.crc32(request.node.name.encode())}")
    writer.open()
    yield writer
    writer.close()


def many_rows(writer: ProcessWriter, size: int) -> dict[int, dict[bytes, bytes]]:
    """Rows of partition 1 of about this size, in slices of about a megabyte each."""
    value = b'"' + b"v" * 2000 + b'"'
    keys = (key_in(1, 2, f"{writer.name}-{number:05}") for number in range(size // 2000))
    return {1: {key.encode(): value for key in keys}}


def test_staging_on_a_full_disk_is_refused_and_goes_on_when_there_is_room(
    stage2: Stage2, writer: ProcessWriter
) -> None:
    writer.commit(0, writer.stage(0, writer.rows_of("before")))
    stage2.disk.fill(leave_bytes=KEPT_FREE_BYTES + MIB)
    rows = many_rows(writer, 4 * MIB)
    with pytest.raises(DiskFullError) as refused:
        writer.stage(1, rows, IMPATIENT)
    assert (refused.value.http_status, refused.value.retry) == (507, "later")
    assert "full" in refused.value.message
    # Reads and the writer's other requests are answered, also after a restart.
    assert len(writer.values(stage2.pod)) == 2
    stage2.disk.fill(leave_bytes=KEPT_FREE_BYTES // 2)
    stage2.pod.kill()
    stage2.pod.start()
    wait_until(lambda: stage2.cluster.assign(stage2.pod).ready)
    assert set(writer.values(stage2.pod).values()) == {"before"}
    stage2.disk.make_room()
    assert writer.commit(1, writer.stage(1, rows, IMPATIENT)).sequence == 2
    assert len(writer.values(stage2.pod)) == 2 + len(rows[1])
    assert stage2.error() is None


def commit_once_answered(writer: ProcessWriter, staged: list[Staged]) -> CommitAnswer:
    """Commits batch 1; a pod on a busy machine may not answer in time that it works."""
    while True:
        with suppress(UnreachableError):
            return writer.commit(1, staged, IMPATIENT)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_decided_batch_waits_for_room_and_is_then_finished_by_itself(
    stage2: Stage2, writer: ProcessWriter, is_killed: bool
) -> None:
    writer.commit(0, writer.stage(0, writer.rows_of("before")))
    before = sequences(stage2.cluster)[0]
    rows = many_rows(writer, 8 * MIB)
    staged = writer.stage(1, rows)
    stage2.gate.hold("/transactions/commit")
    committing = writer.in_background(lambda: commit_once_answered(writer, staged))
    stage2.gate.wait_for_arrival()
    # The batch is decided. The disk has room for some of its slices.
    stage2.disk.fill(leave_bytes=KEPT_FREE_BYTES + 3 * MIB)
    stage2.gate.open()
    kept_back = f"MiB free, of which {KEPT_FREE_BYTES // MIB} MiB are kept back"
    assert kept_back in wait_until(stage2.error)
    assert "partition 1 waits for disk space: the volume is full: it has" in stage2.pod.log()
    assert isinstance(committing.exception(), BatchInProgressError)
    assert sequences(stage2.cluster)[0] == before + 1
    # Readers see the state before the batch.
    assert set(writer.values(stage2.pod, scope="local").values()) == {"before"}
    if is_killed:
        stage2.pod.kill()
    stage2.disk.make_room()
    if is_killed:
        stage2.pod.start()
    wait_until(lambda: sequences(stage2.cluster) == [before + 1] * 2 and not stage2.error())
    assert len(writer.values(stage2.pod)) == 2 + len(rows[1])
    assert writer.commit(1, staged).already_applied
