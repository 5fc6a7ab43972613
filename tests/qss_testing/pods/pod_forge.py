"""Starts pods as forks of a process that has imported their program, so starts are fast.

Each pod is still its own process, with its own arguments, environment and output. The forge is a
program (`python -m qss_testing.pods.pod_forge`): for each line of JSON it starts a pod and prints
its pid, and later its exit code. It ends with its input.
"""

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

# jemalloc restarts this thread after a fork.
_FORKABLE = {"jemalloc_bg_thd"}
TESTS = Path(__file__).parents[2]


class ForkedPod:
    """The process of a pod, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._has_ended = threading.Event()

    def ended(self, code: int) -> None:
        """Called when the forge has reaped the process."""
        self.returncode = code
        self._has_ended.set()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end; raises TimeoutExpired like Popen."""
        if not self._has_ended.wait(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"pod {self.pid}", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forge:
    def __init__(self) -> None:
        # The only library that would start threads during its import.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}
        self._program = subprocess.Popen(
            [sys.executable, "-m", "qss_testing.pods.pod_forge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._lock = threading.Lock()
        self._forked = threading.Condition()
        self._pods: dict[int, ForkedPod] = {}
        self._newest: ForkedPod | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> ForkedPod:
        """Starts a pod; its output is appended to `log`."""
        told = {"arguments": list(arguments), "environment": dict(environment), "log": str(log)}
        assert self._program.stdin is not None
        with self._lock, self._forked:
            self._newest = None
            self._program.stdin.write(json.dumps(told).encode() + b"\n")
            self._program.stdin.flush()
            assert self._forked.wait_for(lambda: self._newest is not None, 60.0)
            assert self._newest is not None
            return self._newest

    def _listen(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            pid, *code = map(int, line.split())
            with self._forked:
                if code:
                    self._pods.pop(pid).ended(code[0])
                    continue
                self._newest = self._pods[pid] = ForkedPod(pid)
                self._forked.notify_all()
        for pod in self._pods.values():  # Without the forge no message about their ends will come.
            pod.kill()
            pod.ended(-signal.SIGKILL)

    def close(self) -> None:
        """Ends the forge, and with it its pods."""
        assert self._program.stdin is not None
        self._program.stdin.close()
        self._program.wait()


@cache
def forge() -> Forge:
    """The forge of this process, started at the first call."""
    made = Forge()
    atexit.register(made.close)
    return made


# --- The program


def _become(told: Mapping[str, Any]) -> None:
    """Sets up what a new process would have, and runs the pod's program to its end."""
    from qss_store.__main__ import main as run_pod

    os.closerange(3, 64)  # The forge's own files.
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(told["environment"])
    sys.argv = ["qss_store", *told["arguments"]]
    paths = told["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [one for one in paths if one and one not in sys.path]
    run_pod()


def _fork(told: Mapping[str, Any]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    code = 1
    try:
        _become(told)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:  # noqa: BLE001 as an interpreter would.
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _threads() -> set[str]:
    """The threads of this process, except the main thread."""
    tasks = Path("/proc/self/task")
    return {
        (one / "comm").read_text().strip()
        for one in tasks.iterdir()
        if int(one.name) != os.getpid()
    }


def _tell(*numbers: int) -> None:
    sys.stdout.write(" ".join(map(str, numbers)) + "\n")
    sys.stdout.flush()


def _reap(pids: set[int]) -> None:
    """Reports all processes that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        pids.discard(pid)
        _tell(pid, os.waitstatus_to_exitcode(status))


def main() -> None:
    """Forks a pod for each line of the input."""
    import qss_store.__main__  # noqa: F401 what all pods have in common.

    assert _threads() <= _FORKABLE, "other threads would be lost in the forks"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    lines = b""
    pids: set[int] = set()
    with selectors.DefaultSelector() as selector:
        for file in (0, woken):
            selector.register(file, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, 4096)
                _reap(pids)
            if 0 in ready:
                read = os.read(0, 65536)
                if not read:
                    break
                *whole, lines = (lines + read).split(b"\n")
                for line in whole:
                    pid = _fork(json.loads(line))
                    pids.add(pid)
                    _tell(pid)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
