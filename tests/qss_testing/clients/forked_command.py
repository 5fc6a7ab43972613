"""Runs `qss` in a process of its own, forked from a server that has the modules imported already.

Starting Python and importing is nearly all that a short command costs, and tests run hundreds.
"""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from qss_client.cli.main import main

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["qss_testing.clients.command_modules"])


def run_forked(arguments: Sequence[str], timeout_s: float) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote to its two outputs.

    It has the environment and the folder that this process has now. TimeoutError if the command
    runs for longer; it is killed.
    """
    with TemporaryDirectory(prefix="qss-forked-") as directory:
        outputs = (Path(directory, "out"), Path(directory, "err"))
        given = (arguments, dict(os.environ), Path.cwd(), outputs)
        process = _FORKED.Process(target=_run, args=given)
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise TimeoutError(f"qss {' '.join(arguments)} still runs after {timeout_s:g} s")
        code = process.exitcode
        process.close()
        assert code is not None
        return code, outputs[0].read_text(), outputs[1].read_text()


def _run(
    arguments: Sequence[str],
    environment: dict[str, str],
    directory: Path,
    outputs: tuple[Path, Path],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for descriptor, output in enumerate(outputs, start=1):
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdout, sys.stderr = (
        open(descriptor, "w", closefd=False)  # noqa: SIM115 open until the process ends.
        for descriptor in (1, 2)
    )
    sys.argv = ["qss", *arguments]
    main()
