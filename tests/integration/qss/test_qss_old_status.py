"""A status that its `qss up` does not renew any more is shown as old, without a known health."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_operator.local.processes import is_suspended
from qss_operator.local.stop import stop_stores
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.faults.small_disk import SmallDisk
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.long

MIB = 1024 * 1024
GRACE_S = 30.0
# A `qss up` that ends only when it is killed.
DEAF = """
import signal, sys
from pathlib import Path
from qss_operator.local.directory.state import StateDirectory

signal.signal(signal.SIGTERM, signal.SIG_IGN)
state = StateDirectory(Path(sys.argv[1]))
with state.lock():
    state.write_holder()
    print("holds", flush=True)
    signal.pause()
"""


@pytest.fixture
def qss(tmp_path: Path) -> Iterator[Qss]:
    command = Qss(tmp_path)
    yield command
    if holder := command.state.holder():
        os.kill(holder.pid, signal.SIGCONT)
    command.down()


def suspended(qss: Qss) -> int:
    """Suspends a running `qss up`; returns its pid. A minute seems to have gone by."""
    holder = qss.state.holder()
    assert holder is not None
    os.kill(holder.pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{holder.pid}/stat").read_text().rpartition(")")[2][1] == "T")
    renewed = qss.state.path / STORE / "renewed"
    os.utime(renewed, (renewed.stat().st_mtime - 60,) * 2)
    return holder.pid


def test_the_status_of_a_suspended_up_is_shown_as_old_until_it_goes_on(qss: Qss) -> None:
    assert qss.up().code == 0
    pid = suspended(qss)
    table = qss.run("status").out.splitlines()[1].split()
    assert table[:4] == [STORE, "?/2", "?/6", "StatusOld"]
    shown = qss.run("status", STORE).out
    assert re.search(
        r"Ready +Unknown +StatusOld: the status was last renewed at [-0-9]{10}T[:0-9]{8}Z: "
        rf"`qss up` \(process {pid}\) is suspended and does not answer; `kill -CONT {pid}` resumes",
        shown,
    )
    assert "Serving" not in shown
    assert "Healthy" not in shown
    (condition,) = qss.status()["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "Unknown")
    os.kill(pid, signal.SIGCONT)
    wait_until(lambda: "2/2" in qss.run("status").out)
    assert "StatusOld" not in qss.run("status", STORE).out


def level(shown: str) -> str:
    """A status of which all standbys are level; empty before that."""
    return shown if "standbys: every entry applied" in shown else ""


def test_an_old_status_shows_no_health_of_pods(tmp_path: Path) -> None:
    qss = Qss(tmp_path, REAL_POD)
    try:
        assert qss.up(manifest(partitions=2, standbys=1)).code == 0
        fresh = wait_until(lambda: level(qss.run("status", STORE).out))
        assert "pod 1 is active for partitions 1, standby for 0" in fresh
        pid = suspended(qss)
        assert qss.run("kill", f"{STORE}-1").code == 0
        shown = qss.run("status", STORE).out
        assert "pod 1 was active for partitions 1, standby for 0" in shown
        assert " is active" not in shown
        assert "every entry applied" not in shown
        os.kill(pid, signal.SIGCONT)
    finally:
        assert qss.down().code == 0


def test_a_change_for_a_suspended_up_is_told_to_wait_before_its_status_is_old(qss: Qss) -> None:
    assert qss.up().code == 0
    holder = qss.state.holder()
    assert holder is not None
    os.kill(holder.pid, signal.SIGSTOP)
    wait_until(lambda: is_suspended(holder))
    why = f"`qss up` (process {holder.pid}) is suspended and does not answer; `kill -CONT "
    assert f"its start waits: {why}{holder.pid}` resumes it" in qss.run("kill", f"{STORE}-1").out
    assert f"3, which waits: {why}{holder.pid}` resumes it" in qss.run("scale", STORE, "3").out


def test_a_second_up_says_that_the_first_one_is_suspended(qss: Qss) -> None:
    assert qss.up().code == 0
    pid = suspended(qss)
    second = qss.up()
    assert second.code != 0
    assert f"process {pid} runs the stores in {qss.state.path}" in second.err
    assert f"it is suspended, and `kill -CONT {pid}` resumes it" in second.err


def test_down_continues_a_suspended_up_so_that_it_ends(qss: Qss) -> None:
    assert qss.up().code == 0
    suspended(qss)
    began_s = time.monotonic()
    assert qss.down().code == 0
    assert time.monotonic() - began_s < GRACE_S, "the process was not killed"
    assert qss.living_pods() == []
    assert qss.state.holder() is None


async def test_down_says_after_2_seconds_that_it_waits(qss: Qss) -> None:
    qss.state.path.mkdir()
    command = [sys.executable, "-c", DEAF, str(qss.state.path)]
    holder = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"holds\n"
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        holder.kill()

    assert await stop_stores(qss.state, tell) == 1
    await holder.wait()
    why = f"`qss up` (process {holder.pid}) ends its pods first, and is killed after 30 s"
    assert told == [why]


def test_a_status_that_a_full_disk_keeps_from_being_written_is_shown_as_old(
    tmp_path: Path,
) -> None:
    with SmallDisk(tmp_path / "state", 8 * MIB) as disk:
        small = Qss(tmp_path, prefix=disk.command)
        try:
            up = small.up(manifest(replicas=1))
            assert up.code == 0, up.err
            disk.remove(small.state.path / STORE / "status.reserve")
            disk.fill(leave_bytes=0)
            assert small.run("kill", f"{STORE}-0").code == 0
            wait_until(lambda: "StatusOld" in small.run("status").out)
            shown = small.run("status", STORE).out
            assert f"the disk of {tmp_path / 'state'} is full, so `qss up`" in shown
            disk.make_room()
            wait_until(lambda: "Serving" in small.run("status").out)
        finally:
            assert small.down().code == 0


def test_an_up_in_the_foreground_says_that_its_status_is_old(tmp_path: Path) -> None:
    qss = Qss(tmp_path)
    process = qss.start_up(manifest(replicas=1))
    try:
        wait_until(lambda: qss.ready() == "1/1")
        # Like a full disk: no file can be written in the status's place.
        hindrance = qss.state.path / STORE / "status.yaml.tmp"
        hindrance.mkdir()
        assert qss.run("scale", STORE, "2").code == 0
        wait_until(lambda: "StatusOld" in qss.run("status").out)
        hindrance.rmdir()
        wait_until(lambda: "StatusOld" not in qss.run("status").out)
    finally:
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=600)
    assert f"{STORE}: StatusOld: the status was last renewed at" in said
