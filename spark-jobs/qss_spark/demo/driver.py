"""Runs the demo's jobs in one Spark driver process, and starts it again when it is killed.

Each job is a program. Running them one after the other in one process starts Java only once, which
saves a third of the demo's time.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from qss_client.kube.child_processes import ending_with_its_parent
from qss_spark.demo.driver_program import ENDED
from qss_spark.demo.processes import ProgramError

STARTS_IN_VAIN_MAX = 5  # In a row.
_STOP_TIMEOUT_S = 20
_LAST_WORDS_OF_THE_KILLED = (
    # The Java process does not answer any more.
    *("Py4JNetworkError", "Answer from Java side is empty", "Connection refused"),
    # The Java process of a killed run finished its batch; the next run continues after that batch.
    "CONCURRENT_STREAM_LOG_UPDATE",
)


class Driver:
    """Runs jobs that print their progress; a killed job continues from its checkpoint."""

    def __init__(self, log: Path) -> None:
        """`log` gets Spark's output. It starts nothing yet."""
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue(maxsize=1000)
        self._is_stopped = False
        self.starts = 0  # Starts of the newest job.

    def run(self, script: Path, arguments: list[str]) -> Iterator[dict[str, Any] | None]:
        """The job's progress lines as they come; None when none came for a moment.

        Raises ProgramError when the job fails, or is killed several times without a new batch.
        """
        self.starts = in_vain = 0
        furthest = -1
        while True:
            self.starts += 1
            process = self._told([str(script), "--progress", *arguments])
            has_ended, reached = yield from self._progress()
            if has_ended:
                return
            in_vain = 0 if reached > furthest else in_vain + 1
            furthest = max(furthest, reached)
            code = process.wait()
            if self._is_stopped:
                return
            # A kill of the process or of its Java process must not matter.
            was_killed = code < 0 or self._was_disturbed()
            if not was_killed:
                raise ProgramError(f"the job ended with {code}: see {self._log}\n{self._tail()}")
            if in_vain >= STARTS_IN_VAIN_MAX:
                raise ProgramError(
                    f"the job was killed {in_vain} times one after the other without progress: "
                    f"start the demo again; if you did not kill the job, see {self._log}"
                )

    def _told(self, job: list[str]) -> "subprocess.Popen[str]":
        """The process, started if necessary, after the job was sent to it."""
        if self._process is None or self._process.poll() is not None:
            self._close_input()
            self._process = self._start()
        assert self._process.stdin is not None
        with suppress(OSError):  # The driver was killed; the end of its output reports that.
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        return self._process

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _start(self) -> "subprocess.Popen[str]":
        with self._log.open("a") as log:
            process = subprocess.Popen(
                ending_with_its_parent([sys.executable, "-m", "qss_spark.demo.driver_program"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._lines = queue.Queue(maxsize=1000)
        threading.Thread(target=_read_lines, args=(process, self._lines), daemon=True).start()
        return process

    def _progress(self) -> Generator[dict[str, Any] | None, None, tuple[bool, int]]:
        """Yields progress lines until the job or the process ends.

        Returns whether the job ended, and its last reported batch; -1 for none.
        """
        reached = -1
        while True:
            try:
                line = self._lines.get(timeout=0.2)
            except queue.Empty:
                yield None
                continue
            if line is None:
                return False, reached
            if line.strip() == ENDED:
                return True, reached
            try:
                document = json.loads(line)
            except ValueError:
                continue  # Spark prints, too, and a killed job may stop within a line.
            if isinstance(document, dict):
                reached = max(reached, document.get("batch", -1))
                yield document

    def _tail(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _was_disturbed(self) -> bool:
        """Whether the log ends like that of a Java process that was killed or survived a run."""
        last_words = self._tail(60)
        return any(words in last_words for words in _LAST_WORDS_OF_THE_KILLED)

    def stop(self) -> None:
        """Ends the process and its running job."""
        self._is_stopped = True
        self._close_input()
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _read_lines(process: "subprocess.Popen[str]", lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.put(line)
    lines.put(None)
