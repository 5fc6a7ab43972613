"""The programs that the demo runs: the cluster and the job, as child processes."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import qss_spark
from qss_client.orphans import ending_with_its_parent, started

JOB_STARTS_MAX = 5
_CLUSTER_READY = "Ctrl-C stops"  # What `qss up` says once every store is.
_START_TIMEOUT_S = 120.0
_LAST_WORDS_OF_THE_KILLED = (
    # Its Java does not answer any more.
    *("Py4JNetworkError", "Answer from Java side is empty", "Connection refused"),
    # The Java of a run that was killed before finished its batch; what it wrote is gone on from.
    "CONCURRENT_STREAM_LOG_UPDATE",
)


class ProgramError(Exception):
    """A program that the demo runs has failed."""


def jobs_directory() -> Path:
    """Where the jobs are: beside the package in a checkout, inside it in a wheel."""
    package = Path(qss_spark.__file__).parent
    return next(
        path
        for path in (package.parent / "jobs", package / "jobs")
        if (path / "aircraft_stats.py").exists()
    )


def run_qss(*arguments: str) -> str:
    """Runs a `qss` command to its end; ProgramError with what it said where it fails.

    Ctrl-C reaches only the caller: an impatient second one must not stop `qss down`.
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
    """`qss up`, which the kernel ends with this program, however that ends; its pods end with it.

    In a session of its own: Ctrl-C reaches only the caller.
    """

    def __init__(self, *arguments: str) -> None:
        """Starts it."""
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
        """Until every store is; ProgramError with what it said where it ends, or takes too long."""
        self._is_settled.wait(_START_TIMEOUT_S)
        if not self._is_ready:
            raise ProgramError(f"qss up failed:\n{''.join(self._said).strip()}")

    def stop(self) -> None:
        """Ends it and its pods, also where it has only begun."""
        self._process.terminate()
        self._process.wait()
        self._listening.join()


class Job:
    """A Spark job that prints its progress; started again from its checkpoint when it is killed."""

    def __init__(self, script: Path, arguments: list[str], log: Path) -> None:
        """`log` takes what Spark says."""
        self._command = [sys.executable, str(script), "--progress", *arguments]
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False
        self.starts = 0

    def progress(self) -> Iterator[dict[str, Any] | None]:
        """What the job prints, as it comes; None when nothing came for a moment.

        Raises ProgramError when the job fails by itself, or was started too often.
        """
        while True:
            self.starts += 1
            lines: queue.Queue[str | None] = queue.Queue(maxsize=1000)
            process = self._start()
            threading.Thread(target=_read_lines, args=(process, lines), daemon=True).start()
            yield from _parsed(lines)
            code = process.wait()
            if code == 0 or self._is_stopped:
                return
            # Somebody killed it, or its Java: that must not matter.
            was_killed = code < 0 or self._was_disturbed()
            if not was_killed or self.starts >= JOB_STARTS_MAX:
                raise ProgramError(f"the job ended with {code}: see {self._log}\n{self._tail()}")

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                ending_with_its_parent(self._command),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return self._process

    def _tail(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _was_disturbed(self) -> bool:
        """Whether its last words are of a Java that was killed, or that outlived an earlier run."""
        last_words = self._tail(60)
        return any(words in last_words for words in _LAST_WORDS_OF_THE_KILLED)

    def stop(self) -> None:
        """Ends the job, if it still runs, for good."""
        self._is_stopped = True
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _read_lines(process: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.put(line)
    lines.put(None)


def _parsed(lines: "queue.Queue[str | None]") -> Iterator[dict[str, Any] | None]:
    while True:
        try:
            line = lines.get(timeout=0.2)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        try:
            document = json.loads(line)
        except ValueError:
            continue  # Spark prints too, and a job that is killed may stop within a line.
        if isinstance(document, dict):
            yield document
