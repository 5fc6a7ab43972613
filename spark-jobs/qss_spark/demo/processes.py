"""Runs the cluster and `qss` commands of the demo as child processes."""

import os
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

import qss_spark
from qss_client.kube.child_processes import started

_CLUSTER_READY = "Ctrl-C stops"  # `qss up` prints it when every store is ready.
_START_TIMEOUT_S = 120.0


class ProgramError(Exception):
    """A program of the demo has failed."""


def jobs_directory() -> Path:
    """The directory of the jobs: beside the package in a checkout, inside it in a wheel."""
    package = Path(qss_spark.__file__).parent
    return next(
        path
        for path in (package.parent / "jobs", package / "jobs")
        if (path / "aircraft_stats.py").exists()
    )


def run_qss(*arguments: str) -> str:
    """Runs a `qss` command to its end; raises ProgramError with its output if it fails.

    Ctrl-C reaches only the caller: a second one must not stop `qss down`.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "qss_client", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        start_new_session=True,
    )
    if ended.returncode != 0:
        raise ProgramError(f"qss {arguments[0]} failed:\n{ended.stderr.strip()}")
    return ended.stdout


class Cluster:
    """`qss up`, which the kernel ends with this program; its pods end with it.

    It has its own session, so that Ctrl-C reaches only the caller.
    """

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "qss_client", "up", *arguments]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self._process = started(command, env=environment, start_new_session=True)
        self._said: deque[str] = deque(maxlen=50)
        self._is_ready = False
        self._is_settled = threading.Event()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._said.append(line)
                if line.startswith(_CLUSTER_READY):
                    self._is_ready = True
                    self._is_settled.set()
        self._is_settled.set()

    def wait_until_ready(self) -> None:
        """Waits until every store is ready; raises ProgramError if `qss up` ends or is slow."""
        self._is_settled.wait(_START_TIMEOUT_S)
        if not self._is_ready:
            raise ProgramError(f"qss up failed:\n{''.join(self._said).strip()}")

    def stop(self) -> None:
        """Ends the cluster and its pods, even if they have only begun to start."""
        self._process.terminate()
        self._process.wait()
        self._listening.join()
