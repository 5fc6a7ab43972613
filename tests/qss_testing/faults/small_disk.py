"""A small volume for real pods: a tmpfs in a user and mount namespace.

A process holds the namespace, so that the volume outlives the pods that run in it.
"""

import errno
import os
import subprocess
from pathlib import Path
from typing import Self

_MOUNT = 'mount -t tmpfs -o "size=$1" none "$2" && echo mounted && exec cat'
_REFUSED = (
    "a user of this machine may not mount a tmpfs in namespaces of his own, which this test needs "
    "(unshare -Urm). Allow it, e.g. by sysctl kernel.apparmor_restrict_unprivileged_userns=0 and "
    "kernel.unprivileged_userns_clone=1, or run the tests as root. It said: "
)


class SmallDisk:
    """A volume of a given size at a path, visible only to processes started with `command`."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._holder = subprocess.Popen(
            ["unshare", "-Urm", "sh", "-c", _MOUNT, "sh", str(size_bytes), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._holder.stdout is not None
        said = self._holder.stdout.readline().decode()
        if said != "mounted\n":
            self._end()
            raise AssertionError(_REFUSED + said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for pipe in (self._holder.stdin, self._holder.stdout):
            assert pipe is not None
            pipe.close()
        self._holder.wait(timeout=20)

    def remove(self, file: Path) -> None:
        """Deletes a file of the volume."""
        (self._seen_from_here / file.relative_to(self._path)).unlink()

    @property
    def command(self) -> tuple[str, ...]:
        """The prefix that starts a process which sees the volume."""
        target = f"--target={self._holder.pid}"
        return ("nsenter", target, "--user", "--mount", "--preserve-credentials")

    @property
    def _seen_from_here(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self._path}")

    @property
    def free_bytes(self) -> int:
        volume = os.statvfs(self._seen_from_here)
        return volume.f_bavail * volume.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Fills the volume up to `leave_bytes`, or less where pods write meanwhile."""
        file = os.open(self._ballast, os.O_CREAT | os.O_WRONLY)
        try:
            while True:
                size = self.free_bytes - leave_bytes
                assert size > 0, f"only {self.free_bytes} bytes are free"
                try:
                    os.posix_fallocate(file, os.fstat(file).st_size, size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise  # Otherwise a pod took a part of the room since it was measured.
                else:
                    return
        finally:
            os.close(file)

    def make_room(self) -> None:
        """Deletes the file of `fill`."""
        self._ballast.unlink()

    @property
    def _ballast(self) -> Path:
        return self._seen_from_here / "ballast"
