"""The status reports a volume that becomes full while its pod runs, or is too small."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from qss_client import RetryLimits, Store
from qss_core.errors import DiskFullError
from qss_core.wire.replica_reports import FullVolume
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.faults.small_disk import SmallDisk
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer, write_values

pytestmark = pytest.mark.long

MIB = 1024 * 1024
FULL = re.compile(
    r"the pod refuses batches: the volume has \d+(\.\d)? [MK]iB free of 160 MiB, and 64 MiB"
)
LEFT = r"the volume has 0 MiB free beyond the 64 MiB that are kept back; .* stages [1-9] KiB: "
ROOM = re.compile(r"the volume has enough space again: \d+(\.\d)? MiB free")


@contextmanager
def on_small_disk(directory: Path) -> Iterator[tuple[PodCluster, SmallDisk, ExitStack]]:
    """A pod whose volume has 160 MiB; what else the test opens is closed before it ends."""
    cluster = PodCluster(directory)
    pod = cluster.pods[0]
    with ExitStack() as stack:
        disk = stack.enter_context(SmallDisk(pod.volume, 160 * MIB))
        pod.prefix = disk.command
        stack.enter_context(cluster)
        yield cluster, disk, stack


def test_a_pod_reports_and_logs_that_its_volume_is_full_and_that_it_has_room_again(
    tmp_path: Path,
) -> None:
    with on_small_disk(tmp_path) as (cluster, disk, stack):
        pod = cluster.pods[0]

        def is_full() -> bool:
            report = pod.report()
            return report is not None and report.full_volume is not None

        assert not is_full()
        writer = stack.enter_context(Writer(cluster.url, cluster.store))
        disk.fill(leave_bytes=48 * MIB)
        wait_until(is_full)
        with pytest.raises(DiskFullError, match=LEFT):
            writer.write([Record("a", 1)], limits=RetryLimits(deadline_s=0.0))
        report = pod.report()
        assert report is not None
        assert report.ready
        full = report.full_volume
        assert full is not None
        assert 40 * MIB < full.free_bytes <= 48 * MIB
        assert (full.kept_back_bytes, full.size_bytes) == (64 * MIB, 160 * MIB)
        disk.make_room()
        wait_until(lambda: not is_full())
        assert len(FULL.findall(pod.log())) == 1
        assert len(ROOM.findall(pod.log())) == 1


def test_a_batch_that_has_no_room_beyond_what_is_kept_back_is_told(tmp_path: Path) -> None:
    """The store would be called healthy, and its writer would wait."""
    with on_small_disk(tmp_path) as (cluster, disk, stack):
        pod = cluster.pods[0]
        writer = stack.enter_context(Writer(cluster.url, cluster.store))
        disk.fill(leave_bytes=70 * MIB)
        large = [Record("a", "x" * 5 * MIB)]
        with pytest.raises(DiskFullError, match=r"free beyond the 64 MiB"):
            writer.write(large, limits=RetryLimits(deadline_s=0.0))

        def told() -> FullVolume | None:
            report = pod.report()
            return None if report is None else report.full_volume

        full = wait_until(told)
        assert not full.is_full
        assert full.needed_bytes > 5 * MIB
        disk.make_room()
        wait_until(lambda: told() is None)


def test_a_pod_reports_the_bytes_of_its_files_and_its_room_in_time(tmp_path: Path) -> None:
    """It measures again at each tenth look: the first one is before its first assignment."""
    with on_small_disk(tmp_path) as (cluster, _disk, _stack):
        pod = cluster.pods[0]

        def is_measured() -> bool:
            report = pod.report()
            use = None if report is None else report.volume
            return use is not None and use.data_bytes > 0 and 0 < use.room_bytes <= 96 * MIB

        wait_until(is_measured)


def test_a_volume_that_is_smaller_than_what_is_kept_back_is_told_when_the_store_goes_up(
    tmp_path: Path,
) -> None:
    with SmallDisk(tmp_path / "state", 48 * MIB) as disk:
        small = Qss(tmp_path, REAL_POD, prefix=disk.command)
        try:
            up = small.up(manifest(replicas=1, partitions=2))
            assert up.code == 0, up.err
            degraded = f"{STORE}: VolumeFull: the volume of {STORE}-0 has "
            assert degraded in up.err
            assert "of 48 MiB, and 64 MiB are kept back" in up.err
            assert "give the state directory a larger volume" in up.err
            assert "Serving, VolumeFull" in small.run("status").out
        finally:
            assert small.down().code == 0


def test_a_partition_that_nothing_free_keeps_from_being_opened_is_told_and_comes_by_itself(
    tmp_path: Path,
) -> None:
    with on_small_disk(tmp_path) as (cluster, disk, _stack):
        pod = cluster.pods[0]
        write_values(cluster.url, cluster.store, {"a": 1})
        pod.kill()
        disk.fill(leave_bytes=0)  # Another program fills the disk: pods themselves keep some room.
        pod.start()

        def waiting() -> list[str]:
            report = pod.report()
            return [lost.error for lost in report.lost if lost.is_waiting] if report else []

        wait_until(waiting)
        why = r"the volume is full: it has \d+ [MK]iB free of 160 MiB, too little to open"
        assert re.match(why, waiting()[0])
        assert re.search(rf"partition 0 waits to be opened: {why}", pod.log())
        impatient = RetryLimits(deadline_s=0.0)
        with (
            Store(cluster.url, cluster.store, limits=impatient) as store,
            pytest.raises(DiskFullError, match=why),
        ):
            store.get("a")
        disk.make_room()
        wait_until(lambda: not waiting())
        with Store(cluster.url, cluster.store) as store:
            row = store.get("a")
            assert row is not None
            assert row.value == 1


def test_a_store_that_was_stopped_starts_on_a_full_disk_and_waits_for_room(tmp_path: Path) -> None:
    """`qss up` publishes its status in the place of a reserve, and its process in its lock."""
    with SmallDisk(tmp_path / "state", 400 * MIB) as disk:
        qss = Qss(tmp_path, REAL_POD, prefix=disk.command)
        try:
            assert qss.up().code == 0
            assert qss.down().code == 0
            disk.fill(leave_bytes=0)
            up = qss.up(timeout_s=3.0)
            assert up.code == 4, up.err
            assert "it continues in the background" in up.err
            # A slow machine has not published its start when `up` gives up its wait.
            wait_until(lambda: "Stopped" not in qss.run("status").out)
            disk.make_room()
            wait_until(lambda: " Serving " in qss.run("status").out)
        finally:
            assert qss.down().code == 0
