"""Small disks: an ext4 file system in a file for each pod, mounted from a loop device.

A disk is filled by a file that takes its free space. Writes to a disk hang while its file system is
frozen (the ioctl FIFREEZE, as `fsfreeze`): writers and syncs wait, and reads go on. Frozen again
and again it is a slow disk.
"""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_FREEZE, _THAW = 0xC0045877, 0xC0045878
_BYTES = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Volume:
    """The mounted disk of one pod."""

    path: Path

    @property
    def data(self) -> Path:
        """The pod's data directory; the root of the file system has files of its own."""
        return self.path / "data"

    def fill(self, leave_bytes: int) -> int:
        """Takes the free space but for `leave_bytes`; returns the bytes that it took."""
        volume = os.statvfs(self.path)
        size = max(0, volume.f_bavail * volume.f_frsize - leave_bytes)
        file = os.open(self.path / "ballast", os.O_CREAT | os.O_WRONLY)
        try:
            os.posix_fallocate(file, 0, max(1, size))
        finally:
            os.close(file)
        return size

    def make_room(self) -> None:
        """Deletes the file of `fill`."""
        (self.path / "ballast").unlink(missing_ok=True)

    def freeze(self) -> None:
        """Has all writes wait, until `thaw`."""
        self._control(_FREEZE)

    def thaw(self) -> None:
        """Ends a freeze; without one it does nothing."""
        with suppress(OSError):
            self._control(_THAW)

    def _control(self, number: int) -> None:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, number, 0)
        finally:
            os.close(descriptor)


@contextmanager
def mounted(directory: Path, count: int) -> Iterator[list[Volume]]:
    """Disks for some pods, inside the context and this process's own namespaces."""
    volumes = [Volume(directory / f"volume-{number}") for number in range(count)]
    try:
        for volume in volumes:
            image = volume.path.with_suffix(".ext4")
            volume.path.mkdir()
            with image.open("wb") as file:
                file.truncate(_BYTES)
            _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", str(image))
            _run("mount", "-o", "loop,noatime", str(image), str(volume.path))
            volume.data.mkdir()
        yield volumes
    finally:
        for volume in volumes:
            volume.thaw()
            _run("umount", str(volume.path), check=False)


@contextmanager
def directories(directory: Path, count: int) -> Iterator[list[Volume]]:
    """Plain directories instead of disks."""
    volumes = [Volume(directory / f"volume-{number}") for number in range(count)]
    for volume in volumes:
        volume.data.mkdir(parents=True)
    yield volumes


def _run(*command: str, check: bool = True) -> None:
    subprocess.run(command, capture_output=True, check=check)
