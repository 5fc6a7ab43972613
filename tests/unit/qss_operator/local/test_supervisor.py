"""The last words of a pod whose process ended, and a pod whose process cannot be started."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from qss_client.processes import is_alive
from qss_core.model import Ordinal, StoreName
from qss_operator.local import supervisor as supervisor_module
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.supervisor import PodSupervisor, last_line
from qss_testing.fakes.virtual_time import run_in_virtual_time
from qss_testing.waiting import wait_until_async


def test_the_last_line_of_a_process_is_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(log) == ""
    log.write_text("one\ntwo\n\n")
    assert last_line(log) == "two"
    assert last_line(log, begin=log.stat().st_size) == ""


def test_the_time_of_a_line_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("2026-11-26 07:05:58,098 CRITICAL qss_store: QSS_X is no number\n")
    assert last_line(log) == "CRITICAL qss_store: QSS_X is no number"


async def test_a_start_that_fails_before_the_process_quotes_no_earlier_process(
    tmp_path: Path,
) -> None:
    state, store, ordinal = StateDirectory(tmp_path / "state"), StoreName("words"), Ordinal(0)
    folder = state.data_directory(store, ordinal)
    # The first process leaves a file in place of its folder: the second one cannot be started.
    program = f"echo the first process says this; rmdir {folder}; touch {folder}"
    troubles = asyncio.Queue[str]()
    supervisor: PodSupervisor

    def changed() -> None:
        if supervisor.trouble is not None:
            troubles.put_nowait(supervisor.trouble)

    supervisor = PodSupervisor(
        state, store, ordinal, ("/bin/sh", "-c", program), changed, lambda: ""
    )
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(30):
        assert "it said last: the first process says this" in await troubles.get()
        while "cannot be started" not in (trouble := await troubles.get()):
            pass
    running.cancel()
    await asyncio.wait([running])
    assert "the first process says this" not in trouble


def test_why_a_process_ends_goes_before_what_it_says_while_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("CRITICAL a token is missing\n")
    begin = log.stat().st_size
    with log.open("a") as file:
        file.write("INFO partition 0 is closed\n")
    assert last_line(log, begin) == "INFO partition 0 is closed"
    with log.open("a") as file:
        file.write("CRITICAL the volume is gone\nERROR the database did not close\n")
    assert last_line(log, begin) == "CRITICAL the volume is gone"


@pytest.mark.parametrize(
    ("obstacle", "words"),
    [
        ("pod-0", "pod-0/data cannot be made: Too many levels of symbolic links"),
        ("pod-0/log", "pod-0/log cannot be written: Too many levels of symbolic links"),
    ],
)
def test_a_pod_whose_files_cannot_be_used_is_told_of_once_and_tried_less_and_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, obstacle: str, words: str
) -> None:
    state, store = StateDirectory(tmp_path / "state"), StoreName("words")
    folder = state.path / store / obstacle
    folder.parent.mkdir(parents=True)
    folder.symlink_to(folder)  # Nobody can open it, not even root.
    supervisor = PodSupervisor(state, store, Ordinal(0), ("no",), lambda: None, lambda: "")

    async def try_for(seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await supervisor.run()

    run_in_virtual_time(try_for(59.0))
    trouble = f"cannot be started: {state.path / store}/{words}, restarting"
    assert (supervisor.trouble, caplog.messages) == (trouble, [f"words-0 {trouble}"])
    # After 0, 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s, and then every 10 s.
    assert supervisor.uid == "11"


async def test_a_pod_that_is_being_restarted_has_ended_when_its_supervisor_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was left alone with its signal: the end of `qss up` cancels the wait for its end."""
    monkeypatch.setattr(supervisor_module, "STOP_GRACE_S", 0.5)
    state, ready = StateDirectory(tmp_path / "state"), tmp_path / "ready"
    command = ("/bin/sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done")
    supervisor = PodSupervisor(
        state, StoreName("words"), Ordinal(0), command, lambda: None, lambda: ""
    )
    running = asyncio.create_task(supervisor.run())
    await wait_until_async(ready.exists)
    (process,) = state.processes()
    supervisor.restart()
    await wait_until_async(lambda: not supervisor.is_running)
    for _ in range(2):  # A round that stops the pod is cancelled, too.
        running.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([running])
    assert running.cancelled()
    assert not is_alive(process)


async def test_a_pod_is_told_of_its_store_s_console_and_pages(tmp_path: Path) -> None:
    state, store, ordinal = StateDirectory(tmp_path / "state"), StoreName("words"), Ordinal(0)
    resource = state.resource_file(store)
    resource.parent.mkdir(parents=True)
    resource.write_text(
        "metadata: {name: words}\n"
        "spec: {access: {console: false, allowedOrigins: ['https://a.example', 'http://b:1']}}\n"
    )
    troubles = asyncio.Queue[str]()
    supervisor: PodSupervisor

    def changed() -> None:
        if supervisor.trouble is not None:
            troubles.put_nowait(supervisor.trouble)

    command = ("/bin/sh", "-c", "echo $QSS_CONSOLE $QSS_ALLOWED_ORIGINS")
    supervisor = PodSupervisor(state, store, ordinal, command, changed, lambda: "")
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(30):
        assert "it said last: 0 https://a.example,http://b:1" in await troubles.get()
    running.cancel()
    await asyncio.wait([running])
