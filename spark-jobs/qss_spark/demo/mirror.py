"""Runs `qss mirror` beside a job that writes no store, and starts it again when it is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from qss_client.kube.child_processes import ending_with_its_parent
from qss_spark.demo.processes import ProgramError, run_qss

Line = dict[str, Any] | None
_TRY_AGAIN = 4  # Pods gave no answer for long: the exit code of `qss` for that.
_STOP_TIMEOUT_S = 20
_SHOWN_LINES = 15


class Mirror:
    """`qss mirror` of one checkpoint, a process of its own."""

    def __init__(self, checkpoint: Path, file: Path, cluster: tuple[str, ...], log: Path) -> None:
        """`file` names the parts and their stores, `cluster` the options of the cluster.

        `log` gets what the process says. It starts nothing yet.
        """
        self._arguments = ("mirror", str(checkpoint), "--file", str(file), *cluster)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def beside(self, progress: Iterator[Line]) -> Generator[Line, None, None]:
        """The progress lines of a job, while the state of its batches is copied.

        The first line begins the copy, as before the first batch there is no state; behind the last
        line the stores have the last batch. Raises ProgramError when the copy fails.
        """
        try:
            for line in progress:
                if line is not None or self._process is not None:
                    self._tend()
                yield line
        finally:
            self._stop()
        run_qss(*self._arguments, "--once")

    def _tend(self) -> None:
        """Starts the process where there is none, or where it was killed or met no pods."""
        code = None if self._process is None else self._process.poll()
        if self._process is None or (code is not None and (code < 0 or code == _TRY_AGAIN)):
            self._process = self._start()
        elif code is not None:
            said = "\n".join(self._log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
            raise ProgramError(f"qss mirror ended with {code}: see {self._log}\n{said}")

    def _start(self) -> "subprocess.Popen[bytes]":
        """The process, in its own session: Ctrl-C reaches only the caller."""
        with self._log.open("a") as log:
            return subprocess.Popen(
                ending_with_its_parent([sys.executable, "-m", "qss_client", *self._arguments]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    def _stop(self) -> None:
        """Ends the process as Ctrl-C does: it closes its writer."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
