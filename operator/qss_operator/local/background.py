"""Starts `qss up` in the background and waits until its stores are ready."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from qss_core.model import StoreName
from qss_operator.errors import AlreadyRunningError, StartFailedError
from qss_operator.local.directory.files import make_directory
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.prepare import prepare, telling_differences
from qss_operator.local.run import RunningStores, wait_for_pods, wait_until_ready
from qss_operator.local.supervisor import last_line
from qss_operator.planning.model import StoreStatus

_LOG_BYTES_MAX = 1024 * 1024
_PODS_WAIT_S = 10.0


async def start_in_background(
    files: Sequence[Path],
    state: StateDirectory,
    options: Sequence[str],
    timeout_s: float,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[RunningStores, list[str]]:
    """Start `qss up FILES` in its own process; returns when every store is Ready.

    It waits some seconds longer for pods without which a store serves; messages name the stores
    that lack pods even then. tell: gets the stores that it waits for, after 2 s. Raises the errors
    of a foreground `qss up`, and StartFailedError if a store is not ready in time or waiting cannot
    help; the background process then continues.
    """
    # Errors of the files are shown here, not in a log, even while another `qss up` runs.
    prepared = prepare(files, state)
    names = tuple(entry.name for entry in prepared)
    make_directory(state.path)
    with telling_differences(prepared, state):
        state.check_nobody_runs()
    log = state.up_log
    if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
        log.write_bytes(b"")  # The file may have the output of earlier runs.
    said_before = log.stat().st_size if log.exists() else 0
    child = _spawn(files, state, options)  # Takes the lock, or ends with AlreadyRunningError.
    running = RunningStores(state=state, names=names)

    def read() -> dict[StoreName, StoreStatus]:
        if child.poll() is not None:
            with telling_differences(prepared, state):
                _raise_refusal(log, said_before)
            raise StartFailedError(
                f"the background process ended with exit code {child.returncode}: "
                f"{last_line(log, said_before)} (see {log})"
            )
        holder = state.holder()
        # Until the child has begun, the status files are those of an earlier run.
        is_begun = holder is not None and holder.pid == child.pid
        return running.statuses() if is_begun else dict.fromkeys(names, StoreStatus())

    try:
        await wait_until_ready(read, timeout_s, tell)
    except StartFailedError as error:
        if child.poll() is None:
            hint = "it continues in the background; `qss down` stops it"
            raise StartFailedError(f"{error.message}\n{hint}") from error
        raise
    return running, await wait_for_pods(read, min(_PODS_WAIT_S, timeout_s), tell)


def _raise_refusal(log: Path, said_before: int) -> None:
    """Raises AlreadyRunningError if the background process ended with it."""
    with log.open("rb") as file:
        file.seek(said_before)
        said = file.read(_LOG_BYTES_MAX).decode(errors="replace")
    refusal = f"error: {AlreadyRunningError.code}: "
    for line in said.splitlines():
        if line.startswith(refusal):
            raise AlreadyRunningError(line.removeprefix(refusal))


def _spawn(
    files: Sequence[Path], state: StateDirectory, options: Sequence[str]
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "qss_client", "up", *map(str, files)]
    with state.up_log.open("ab") as log:  # Another `qss up` may write to it, too.
        return subprocess.Popen(
            [*command, "--state-dir", str(state.path), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
