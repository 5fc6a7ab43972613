"""Whether a pod's volume is there."""

import asyncio
import errno
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from qss_core.errors import DiskFullError
from qss_core.model import PartitionId
from qss_store.replicas.volume.volume_watch import RESERVE_BYTES, VolumeWatch, volume_use
from qss_testing.fakes.virtual_time import SetClock

_P0, _P1 = PartitionId(0), PartitionId(1)


def test_a_volume_is_gone_once_its_directory_is_deleted_or_is_another_one(tmp_path: Path) -> None:
    volume = tmp_path / "data"
    room = VolumeWatch(volume)
    assert not room.is_gone(), "the pod makes it with its first assignment"
    volume.mkdir()
    assert not room.is_gone()
    assert not room.is_gone()
    volume.rename(tmp_path / "old")
    assert room.is_gone()
    shutil.copytree(tmp_path / "old", volume)
    assert room.is_gone()


def test_an_error_of_a_shared_file_system_says_nothing_of_the_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = VolumeWatch(tmp_path)
    assert not watch.is_gone()

    def stale(_: Path) -> None:
        raise OSError(errno.ESTALE, "stale file handle")

    monkeypatch.setattr(Path, "stat", stale)
    assert watch.is_gone() is None


async def test_the_watch_ends_where_the_volume_answers_nothing_but_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = VolumeWatch(tmp_path, look_every_s=0.0)
    assert not watch.is_gone()
    real, answers = Path.stat, [*([False] * 29), True, *([False] * 30)]

    def stat(path: Path) -> os.stat_result:
        if answers.pop(0):
            return real(path)
        raise OSError(errno.ESTALE, "stale file handle")

    monkeypatch.setattr(Path, "stat", stat)
    await watch.run(lambda: asyncio.sleep(0))
    assert answers == [], "one look that succeeds begins anew"


async def test_the_watch_ends_where_the_volume_is_gone(tmp_path: Path) -> None:
    volume = tmp_path / "data"
    volume.mkdir()
    looking = asyncio.create_task(VolumeWatch(volume).run(lambda: asyncio.sleep(0)))
    await asyncio.sleep(0)
    volume.rmdir()
    async with asyncio.timeout(10):
        await looking


async def test_the_watch_needs_no_thread_to_see_that_the_volume_is_gone(tmp_path: Path) -> None:
    """All threads of a pod may wait for a slow volume, and files are counted in one of them."""
    volume, ends = tmp_path / "data", threading.Event()
    volume.mkdir()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    waiting = asyncio.get_running_loop().run_in_executor(None, ends.wait)
    watch = VolumeWatch(volume, look_every_s=0.0)
    assert not watch.is_gone()
    volume.rmdir()
    try:
        async with asyncio.timeout(10):
            await watch.run(lambda: asyncio.sleep(0))
    finally:
        ends.set()
        await waiting


def test_the_use_of_a_volume_counts_each_file_once_and_no_others(tmp_path: Path) -> None:
    volume = tmp_path / "data"
    assert volume_use(volume) is None, "the pod makes it with its first assignment"
    (volume / "partitions").mkdir(parents=True)
    (volume / "partitions" / "rows").write_bytes(b"x" * 3000)
    os.link(volume / "partitions" / "rows", volume / "snapshot")
    (volume / "identity").write_bytes(b"y" * 50)
    (tmp_path / "of-another-pod").write_bytes(b"z" * 1000)
    use = volume_use(volume)
    assert use is not None
    assert use.data_bytes == 3050
    assert 0 <= use.room_bytes <= max(0, shutil.disk_usage(volume).total - RESERVE_BYTES)


async def test_a_copy_without_room_counts_for_ten_minutes_and_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, free = SetClock(), RESERVE_BYTES + 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**40, free=free))
    watch = VolumeWatch(tmp_path, clock=clock)
    await watch.check_copy(_P0, 100)
    assert not watch.look()
    with pytest.raises(DiskFullError, match="64 MiB are kept back; a copy needs 1 KiB"):
        await watch.check_copy(_P0, 200)
    assert watch.look()
    assert watch.full is not None
    assert (watch.full.copy_bytes, watch.full.needed_bytes, watch.full.is_full) == (200, 0, False)
    assert watch.full.takes_no_copy
    clock.now_s += 599
    assert not watch.look()
    clock.now_s += 2
    assert watch.look()
    assert watch.full is None
    with pytest.raises(DiskFullError):
        await watch.check_copy(_P0, 200)
    free = RESERVE_BYTES + 200
    await watch.check_copy(_P0, 200)
    free = RESERVE_BYTES + 100
    assert not watch.look(), "the copy had room, and is not waited for any more"


async def test_a_refused_copy_is_named_as_long_as_its_bytes_and_until_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, free = SetClock(), RESERVE_BYTES + 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**40, free=free))
    watch = VolumeWatch(tmp_path, clock=clock)

    def told() -> tuple[int, tuple[int, ...]] | None:
        watch.look()
        return (watch.full.copy_bytes, watch.full.refused_copies) if watch.full else None

    for partition, needed_bytes in ((_P1, 200), (_P0, 150)):
        with pytest.raises(DiskFullError):
            await watch.check_copy(partition, needed_bytes)
        clock.now_s += 60
    assert told() == (200, (0, 1))
    await watch.check_copy(PartitionId(2), 100)
    assert told() == (200, (0, 1)), "the room of a third copy says nothing of the two"
    free = RESERVE_BYTES + 150
    assert told() == (200, (1,))
    free = RESERVE_BYTES + 100
    assert told() == (200, (0, 1))
    await watch.check_copy(_P1, 100)
    assert told() == (150, (0,)), "it has begun: less was missing at its next try"
    clock.now_s += 541
    assert told() is None
    free = RESERVE_BYTES - 1
    with pytest.raises(DiskFullError):
        await watch.check_copy(_P0, 0)
    assert told() == (0, (0,)), "no copy begins on a full volume"


@pytest.mark.parametrize("more", [0, 200])
async def test_room_is_told_where_there_is_some_and_not_where_a_refusal_has_expired(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    more: int,
) -> None:
    clock, free = SetClock(), RESERVE_BYTES + 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**40, free=free))
    watch, told = VolumeWatch(tmp_path, clock=clock), "the volume has enough space again"
    watch.refused(200)
    watch.look()
    free += more
    clock.now_s += 61
    assert watch.look()
    assert (told in caplog.text) == (more > 0)
    free = RESERVE_BYTES + 100
    caplog.clear()
    with pytest.raises(DiskFullError):
        await watch.check_copy(_P0, 200)
    watch.look()
    free += more
    clock.now_s += 601
    assert watch.look()
    assert watch.full is None
    assert (told in caplog.text) == (more > 0)


async def test_room_is_told_where_a_refused_copy_has_begun_and_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free = RESERVE_BYTES + 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**40, free=free))
    watch = VolumeWatch(tmp_path, clock=SetClock())
    with pytest.raises(DiskFullError):
        await watch.check_copy(_P0, 200)
    watch.look()
    free = RESERVE_BYTES + 200
    await watch.check_copy(_P0, 200)
    free = RESERVE_BYTES + 50
    assert watch.look()
    assert "the volume has enough space again" in caplog.text


def test_a_refused_batch_counts_for_a_minute_and_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, free = SetClock(), RESERVE_BYTES + 100
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**40, free=free))
    watch = VolumeWatch(tmp_path, clock=clock)
    assert not watch.look()
    watch.refused(200)
    assert watch.look()
    assert watch.full is not None
    assert (watch.full.needed_bytes, watch.full.is_full) == (200, False)
    free = RESERVE_BYTES + 200
    assert watch.look()
    assert watch.full is None
    free = RESERVE_BYTES + 100
    assert watch.look()
    clock.now_s += 61
    assert watch.look()
    assert watch.full is None
    watch.refused(200)
    free = RESERVE_BYTES - 1
    assert watch.look()
    assert watch.full is not None
    assert (watch.full.needed_bytes, watch.full.is_full) == (0, True)
