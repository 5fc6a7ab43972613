"""The peer of reads: a broker and an app of Kafka Streams, built and run from `kafka-streams/`."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from qss_bench.peers.needs import path_of
from qss_testing.pods.ports import free_ports
from qss_testing.waiting import wait_until

PROJECT = Path(__file__).parent / "kafka-streams"
SCRIPTS = PROJECT / "scripts"
PARTITIONS = 4
_START_S, _INGEST_S = 120.0, 600.0
_DONE = re.compile(r"INGEST done rows=\d+ all_rows_per_s=(\d+)")


def build() -> None:
    """Builds the app with Maven, unless it was built before."""
    if not (PROJECT / "target" / "lib").is_dir():
        subprocess.run([path_of("mvn"), "-q", "-B", "package"], cwd=PROJECT, check=True)


class Peer:
    """The app: a KTable of the topic `in`, written exactly once, and its queries over HTTP."""

    def __init__(self, directory: Path, environment: Mapping[str, str], core: int) -> None:
        """Starts nothing: the topic has to be filled first."""
        self._log = directory / "app.log"
        self._environment = {
            **environment,
            "APP_CPU": str(core),
            "APP_ID": "peer",
            "GUARANTEE": "exactly_once_v2",
            # Without a static member each restart waits 45 s for the end of the old session.
            "GROUP_INSTANCE_ID": "pod-0",
            "STATE_DIR": str(directory / "state"),
        }
        self.url = f"http://{environment['HTTP']}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process of the app."""
        assert self.process is not None
        return self.process.pid

    def start(self, rows: int = 0) -> None:
        """Starts the app; with `rows` it tells when it has read so many."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [SCRIPTS / "app.sh"],
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment, "EXPECT_ROWS": str(rows)},
            )

    def ingested(self) -> float:
        """Waits until all rows were read; the rows a second from the first to the last one."""
        found = wait_until(lambda: _DONE.search(self._log.read_text(errors="replace")), _INGEST_S)
        return float(found[1])

    def kill(self) -> None:
        """Kills the app with SIGKILL, and waits for its end."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def peer(directory: Path, rows: int, core: int, load_core: int) -> Iterator[Peer]:
    """The app over a topic with the rows; the broker shares the core of the load."""
    directory.mkdir(parents=True)
    kafka, controller, http = free_ports(3)
    environment = {
        "DATA": str(directory),
        "BOOTSTRAP": f"127.0.0.1:{kafka}",
        "CONTROLLER_PORT": str(controller),
        "HTTP": f"127.0.0.1:{http}",
    }
    told = {**os.environ, **environment}
    with (directory / "broker.log").open("wb") as log:
        broker = subprocess.Popen([SCRIPTS / "broker.sh"], stdout=log, stderr=log, env=told)
    app = Peer(directory, environment, core)
    try:
        wait_until(lambda: is_open(kafka), _START_S)
        fill = [str(SCRIPTS / "load.sh"), "in", str(PARTITIONS), "0", str(rows), "1"]
        subprocess.run(fill, env=told, check=True, stdout=subprocess.DEVNULL)
        pin(broker.pid, load_core)
        yield app
    finally:
        app.kill()
        broker.kill()
        broker.wait()


def pin(pid: int, core: int) -> None:
    """Moves a process and its threads to one core."""
    command = [path_of("taskset"), "-apc", str(core), str(pid)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def is_open(port: int) -> bool:
    """Whether a server listens on a port of the loopback."""
    with socket.socket() as made:
        return made.connect_ex(("127.0.0.1", port)) == 0
