"""The driver in which the demo's jobs run: one process, started again when it is killed.

The jobs are programs of their own. One after the other in one process they share its Java, which
the first has made warm: that of four drivers was a third of the demo.
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

STARTS_IN_VAIN_MAX = 5  # One after the other.
_STOP_TIMEOUT_S = 20
_LAST_WORDS_OF_THE_KILLED = (
    # Its Java does not answer any more.
    *("Py4JNetworkError", "Answer from Java side is empty", "Connection refused"),
    # The Java of a run that was killed before finished its batch; what it wrote is gone on from.
    "CONCURRENT_STREAM_LOG_UPDATE",
)


class Driver:
    """Runs jobs that print their progress; one that is killed goes on from its checkpoint."""

    def __init__(self, log: Path) -> None:
        """`log` takes what Spark says. Nothing is started yet."""
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue(maxsize=1000)
        self._is_stopped = False
        self.starts = 0  # Of the newest job.

    def run(self, script: Path, arguments: list[str]) -> Iterator[dict[str, Any] | None]:
        """What the job prints, as it comes; None when nothing came for a moment.

        Raises ProgramError when the job fails by itself, or is killed again and again and gets
        nowhere: to no batch that no run before has reached.
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
            # Somebody killed it, or its Java: that must not matter.
            was_killed = code < 0 or self._was_disturbed()
            if not was_killed:
                raise ProgramError(f"the job ended with {code}: see {self._log}\n{self._tail()}")
            if in_vain >= STARTS_IN_VAIN_MAX:
                raise ProgramError(
                    f"the job was killed {in_vain} times one after the other without getting on: "
                    f"start the demo again, and see {self._log} where nobody killed it"
                )

    def _told(self, job: list[str]) -> "subprocess.Popen[str]":
        """The process, which runs or is started, and was told what to do."""
        if self._process is None or self._process.poll() is not None:
            self._close_input()
            self._process = self._start()
        assert self._process.stdin is not None
        with suppress(OSError):  # It was killed: what it prints ends, and says so.
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
        """Until the job, or the process, has ended.

        Returns whether it was the job, and the last batch that it told of; -1 for none.
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
                continue  # Spark prints too, and a job that is killed may stop within a line.
            if isinstance(document, dict):
                reached = max(reached, document.get("batch", -1))
                yield document

    def _tail(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _was_disturbed(self) -> bool:
        """Whether its last words are of a Java that was killed, or that outlived an earlier run."""
        last_words = self._tail(60)
        return any(words in last_words for words in _LAST_WORDS_OF_THE_KILLED)

    def stop(self) -> None:
        """Ends the process, and a job that still runs, for good."""
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
