"""Runs programs of Spark jobs one after the other in one process, so that they share one Java.

A job takes seconds of work to start its Java. `python -m qss_testing.writers.job_programs` runs
each program that a line of its input names, as `python PROGRAM ARGUMENTS` would.
"""

import json
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from typing import IO, Self

from qss_testing.writers.word_counts import TESTS

_ENDED = "program ended: "


class JobPrograms:
    """The process, inside the block; `log` gets what it writes to its standard error."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def run(self, program: Path, *arguments: str) -> list[str]:
        """The lines that a program printed; raises AssertionError if it failed."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([str(program), *arguments]) + "\n")
        process.stdin.flush()
        lines: list[str] = []
        for line in process.stdout:
            if line.startswith(_ENDED):
                assert line == f"{_ENDED}0\n", self._said()
                return lines
            lines.append(line.rstrip("\n"))
        raise AssertionError(f"the process has ended: {self._said()}")

    def _said(self) -> str:
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process: subprocess.Popen[str] = subprocess.Popen(
                [sys.executable, "-m", "qss_testing.writers.job_programs"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _frames: object) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()


def main(orders: IO[str]) -> None:
    """Runs the programs of the orders until their end."""
    for order in orders:
        sys.argv = json.loads(order)
        code: object = 0
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        except Exception:  # noqa: BLE001 as a program of its own, which ends with 1.
            traceback.print_exc()
            code = 1
        sys.stdout.write(f"{_ENDED}{code}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.stdin)
