"""Keeps one pod running: starts it again after its end, and stops it in order."""

import asyncio
import logging
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from qss_client.processes import identify
from qss_core.model import Ordinal, StoreName
from qss_core.spec.resource import ALLOWED_ORIGINS, CONSOLE
from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.files import make_directory, unwritable
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.pod_ends import ToldEnds, failures_after, restart_delay_s
from qss_operator.local.processes import start_child

logger = logging.getLogger(__name__)

STOP_GRACE_S = 10.0
# Each start ends in the same way, until a person corrects the settings or the command.
WRONG_SETTINGS = "ended with exit code 2, of wrong settings"
_WRONG_USAGE = 2
_LOG_BYTES_MAX = 1024 * 1024
_LOG_TAIL_BYTES = 4096
_LINE_CHARS_MAX = 200
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


class PodSupervisor:
    """One pod. `trouble` is the reason why it does not run, or ran only briefly."""

    def __init__(
        self,
        state: StateDirectory,
        store: StoreName,
        ordinal: Ordinal,
        command: tuple[str, ...],
        on_change: Callable[[], None],
        template: Callable[[], str],
    ) -> None:
        """`template` returns the current pod template.

        A pod that was started from another template is outdated.
        """
        self._state = state
        self._store = store
        self._ordinal = ordinal
        self._command = command
        self._on_change = on_change
        self._template = template
        self._made_of = ""
        self._starts = 0
        # The bytes of the log that earlier processes have written; None before a process starts.
        self._said_before: int | None = None
        self._asked = asyncio.Event()  # To restart.
        self.is_running = False
        self.trouble: str | None = None

    @property
    def uid(self) -> str:
        """The name of the process that runs, or ran last."""
        return str(self._starts)

    def _environment(self) -> dict[str, str]:
        """The uid of the resource: a pod serves no volume of a deleted store of the same name.

        And whether the pod has a console, and the origins of pages that may ask it.
        """
        resource = self._state.read_resource(self._store) or {}
        access = resource.get("spec", {}).get("access") or {}
        pages = {} if access.get("console", True) else {CONSOLE: "0"}
        if origins := access.get("allowedOrigins"):
            pages[ALLOWED_ORIGINS] = ",".join(origins)
        return {"QSS_RESOURCE_UID": resource.get("metadata", {}).get("uid", ""), **pages}

    @property
    def is_outdated(self) -> bool:
        """Whether the pod was started from another template than the current one."""
        return self.is_running and self._made_of != self._template()

    @property
    def is_leaving(self) -> bool:
        """Whether the pod is being stopped, and then started again."""
        return self._asked.is_set()

    def restart(self) -> None:
        """Stops the process in order, and starts it again."""
        self._asked.set()

    async def run(self) -> None:
        """Run until cancelled; then the pod is stopped."""
        loop = asyncio.get_running_loop()
        failures = 0
        ends = ToldEnds()
        while True:
            started_s = loop.time()
            ending = await self._run_once()
            if ending is None:
                continue
            failures = failures_after(failures, loop.time() - started_s)
            if words := ends.take(ending, self._last_line(), failures, loop.time()):
                self._set_trouble(words)
            await asyncio.sleep(restart_delay_s(failures))

    async def _run_once(self) -> str | None:
        """Runs the pod until it ends; returns how it ended, and None where it is to restart."""
        self._asked.clear()
        self._made_of = self._template()
        self._starts += 1
        self._said_before = None
        log = self._state.log_file(self._store, self._ordinal)
        try:
            make_directory(self._state.data_directory(self._store, self._ordinal))
            with _open_log(log) as output:
                self._said_before = output.tell()
                process = await start_child(self._command, output, self._environment())
        except StateDirectoryError as error:
            return f"cannot be started: {error.message}"
        except OSError as error:
            return f"cannot be started: {error.strerror or error}: {self._command[0]}"
        try:
            self._record(process.pid)
        except StateDirectoryError as error:
            # A full disk of a new pod. A pod must not run if no later command could find it.
            await _stop(process)
            return f"cannot be started: {error.message}"
        try:
            self.is_running = True
            self._on_change()
            return await self._ending(process)
        finally:
            self.is_running = False
            await _stop(process)

    async def _ending(self, process: asyncio.subprocess.Process) -> str | None:
        asked = asyncio.create_task(self._asked.wait())
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
            return _describe_exit(ended.result()) if ended.done() else None
        finally:
            asked.cancel()
            ended.cancel()

    def _record(self, pid: int) -> None:
        identity = identify(pid)
        # A child that has ended already need not be recorded.
        if identity is not None:
            self._state.write_process(self._store, self._ordinal, identity)

    def _set_trouble(self, trouble: str) -> None:
        logger.warning("%s-%d %s", self._store, self._ordinal, trouble)
        self.trouble = trouble
        self._on_change()

    def _last_line(self) -> str:
        if self._said_before is None:
            return ""
        return last_line(self._state.log_file(self._store, self._ordinal), self._said_before)


def last_line(log: Path, begin: int = 0) -> str:
    """The last line of a log that is not empty, from byte `begin` on, cut to a limited length.

    A line of the level CRITICAL has precedence over later lines, which a process writes while it
    ends. The time of a line is left out, so that pods which fail alike say the same.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - _LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    said = [_STAMP.sub("", line.strip()) for line in reversed(lines) if line.strip()]
    said.sort(key=lambda line: "CRITICAL" not in line)
    return said[0][:_LINE_CHARS_MAX] if said else ""


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Ends a process; a caller that is cancelled meanwhile, or again, waits for its end, too."""
    ending = asyncio.ensure_future(_end(process))
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError as error:
            cancelled = error
    ending.result()
    if cancelled is not None:
        raise cancelled


async def _end(process: asyncio.subprocess.Process) -> None:
    """Sends SIGTERM, later SIGKILL; returns when the process has ended."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_GRACE_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _open_log(log: Path) -> IO[bytes]:
    """The log of a pod, to append to; a large one is moved aside. Raises StateDirectoryError."""
    try:
        with suppress(FileNotFoundError):
            if log.stat().st_size > _LOG_BYTES_MAX:
                log.replace(log.with_name("log.1"))
        return log.open("ab")
    except OSError as error:
        raise unwritable(log, error) from error


def _describe_exit(code: int) -> str:
    if code == _WRONG_USAGE:
        return WRONG_SETTINGS
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
