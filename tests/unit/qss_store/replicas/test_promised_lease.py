"""The longest lease that a pod promised outlives its process."""

from pathlib import Path

import pytest

from qss_core.errors import DiskFullError
from qss_core.model import Offset, StoreSettings
from qss_store.replicas.volume.promised_lease import PromisedLease
from qss_store.replication.follower import Append
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.one_replica import BEGINNING, started_replica
from qss_testing.pods.stores import configuration

LONG_S, SHORT_S = 10.0, 2.0
FOLLOWS = configuration(0, 0, standbys=[1])
LEADS = configuration(0, 1, standbys=[0], epoch=2)
HEARTBEAT = Append(configuration=FOLLOWS, previous=BEGINNING, entries=(), watermark=Offset(0))


async def test_a_standby_that_restarts_under_a_shorter_lease_waits_for_the_one_it_promised(
    tmp_path: Path,
) -> None:
    """The active may be cut off from the operator, and act until the longer lease is over."""
    engine, clock = MemoryEngine(), SetClock()
    settings = StoreSettings(lease_ms=round(SHORT_S * 1000))
    async with started_replica(
        engine, settings, pod=1, held=FOLLOWS, clock=clock, lease=PromisedLease(tmp_path)
    ) as replica:
        await replica.following.receive(HEARTBEAT, LONG_S, "an active")
    async with started_replica(
        engine, settings, pod=1, held=LEADS, clock=clock, lease=PromisedLease(tmp_path)
    ) as replica:
        clock.now_s += LONG_S
        assert not replica.following.may_begin()
        clock.now_s += LONG_S * 0.11
        assert replica.following.may_begin()


def test_a_shorter_lease_is_kept_once_the_longer_one_ran_out(tmp_path: Path) -> None:
    lease = PromisedLease(tmp_path)
    assert lease.at_start_s(SHORT_S, 0) == SHORT_S
    lease.promise(LONG_S, 1)
    lease.promise(SHORT_S, 11.9)
    assert PromisedLease(tmp_path).at_start_s(SHORT_S, 12) == LONG_S
    lease.promise(SHORT_S, 13)
    assert PromisedLease(tmp_path).at_start_s(1, 13) == SHORT_S


def test_a_lease_in_between_is_kept_when_the_longest_one_ran_out(tmp_path: Path) -> None:
    lease = PromisedLease(tmp_path)
    lease.at_start_s(60, 0)
    lease.promise(60, 0)
    lease.promise(30, 65)
    lease.promise(10, 67)
    assert PromisedLease(tmp_path).at_start_s(10, 68) == 30


def test_a_process_that_ends_soon_forgets_no_promise_of_the_one_before(tmp_path: Path) -> None:
    PromisedLease(tmp_path).promise(LONG_S, 0)
    for now_s in (1, 2, 3):
        lease = PromisedLease(tmp_path)
        assert lease.at_start_s(SHORT_S, now_s) == LONG_S
        lease.promise(SHORT_S, now_s)


@pytest.mark.parametrize("content", [b"", b"soon", b"\xff"])
def test_a_file_that_says_nothing_is_ignored(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "promised-lease-ms").write_bytes(content)
    assert PromisedLease(tmp_path).at_start_s(SHORT_S, 0) == SHORT_S
    assert "promised-lease-ms cannot be read" in caplog.text


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A volume on which no file can be written."""
    (tmp_path / "promised-lease-ms.new").mkdir()
    return tmp_path


def test_nothing_is_promised_that_cannot_be_kept(full: Path) -> None:
    lease = PromisedLease(full)
    lease.at_start_s(SHORT_S, 0)
    for now_s in (0, 1):
        with pytest.raises(DiskFullError, match="cannot be kept on the volume"):
            lease.promise(LONG_S, now_s)


def test_a_full_volume_refuses_no_lease_that_the_settings_on_it_have(full: Path) -> None:
    """Its heartbeats wrote nothing before, and a process that starts waits as long anyway."""
    lease = PromisedLease(full)
    lease.at_start_s(LONG_S, 0)
    lease.promise(LONG_S, 0)
    lease.promise(SHORT_S, 20)
    (full / "promised-lease-ms.new").rmdir()
    lease.promise(SHORT_S, 30)
    assert PromisedLease(full).at_start_s(1, 31) == SHORT_S
