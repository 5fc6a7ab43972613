"""Redis and PostgreSQL as Debian has them, child processes in a directory of their own."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qss_bench.peers.kafka import is_open
from qss_bench.peers.needs import path_of
from qss_testing.pods.ports import free_ports
from qss_testing.waiting import wait_until

_START_S = 60.0
_NOBODY = 65534


@contextmanager
def redis_server(directory: Path, *options: str) -> Iterator[tuple[int, int]]:
    """A Redis with its own defaults, but for the options; its port and its process id."""
    directory.mkdir(parents=True)
    port = free_ports(1)[0]
    command = [path_of("redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    with (directory / "redis.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--dir", str(directory), *options], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: is_open(port), _START_S)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def postgres_server(directory: Path) -> Iterator[str]:
    """A PostgreSQL with its own defaults, so with fsync; how to connect to it.

    PostgreSQL refuses to run as root: then its processes and its files are of another user.
    """
    directory.mkdir(parents=True)
    port = free_ports(1)[0]
    data = directory / "data"
    data.mkdir(mode=0o700)
    user = _other_user(directory, data)
    make = ["-D", str(data), "--username=bench", "--auth=trust", "--encoding=UTF8", "--locale=C"]
    with (directory / "postgres.log").open("wb") as log:
        subprocess.run(
            [*user, path_of("initdb"), *make], check=True, stdout=log, stderr=log, cwd=directory
        )
        listen = ["-p", str(port), "-c", "listen_addresses=127.0.0.1"]
        process = subprocess.Popen(
            [*user, path_of("postgres"), "-D", str(data), *listen, "-k", str(data)],
            stdout=log,
            stderr=log,
            cwd=directory,
        )
    try:
        wait_until(lambda: is_open(port), _START_S)
        yield f"host=127.0.0.1 port={port} user=bench dbname=postgres"
    finally:
        process.send_signal(signal.SIGINT)  # It ends its sessions and its children.
        process.wait()


def _other_user(*directories: Path) -> list[str]:
    """The beginning of a command as an unprivileged user, to whom the directories then belong."""
    if os.geteuid():
        return []
    for one in directories:
        shutil.chown(one, _NOBODY, _NOBODY)
    _open_way(directories[0])
    identity = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return [path_of("setpriv"), *identity]


def _open_way(directory: Path) -> None:
    """Lets other users pass the temporary directories on the way; they cannot list them."""
    for one in directory.parents:
        if one.stat().st_uid == os.geteuid() and not one.stat().st_mode & 0o001:
            one.chmod(one.stat().st_mode | 0o001)
