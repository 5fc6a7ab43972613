"""A file of a database that a learner copies; threads write it."""

import os
from io import BufferedIOBase, FileIO
from pathlib import Path
from threading import Lock

from qss_core.errors import DiskFullError, StoreError
from qss_core.quantities import shown_bytes
from qss_store.replicas.volume.volume_watch import RESERVE_BYTES
from qss_store.replication.frames import read_frames
from qss_store.storage.database_files import translated_os_error


class CopiedFile:
    """A new file, which grows by whole frames.

    A copy that is cancelled does not know whether a thread still opens the file: a closed file
    stays closed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._is_closed = False
        self._used = Lock()
        self.size = 0  # Bytes that were written.

    def open(self) -> None:
        """Makes the file, unless it was closed before. Raises OSError."""
        with self._used:
            if not self._is_closed:
                self._file = self._path.open("wb", buffering=0)

    def take(self, source: BufferedIOBase) -> None:
        """Writes the frames of a source, each once it is whole.

        Raises CorruptionError for a damaged frame, DiskFullError before a write into the bytes that
        the pod keeps back, and the StoreError of a volume's error.
        """
        with self._used:
            read_frames(source, self._write)

    def _write(self, data: memoryview) -> None:
        left, at = data, self.size
        volume = os.fstatvfs(self._number())
        free = volume.f_bavail * volume.f_frsize
        if free < RESERVE_BYTES + len(data):
            raise DiskFullError(
                f"the volume has {shown_bytes(free)} free, and {shown_bytes(RESERVE_BYTES)} are "
                "kept back: the copy has no more room"
            )
        while left:
            try:
                written = os.pwrite(self._number(), left, at)
            except OSError as error:
                raise translated_os_error(error) from error
            left, at = left[written:], at + written
        self.size = at

    def end(self) -> None:
        """Makes the bytes durable, and closes the file. Raises OSError."""
        try:
            os.fsync(self._number())
        finally:
            self.close()

    def close(self) -> None:
        """Closes the file once nothing writes it; a closed file stays closed."""
        with self._used:
            self._is_closed = True
            if self._file is not None:
                self._file.close()

    def _number(self) -> int:
        if self._file is None:
            raise StoreError(f"the copied file {self._path.name} is not open")
        return self._file.fileno()
