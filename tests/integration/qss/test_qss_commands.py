"""`qss up`, `qss down` and `qss status` as processes: output, exit codes, pods."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from qss_client.processes import is_alive
from qss_core.model import Ordinal, StoreName
from qss_operator.errors import StartFailedError
from qss_operator.local.changes import says_something_else
from qss_operator.local.prepare import prepare, store
from qss_operator.local.run import RunningStores, wait_until_ready
from qss_testing.clients.qss_command import FAKE_POD, REAL_POD, STORE, Qss, manifest
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def qss(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Qss]:
    command = Qss(tmp_path, getattr(request, "param", FAKE_POD))
    yield command
    assert command.down().code == 0
    assert command.living_pods() == []


def test_of_several_that_go_up_at_once_one_does_and_the_others_say_so(qss: Qss) -> None:
    up = ("up", str(qss.write(manifest())), "--detach", "--pod-command", " ".join(FAKE_POD))
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: qss.run(*up), range(4)))
    assert sorted(one.code for one in done) == [0, 1, 1, 1], [one.err for one in done]
    for one in done:
        assert one.code == 0 or "error: ALREADY_RUNNING" in one.err, one.err
    assert qss.ready() == "2/2"


@pytest.mark.parametrize("qss", [REAL_POD], indirect=True, ids=["real"])
def test_a_store_goes_up_is_shown_and_goes_down_without_a_trace(qss: Qss) -> None:
    up = qss.up()
    assert up.code == 0, up.err
    assert "word-counts  2/2    6/6       Serving" in up.out
    assert len(qss.living_pods()) == 2
    holder = qss.state.holder()
    assert holder is not None

    again = qss.up()
    assert again.code == 1
    assert again.err.startswith(f"error: ALREADY_RUNNING: process {holder.pid} runs the stores")
    assert "`qss down` stops them" in again.err
    assert "`qss apply FILE` takes over a changed file" in again.err
    typo = qss.up(manifest(partition=6))
    assert typo.code == 2, "a bad file is told of all the same"
    assert "spec.partition: unknown field; did you mean partitions?" in typo.err

    shown = qss.status()
    assert shown["metadata"]["name"] == STORE
    assert shown["status"]["ready"] == "2/2"
    absent = qss.run("status", "word-count")
    assert absent.code == 3
    assert absent.err.startswith("error: STORE_NOT_FOUND: no store 'word-count'")

    down = qss.down()
    assert (down.code, down.out.splitlines()[0]) == (0, "stopped")
    assert f"rm -r {qss.state.path}" in down.out
    assert qss.living_pods() == []
    assert not is_alive(holder)
    assert any(qss.state.data_directory(STORE, Ordinal(0)).iterdir()), "the data stays"
    assert "Stopped" in qss.run("status").out
    asked = qss.run("get", STORE, "a")
    assert asked.code != 0
    assert asked.err.startswith(f"error: UNREACHABLE: store {STORE}: the local cluster is stopped")
    assert "`qss up` starts it again" in asked.err


def test_a_pod_that_cannot_be_recorded_is_told_of_and_comes_up_once_it_can(qss: Qss) -> None:
    # Like a full disk: no file can be written in its place.
    hindrance = qss.state.pod_directory(STORE, Ordinal(0)) / "process.yaml.tmp"
    hindrance.mkdir(parents=True)
    process = qss.start_up(manifest(replicas=1))
    reason = "word-counts-0 cannot be started: "
    wait_until(lambda: reason in qss.run("status", "--output", "json").out)
    hindrance.rmdir()
    wait_until(lambda: qss.ready() == "1/1")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=600)


@pytest.mark.parametrize("qss", [REAL_POD], indirect=True, ids=["real"])
def test_a_query_after_the_up_was_killed_says_the_same_as_after_a_down(qss: Qss) -> None:
    assert qss.up(manifest(replicas=1)).code == 0
    holder = qss.state.holder()
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(holder))
    killed = qss.run("get", STORE, "a")
    assert qss.down().code == 0
    assert killed == qss.run("get", STORE, "a")
    assert "the local cluster is stopped and the data is kept: `qss up` starts it" in killed.err


def test_down_stops_the_pods_also_where_it_cannot_write_that_it_did(qss: Qss) -> None:
    # Like a full disk: no file can be written in the status's place.
    assert qss.up().code == 0
    holder = qss.state.holder()
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(holder))
    hindrance = qss.state.path / STORE / "status.yaml.tmp"
    hindrance.unlink(missing_ok=True)
    hindrance.mkdir()
    down = qss.down()
    assert (down.code, qss.living_pods()) == (0, [])
    assert f"the status of store {STORE} could not be updated" in down.err
    hindrance.rmdir()


def test_a_damaged_record_of_a_process_stops_neither_up_nor_down(qss: Qss) -> None:
    assert qss.up().code == 0
    file = qss.state.process_file(STORE, Ordinal(0))
    file.write_text("pid: [")
    told = f"{file} is damaged, so a process that was left there cannot be found"
    down = qss.down()
    assert (down.code, qss.living_pods()) == (0, [])
    assert down.out.startswith("stopped\n")
    assert len([line for line in down.err.splitlines() if line.startswith(told)]) == 1
    assert qss.up().code == 0
    assert qss.pod(0) is not None
    assert qss.down().err == ""


def test_a_kill_of_a_pod_without_a_record_of_its_process_says_that_nothing_ended(
    qss: Qss,
) -> None:
    assert qss.up().code == 0
    pods = qss.living_pods()
    file = qss.state.process_file(STORE, Ordinal(1))
    for damage in (lambda: file.write_text("pid: ["), file.unlink):
        damage()
        killed = qss.run("kill", f"{STORE}-1")
        assert killed.code == 1
        assert (
            f"nothing was done: the process of {STORE}-1 is not known, as {file} is" in killed.err
        )
    assert all(map(is_alive, pods))
    assert qss.run("restart", STORE).code == 0
    wait_until(lambda: qss.pod(1) is not None, 60.0)


def test_a_pod_that_moved_since_its_port_was_taken_says_where_it_is(qss: Qss) -> None:
    assert qss.up().code == 0
    (before, _) = qss.state.read_ports(STORE)
    assert qss.down().code == 0
    with closing(socket.create_server(("127.0.0.1", before.ops))):
        up = qss.up()
    assert up.code == 0
    (after, _) = qss.state.read_ports(STORE)
    said = [line for line in up.err.splitlines() if not line.startswith("waiting: ")]
    assert said == [
        f"pod {STORE}-0 answers at http://127.0.0.1:{after.query} now: another program has one of "
        f"its ports {before.query}, {before.internal}, {before.ops}"
    ]
    assert f"answers at http://127.0.0.1:{after.query} now" in qss.state.up_log.read_text()


def test_down_where_nothing_runs_is_no_failure(qss: Qss) -> None:
    done = qss.down()
    assert (done.code, done.out.strip()) == (0, "nothing was running")


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        (manifest(partitions=12), "INVALID_RESOURCE: {}: spec.partitions: partitions is immutable"),
        (manifest(standby=1), "INVALID_RESOURCE: {}: spec.standby: unknown field; did you mean"),
        (manifest("../escape"), "INVALID_RESOURCE: {}: the name must be a DNS-1035 label"),
        ("a: [", "INVALID_RESOURCE: {} is no YAML"),
    ],
    ids=["immutable", "typo", "path", "no-yaml"],
)
def test_a_bad_edit_is_refused_in_one_clear_line(qss: Qss, edited: str, message: str) -> None:
    stored = prepare([qss.write(manifest())], qss.state)[0]
    store(stored, qss.state, "uid", "2026-11-21T12:00:00Z")
    done = qss.up(edited)
    assert done.code == 2
    assert done.err.startswith("error: " + message.format(qss.directory / "stores.yaml"))
    assert len(done.err.splitlines()) == 1
    assert done.out == ""


def test_a_store_that_is_not_ready_in_time_says_why(qss: Qss) -> None:
    one_pod = manifest(replicas=1)
    done = Qss(qss.directory, ("/nowhere/qss-store",)).up(one_pod, timeout_s=0.1)
    assert done.code == 4
    assert done.err.startswith("error: NOT_READY: word-counts: ")
    assert "`qss down` stops it" in done.err
    # It tries again, and prints the published message.
    reason = "word-counts-0 cannot be started: No such file or directory"
    wait_until(lambda: reason in qss.run("status", "--output", "json").out)
    statuses = RunningStores(state=qss.state, names=(STORE,)).statuses
    with pytest.raises(StartFailedError, match=reason):
        asyncio.run(wait_until_ready(statuses, timeout_s=0.0))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_in_the_foreground_stops_its_pods_when_asked(qss: Qss, number: signal.Signals) -> None:
    process = qss.start_up()
    assert process.stdout is not None
    said = list(takewhile(lambda line: not line.startswith("Ctrl-C stops"), process.stdout))
    assert "word-counts: Serving: all 6 partitions are served\n" in said
    process.send_signal(number)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert "stopped; the data is kept" in out
    assert qss.living_pods() == []


@pytest.mark.parametrize("qss", [REAL_POD], indirect=True, ids=["real"])
def test_pods_do_not_outlive_an_up_that_is_killed(qss: Qss) -> None:
    process = qss.start_up()
    wait_until(lambda: qss.assigned() == "6/6")
    process.kill()
    process.communicate(timeout=600)
    wait_until(lambda: not qss.living_pods())
    table = qss.run("status").out
    assert "Stopped" in table, "nobody runs it, whatever was published last"
    lines = qss.run("status", "--output", "ndjson").out.splitlines()
    assert [json.loads(line)["status"]["ready"] for line in lines] == ["0/2"]


def test_the_tries_of_a_pod_that_cannot_start_are_told_in_one_line(tmp_path: Path) -> None:
    tries, program = tmp_path / "tries", tmp_path / "pod.sh"
    program.write_text(f'echo try >> {tries}; echo "$$: the disk is on fire" >&2; exit 3')
    qss = Qss(tmp_path, ("/bin/sh", str(program)))
    process = qss.start_up(manifest(replicas=1))
    try:
        wait_until(lambda: tries.exists() and len(tries.read_text().splitlines()) > 4)
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=600)
    said = [line for line in out.splitlines() if "the disk is on fire" in line]
    assert len(said) == 1
    assert "word-counts-0 ended with exit code 3, restarting; it said last: " in said[0]


def test_a_command_whose_part_is_not_installed_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['qss_operator.commands.local'] = None\n"
        "sys.argv = ['qss', 'up', 'x.yaml']\n"
        "from qss_client.cli.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: MISSING_EXTRA: `qss up` needs the module qss_operator")
    assert "pip install 'queryable-state[operator]'" in done.stderr


def test_up_without_files_starts_what_is_there(qss: Qss) -> None:
    nothing = qss.run("up", "--detach")
    assert (nothing.code, "has no store to start again" in nothing.err) == (2, True), nothing.err
    assert qss.up(manifest(), manifest("others")).code == 0
    assert qss.down().code == 0
    again = qss.run("up", "--detach", "--pod-command", " ".join(FAKE_POD))
    assert again.code == 0, again.err
    assert qss.ready() == "2/2"
    assert qss.ready(StoreName("others")) == "2/2"
    assert qss.status()["metadata"]["generation"] == 1


def test_files_that_say_something_else_than_what_runs_are_told_with_what_to_do(qss: Qss) -> None:
    assert qss.up(manifest()).code == 0
    same = qss.up(manifest())
    assert "to run the stores of the files" not in same.err
    other = qss.up(manifest(stagedBytesMax="64Mi"), manifest("others"))
    assert other.code == 1
    assert f"store {STORE} runs with an older spec" in other.err
    assert "store others is not among the running stores" in other.err
    how = f"`qss down --state-dir {qss.state.path}`, then `qss up FILE..."
    assert f"to run the stores of the files: {how}" in other.err


def test_an_annotation_that_only_the_file_has_is_told_with_what_to_do(qss: Qss) -> None:
    assert qss.up(manifest()).code == 0
    other = qss.up(manifest(annotations={"queryablestate.dev/accept-data-loss": "0@1"}))
    assert other.code == 1
    name = "queryablestate.dev/accept-data-loss"
    assert f"store {STORE} runs without the annotations of its file: {name}" in other.err
    assert "to run the stores of the files: `qss apply FILE --state-dir" in other.err


def test_a_file_that_changes_while_its_store_runs_is_told_of(qss: Qss) -> None:
    assert qss.up().code == 0
    file = qss.write(manifest(stagedBytesMax="64Mi"))
    line = (
        f"{file} was changed, and its stores run unchanged: "
        f"`qss apply {file} --state-dir {qss.state.path}` takes it over"
    )
    wait_until(lambda: line in qss.state.up_log.read_text())


def test_a_file_that_is_put_back_or_that_only_a_comment_changed_is_not_told_of(qss: Qss) -> None:
    assert qss.up().code == 0
    assert says_something_else(qss.write(manifest(stagedBytesMax="64Mi")), qss.state)
    assert says_something_else(qss.write(manifest(), "spec: ["), qss.state)
    assert not says_something_else(qss.write(manifest(), "# A comment.\n"), qss.state)


@pytest.mark.parametrize("is_whole", [True, False])
def test_pods_whose_state_directory_is_deleted_end(qss: Qss, is_whole: bool) -> None:
    assert qss.up().code == 0
    holder, pods = qss.state.holder(), qss.living_pods()
    assert holder is not None
    assert len(pods) == 2
    if is_whole:  # Its resources are missed in the moment in which its lock is.
        shutil.rmtree(qss.state.path, ignore_errors=True)
    else:  # The first file that `rm -r` may delete.
        (qss.state.path / "lock").unlink()
    wait_until(lambda: not any(map(is_alive, (holder, *pods))))


def ready_messages(qss: Qss) -> list[str]:
    """The message of the condition Ready; empty before the first."""
    conditions = qss.status()["status"].get("conditions", [])
    return [one["message"] for one in conditions if one["type"] == "Ready"]


def test_a_pod_whose_folder_cannot_be_used_is_told_of_in_one_line_and_others_go_on(
    qss: Qss,
) -> None:
    assert qss.up().code == 0
    assert qss.down().code == 0
    folder = qss.state.pod_directory(STORE, Ordinal(1))
    aside = folder.rename(qss.directory / "aside")
    folder.symlink_to(folder)  # Nobody can open it, not even root.
    up = qss.up(timeout_s=5)
    assert up.code == 4, up.err
    # A slow machine has not published what it found when `up` gives up its wait.
    trouble = f"{STORE}-1 cannot be started: {folder}"
    message = wait_until(lambda: next((one for one in ready_messages(qss) if trouble in one), None))
    assert (len(message.splitlines()), message.count("cannot be started")) == (1, 1)
    wait_until(lambda: qss.ready() == "1/2")
    said = qss.state.up_log.read_text()
    assert "Traceback" not in said
    told = [line for line in said.splitlines() if f" WARNING {STORE}-1 cannot be started" in line]
    assert told[0].endswith(", restarting")
    stamps = [datetime.fromisoformat(line[:23].replace(",", ".")) for line in told]
    # However slow the machine is: the next line about the same is due a minute later.
    assert all(later - earlier > timedelta(seconds=55) for earlier, later in pairwise(stamps)), told
    folder.unlink()
    aside.rename(folder)
    wait_until(lambda: qss.ready() == "2/2")
