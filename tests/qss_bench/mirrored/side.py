"""The query, the mirror and the pods of a measurement, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until

START_S, BATCH_S = 120.0, 120.0
PODS = 3
_NAME = "words"
_STORE = f"""
apiVersion: queryablestate.dev/v1alpha1
kind: QueryableStateStore
metadata: {{name: {_NAME}}}
spec:
  store: {{type: KeyValue, key: {{serde: string}}, value: {{serde: json}}}}
  partitions: 4
  replicas: {PODS}
  standbys: 1
  rebalance: {{leaseDuration: 1s, failoverAfter: 2s, replicaTimeout: 2s}}
  access: {{authentication: None}}
"""
_TICKS = os.sysconf("SC_CLK_TCK")


class Program:
    """A process and its children; what it prints is kept by lines."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Starts Python with `-m` and these arguments."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """The processor time of the process and of all its living children, in seconds."""
        left, total = [self._process.pid], 0
        while left:
            pid = left.pop()
            with suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                total += sum(map(int, fields[11:15]))
                for task in Path(f"/proc/{pid}/task").iterdir():
                    left += map(int, (task / "children").read_text().split())
        return total / _TICKS

    def wait_for(self, text: str, limit_s: float) -> None:
        """Waits until a line has the text."""
        wait_until(lambda: any(text in one for one in list(self.lines)), limit_s)

    def kill(self) -> None:
        """Kills the process and its children, and waits for the end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reading.join(10.0)


class Input:
    """A directory of batches: each is a file, and `keys` keys of three times as many."""

    def __init__(self, directory: Path, keys: int) -> None:
        """Makes the directory, which is empty at first."""
        directory.mkdir()
        self.path, self._keys, self._next = directory, keys, 0

    def put(self) -> int:
        """Writes the next batch; returns its number."""
        number, self._next = self._next, self._next + 1
        rows = (
            {"k": f"k{(number * self._keys + place) % (3 * self._keys)}", "n": place}
            for place in range(self._keys)
        )
        draft = self.path / f".{number}"
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(draft, (1_000_000 + number, 1_000_000 + number))
        draft.replace(self.path / f"{number:06d}.json")
        return number


class Side:
    """A query over an input, and a mirror of its state in a store."""

    def __init__(self, directory: Path, keys: int) -> None:
        """Makes the input; `query` and `mirror` start programs."""
        self.input = Input(directory / "in", keys)
        self.checkpoint = directory / "checkpoint"

    def query(self) -> Program:
        """Starts the query as a program of its own."""
        return Program(["qss_bench.mirrored.query", str(self.input.path), str(self.checkpoint)])

    def mirror(self, place: Sequence[str], *options: str) -> Program:
        """Starts `qss mirror` into the store of a place: its options `--store`, and where it is."""
        return Program(["qss_client", "mirror", str(self.checkpoint), *place, *options])

    def committed(self, number: int) -> Path:
        """The file with which Spark commits a batch."""
        return self.checkpoint / "commits" / str(number)

    def wait(self, number: int) -> float:
        """Waits for the commit of a batch; its time in seconds since 1970."""
        file = self.committed(number)
        wait_until(file.exists, BATCH_S)
        return file.stat().st_mtime_ns / 1e9

    def has_read(self, batches: int) -> bool:
        """Whether the query has committed all of its input: a killed one may join two files."""
        newest = self.newest()
        if newest < 0:
            return False
        text = (self.checkpoint / "offsets" / str(newest)).read_text()
        return int(json.loads(text.splitlines()[-1])["logOffset"]) >= batches - 1

    def newest(self) -> int:
        """The newest committed batch; -1 before the first."""
        with suppress(OSError):
            names = (one.name for one in (self.checkpoint / "commits").iterdir())
            return max((int(one) for one in names if one.isdigit()), default=-1)
        return -1


def tell(text: str) -> None:
    """Writes a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def pods(directory: Path) -> Iterator[list[str]]:
    """A store of strings and JSON on two pods, with standbys: the options that find it."""
    with PodCluster(directory, pods=2, standbys=1, partitions=4) as cluster:
        yield ["--store", cluster.store, "--url", ",".join(one.query for one in cluster.pods)]


class LocalStore:
    """A store of `qss up`, which starts killed pods again and moves their actives."""

    def __init__(self, directory: Path) -> None:
        """Starts three pods with standbys, and waits until all is served."""
        self._state = directory / "state"
        file = directory / "store.yaml"
        file.write_text(_STORE)
        self._qss("up", str(file), "--detach")

    @property
    def place(self) -> list[str]:
        """The options that find the store."""
        return ["--store", _NAME, "--state-dir", str(self._state)]

    def kill_pod(self, ordinal: int) -> None:
        """Kills one pod; nothing happens while it does not run."""
        file = self._state / _NAME / f"pod-{ordinal}" / "process.yaml"
        pid = int(yaml.safe_load(file.read_text())["pid"])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Ends the pods, and keeps their data."""
        self._qss("down")

    def _qss(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "qss_client", *arguments, "--state-dir", str(self._state)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
