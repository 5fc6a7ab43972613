"""`qss up --detach` waits for stores and their pods, and ends early where waiting cannot help."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.long

_LONGER_THAN_A_TEST_S = 3600.0


@pytest.fixture
def qss(tmp_path: Path) -> Iterator[Qss]:
    command = Qss(tmp_path, REAL_POD)
    yield command
    command.down()


def test_a_wrong_setting_ends_the_wait_early_with_the_words_of_the_pod(
    qss: Qss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSS_SCRUB_BYTES_PER_S", "fast")
    # A command that waits longer than the test's limit for it fails the test.
    done = qss.up(timeout_s=_LONGER_THAN_A_TEST_S)
    assert done.code == 4
    error = done.err[done.err.index("error: ") :]
    # On a busy machine one pod may end later than the wait for it.
    told = rf"{STORE}-[01](, {STORE}-1)? ended with exit code 2, of wrong settings, restarting; "
    assert re.search(told, error), error
    assert "it said last: CRITICAL qss_store: QSS_SCRUB_BYTES_PER_S is a whole number" in error


def test_all_pods_that_end_of_wrong_settings_are_named(qss: Qss) -> None:
    """The command ends with those that it has seen; the status names the others once they end."""
    program = qss.directory / "pod.sh"
    program.write_text('echo "CRITICAL qss_store: QSS_X is unknown" >&2; exit 2')
    done = Qss(qss.directory, ("/bin/sh", str(program))).up(timeout_s=60)
    assert done.code == 4
    told = "ended with exit code 2, of wrong settings, restarting; it said last: CRITICAL "
    assert told in done.err[done.err.index("error: ") :], done.err

    def conditions() -> str:
        return " ".join(one["message"] for one in qss.status()["status"]["conditions"])

    wait_until(lambda: f"{STORE}-0, {STORE}-1 {told}" in conditions())


def test_a_store_that_serves_without_a_pod_is_told_not_to_be_waited_for(qss: Qss) -> None:
    store = manifest(standbys=1)
    assert qss.up(store).code == 0
    assert qss.down().code == 0
    program = qss.directory / "pod.sh"
    pod = f'exec {sys.executable} -m qss_store "$@"'
    program.write_text(f'case "$*" in *"--ordinal 1"*) exit 3;; esac; {pod}')
    up = Qss(qss.directory, ("/bin/sh", str(program))).up(store, timeout_s=60)
    assert up.code == 0, up.err
    assert up.err.splitlines()[-1].startswith(
        f"not waited for: {STORE}: 1 of 2 pods are ready; `qss status --state-dir "
    )
