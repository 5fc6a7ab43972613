"""Starts the pods and the operator, and starts each again that has ended, as a kubelet does.

All children belong to one thread, and the kernel kills them when this thread ends, so nothing
outlives the command that started it.
"""

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_LOOK_S = 0.05
# The kernel sends SIGKILL to the child when the thread that started it ends.
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


@dataclass(slots=True)
class _Child:
    command: tuple[str, ...]
    log: Path
    on_start: Callable[[int], None]
    process: "subprocess.Popen[bytes] | None" = None
    is_held: bool = False
    starts: int = 0


@dataclass(slots=True)
class Processes:
    """Children by name. `hold` keeps one from being started again, `release` ends that."""

    environment: dict[str, str]
    _children: dict[str, _Child] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _over: threading.Event = field(default_factory=threading.Event)
    _failures: "queue.SimpleQueue[BaseException]" = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._keep, name="processes")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def add(
        self, name: str, command: tuple[str, ...], log: Path, on_start: Callable[[int], None]
    ) -> None:
        """Has a child started, and started again at each end."""
        with self._lock:
            self._children[name] = _Child(command, log, on_start)

    def starts(self, name: str) -> int:
        """The number of starts of a child."""
        return self._children[name].starts

    def is_running(self, name: str) -> bool:
        with self._lock:
            process = self._children[name].process
            return process is not None and process.poll() is None

    def signal(self, name: str, number: signal.Signals) -> None:
        """Signals a child, if it runs."""
        with self._lock:
            process = self._children[name].process
            if process is not None and process.poll() is None:
                process.send_signal(number)

    def hold(self, name: str) -> None:
        """Keeps a child from being started again, until `release`."""
        with self._lock:
            self._children[name].is_held = True

    def release(self, name: str) -> None:
        with self._lock:
            self._children[name].is_held = False

    def check(self) -> None:
        """Raises what ended the thread."""
        with suppress(queue.Empty):
            raise self._failures.get_nowait()

    def _keep(self) -> None:
        try:
            while not self._over.wait(_LOOK_S):
                with self._lock:
                    for child in self._children.values():
                        self._look(child)
        except BaseException as error:  # noqa: BLE001 `check` raises it.
            self._failures.put(error)
        finally:
            self._end()

    def _look(self, child: _Child) -> None:
        if child.is_held or (child.process is not None and child.process.poll() is None):
            return
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                [*WITH_PARENT, *child.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        child.starts += 1
        child.on_start(child.process.pid)

    def _end(self) -> None:
        with self._lock:
            processes = [one.process for one in self._children.values() if one.process is not None]
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()
