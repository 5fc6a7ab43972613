"""Commands that change stores while they run: `qss scale`, `standbys`, `apply`, `move`, `kill`.

All tests share one running cluster. Each reads first what it finds.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from qss_core.model import StoreName
from qss_operator.local.prepare import prepare, store
from qss_operator.planning.annotations import ACTIVES_ANNOTATION
from qss_testing.clients.qss_command import REAL_POD, Finished, Qss, manifest
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.long

WORDS, LETTERS, ASLEEP = StoreName("words"), StoreName("letters"), StoreName("asleep")
TIMEOUT_S = 180.0
# A busy machine may have ended no round for ten seconds.
NEXT = r"(; `qss status {}|, which waits: )"
ONE_LINE_UP = "\x1b[1A"


@pytest.fixture(scope="module")
def qss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Qss]:
    """Two stores that run, and one that is only stored."""
    command = Qss(tmp_path_factory.mktemp("changes"), REAL_POD)
    (asleep,) = prepare([command.write(manifest(ASLEEP))], command.state)
    store(asleep, command.state, "uid-1", "2026-11-25T12:00:00Z")
    up = command.up(manifest(WORDS), manifest(LETTERS, partitions=8, replicas=3))
    assert up.code == 0, up.err
    yield command
    assert command.down().code == 0
    assert command.living_pods() == []


def done(qss: Qss, *arguments: str) -> Finished:
    """A command that succeeds and says one line."""
    finished = qss.run(*arguments)
    assert (finished.code, finished.err) == (0, ""), finished.err
    assert len(finished.out.splitlines()) == 1
    return finished


def stored(qss: Qss, name: StoreName) -> dict[str, Any]:
    resource = qss.state.read_resource(name)
    assert resource is not None
    return resource


def until_taken(qss: Qss, name: StoreName) -> None:
    """Waits until the running process has published a status of the stored generation."""
    generation = stored(qss, name)["metadata"]["generation"]

    def is_taken() -> bool:
        status = qss.state.read_status(name)
        return status is not None and status.observed_generation == generation

    wait_until(is_taken, TIMEOUT_S)


def test_standbys_are_made_while_the_store_runs(qss: Qss) -> None:
    holder = qss.state.holder()
    said = done(qss, "standbys", WORDS, "1").out
    assert re.match(rf"words: spec.standbys 0 -> 1{NEXT.format(WORDS)}", said)

    def are_made() -> bool:
        assignment = qss.status(WORDS)["status"]["assignment"]
        return all(len(entry["inSync"]) == len(entry["replicas"]) == 2 for entry in assignment)

    wait_until(are_made, TIMEOUT_S)
    assert stored(qss, WORDS)["metadata"]["generation"] == 2
    until_taken(qss, WORDS)
    assert "standby for" in qss.run("status", WORDS).out
    assert qss.state.holder() == holder, "no restart"
    assert "spec.standbys is 1 already" in done(qss, "standbys", WORDS, "1").out


def test_a_number_of_pods_is_taken_by_the_running_process(qss: Qss) -> None:
    said = done(qss, "scale", LETTERS, "4").out
    assert re.match(rf"letters: spec.replicas 3 -> 4{NEXT.format(LETTERS)}", said)
    assert stored(qss, LETTERS)["spec"]["replicas"] == 4
    until_taken(qss, LETTERS)
    done(qss, "scale", LETTERS, "3")
    until_taken(qss, LETTERS)
    status = qss.state.read_status(LETTERS)
    assert status is not None
    assert status.ready is not None
    assert status.ready.endswith("/3")


def test_a_file_is_taken_by_the_running_process(qss: Qss) -> None:
    before = stored(qss, LETTERS)
    changed = {**before["spec"], "stagedBytesMax": "64Mi"}
    file = qss.write(manifest(LETTERS, **changed))
    assert re.match(f"letters: changed{NEXT.format(LETTERS)}", done(qss, "apply", str(file)).out)
    assert stored(qss, LETTERS)["spec"]["stagedBytesMax"] == "64Mi"
    assert stored(qss, LETTERS)["metadata"]["uid"] == before["metadata"]["uid"]
    until_taken(qss, LETTERS)
    assert done(qss, "apply", str(file)).out == "letters: unchanged\n"


def test_the_console_is_switched_off_while_the_store_runs(qss: Qss) -> None:
    def console() -> int:
        """The status with which all pods answer; 0 while they differ or one is away."""
        pods = qss.status(LETTERS)["status"]["endpoints"]["pods"]
        found = {_status_of(f"{one['query']}/console/") for one in pods}
        return found.pop() if len(found) == 1 else 0

    wait_until(lambda: console() == HTTPStatus.OK, TIMEOUT_S)
    access = {"authentication": "None", "console": False}
    file = qss.write(manifest(LETTERS, **{**stored(qss, LETTERS)["spec"], "access": access}))
    done(qss, "apply", str(file))
    wait_until(lambda: console() == HTTPStatus.NOT_FOUND, TIMEOUT_S)


def _status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_a_file_of_a_store_that_was_never_started_changes_nothing(qss: Qss) -> None:
    before = qss.state.resource_file(WORDS).read_bytes()
    file = qss.write(manifest(WORDS, changelog={"retention": "1h"}), manifest("others"))
    refused = qss.run("apply", str(file))
    assert refused.code == 3
    assert "no store 'others'" in refused.err
    assert "`qss up` has to be started with its file" in refused.err
    assert qss.state.resource_file(WORDS).read_bytes() == before


def test_moves_that_are_asked_for_at_the_same_time_are_all_kept(qss: Qss) -> None:
    asked = [(0, "letters-1"), (1, "2"), (2, "0"), (3, "letters-0")]
    with ThreadPoolExecutor(2) as threads:
        said = list(
            threads.map(lambda one: done(qss, "move", LETTERS, str(one[0]), one[1]).out, asked)
        )
    assert said[1].startswith("letters: the active of partition 1 is asked to be on letters-2")
    assert stored(qss, LETTERS)["metadata"]["annotations"][ACTIVES_ANNOTATION] == "0=1,1=2,2=0,3=0"
    assert "asked by `qss move`, as partition=pod: 0=1" in qss.run("status", LETTERS).out
    for partition, _ in asked:
        done(qss, "move", LETTERS, str(partition), "any")
    assert ACTIVES_ANNOTATION not in stored(qss, LETTERS)["metadata"]["annotations"]


def test_a_store_restarts_pod_by_pod_when_it_is_asked_for(qss: Qss) -> None:
    name = StoreName(LETTERS)
    before = {one.pid for one in qss.state.processes()}
    said = done(qss, "restart", LETTERS).out
    assert re.match(rf"letters: its pods restart one after the other{NEXT.format(LETTERS)}", said)
    asked = stored(qss, LETTERS)["metadata"]["annotations"]
    assert set(asked) == {"queryablestate.dev/restarted-at"}
    file = qss.write(manifest(LETTERS, **stored(qss, LETTERS)["spec"]))
    done(qss, "apply", str(file))
    assert stored(qss, LETTERS)["metadata"]["annotations"] == asked, "the file leaves it"

    def are_new() -> bool:
        running = {one.pid for one in qss.state.processes()}
        status = qss.state.read_status(name)
        assert status is not None
        return len(running - before) == 3 and status.ready == "3/3"

    wait_until(are_new, TIMEOUT_S)


def test_a_killed_pod_is_started_again(qss: Qss) -> None:
    pod = wait_until(lambda: qss.pod(1, WORDS))
    said = done(qss, "kill", f"{WORDS}-1").out
    assert said.startswith(f"killed words-1 (process {pod.pid}); `qss up` starts it again")
    wait_until(lambda: qss.pod(1, WORDS) not in (None, pod), TIMEOUT_S)
    wait_until(lambda: qss.ready(WORDS) == "2/2", TIMEOUT_S)


def test_standbys_take_over_from_a_frozen_pod_which_goes_on_at_ctrl_c(qss: Qss) -> None:
    done(qss, "standbys", WORDS, "1")
    wait_until(lambda: qss.status(WORDS)["status"].get("inSync") == "12/12", TIMEOUT_S)
    pod = wait_until(lambda: qss.pod(1, WORDS), TIMEOUT_S)
    freezing = subprocess.Popen(
        command(qss, "freeze", f"{WORDS}-1", "--seconds", "600"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def actives() -> set[int]:
        status = qss.state.read_status(WORDS)
        assert status is not None
        return {one.active for one in status.assignment or ()}

    wait_until(lambda: actives() == {0}, TIMEOUT_S)
    freezing.send_signal(signal.SIGINT)
    out, err = freezing.communicate(timeout=TIMEOUT_S)
    assert freezing.returncode == 130
    assert out.startswith(f"froze words-1 (process {pod.pid}) for 600 s; `qss status words")
    assert re.match(r"words-1 goes on in 59\d s\n", err)
    wait_until(lambda: actives() == {0, 1}, TIMEOUT_S)
    assert qss.pod(1, WORDS) == pod, "the same process goes on"
    done(qss, "standbys", WORDS, "0")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("scale", "nothing", "2"), 3, "STORE_NOT_FOUND: no store 'nothing'"),
        (("scale", WORDS, "two"), 2, "a number from 0 to 999999999 is expected, not 'two'"),
        (("scale", WORDS, "-1"), 2, "a number from 0 to 999999999 is expected, not '-1'"),
        (("scale", WORDS, "0"), 2, "spec.replicas: 0 (hibernation) is for Kubernetes"),
        (("standbys", WORDS, "2"), 2, "spec.standbys can be at most 1, not 2"),
        (("standbys", "nothing", "0"), 3, "its stores: asleep, letters, words"),
        (("move", WORDS, "6", "0"), 3, "NOT_THERE: words has no partition 6; it has 0 to 5"),
        (("move", WORDS, "x", "0"), 2, "a number from 0 to 999999999 is expected, not 'x'"),
        (("move", WORDS, "0", "words-2"), 3, "no pod 'words-2'; give one of words-0, words-1,"),
        (
            ("move", ASLEEP, "0", "0"),
            1,
            "NOT_RUNNING: store asleep is not among the running stores",
        ),
        (("kill", "words-2"), 3, "NOT_THERE: no pod 'words-2' in"),
        (("kill", "words"), 3, "letters-0, letters-1, letters-2"),
        (("freeze", "words-2"), 3, "NOT_THERE: no pod 'words-2' in"),
        (("kill", "asleep-0"), 1, "NOT_RUNNING: store asleep is not among the running stores"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_refused_with_what_is_there(
    qss: Qss, arguments: tuple[str, ...], code: int, message: str
) -> None:
    before = {name: qss.state.resource_file(name).read_bytes() for name in qss.state.stores()}
    refused = qss.run(*arguments)
    assert (refused.code, refused.out) == (code, ""), refused.err
    assert message in refused.err
    assert len(refused.err.splitlines()) == 1
    after = {name: qss.state.resource_file(name).read_bytes() for name in qss.state.stores()}
    assert after == before


def test_a_store_that_does_not_run_is_changed_for_its_next_start(qss: Qss) -> None:
    said = done(qss, "scale", ASLEEP, "4").out
    assert "which is not carried out before `qss up` is started with this store" in said
    assert stored(qss, ASLEEP)["spec"]["replicas"] == 4
    assert "Stopped" in qss.run("status", ASLEEP).out


def test_where_nothing_runs_a_change_is_stored_for_the_next_start(tmp_path: Path) -> None:
    stopped = Qss(tmp_path)
    file = stopped.write(manifest(ASLEEP, replicas=3))
    store(prepare([file], stopped.state)[0], stopped.state, "uid-1", "2026-11-25T12:00:00Z")
    said = done(stopped, "standbys", ASLEEP, "2").out
    assert "spec.standbys 0 -> 2, which the next `qss up` carries out: nothing runs" in said
    said = done(stopped, "apply", str(file)).out
    assert said == "asleep: changed, which the next `qss up` carries out: nothing runs\n"
    assert stopped.run("kill", "asleep-0").code == 1


def test_a_watch_prints_each_change_until_it_is_interrupted(qss: Qss) -> None:
    watch = subprocess.Popen(
        command(qss, "status", LETTERS, "--watch", "--output", "ndjson"), stdout=subprocess.PIPE
    )
    assert watch.stdout is not None
    first = read_until(watch.stdout.fileno(), "\n")
    assert json.loads(first.splitlines()[0])["metadata"]["name"] == LETTERS
    done(qss, "move", LETTERS, "7", "1")
    read_until(watch.stdout.fileno(), f'"{ACTIVES_ANNOTATION}": "7=1"')
    watch.send_signal(signal.SIGINT)
    watch.communicate(timeout=TIMEOUT_S)
    assert watch.returncode == 0
    done(qss, "move", LETTERS, "7", "any")


def test_a_watch_on_a_terminal_draws_in_the_same_place(qss: Qss) -> None:
    ours, theirs = os.openpty()
    watch = subprocess.Popen(command(qss, "status", LETTERS, "--watch"), stdout=theirs)
    os.close(theirs)
    read_until(ours, "partition")
    done(qss, "move", LETTERS, "6", "1")
    assert ONE_LINE_UP in read_until(ours, "6=1")
    watch.send_signal(signal.SIGINT)
    assert watch.wait(TIMEOUT_S) == 0
    os.close(ours)
    done(qss, "move", LETTERS, "6", "any")


def command(qss: Qss, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "qss_client", *arguments, "--state-dir", str(qss.state.path)]


def read_until(output: int, text: str) -> str:
    """The output of a process at a pipe or a terminal, up to a text."""
    shown = ""
    while text not in shown:
        readable, _, _ = select.select([output], [], [], TIMEOUT_S)
        assert readable, f"no {text!r} in {shown!r}"
        shown += os.read(output, 4096).decode(errors="replace")
    return shown
