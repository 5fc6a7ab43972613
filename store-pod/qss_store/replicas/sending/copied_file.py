"""A file of a database that a learner copies; threads write it."""

import os
from io import BufferedIOBase
from pathlib import Path
from threading import Lock

from qss_store.replication.frames import read_frames
from qss_store.storage.database_files import translated_os_error


class CopiedFile:
    """A new file, which grows by whole frames."""

    def __init__(self, path: Path) -> None:
        """Makes the file. Raises OSError."""
        self._file = path.open("wb", buffering=0)
        self._used = Lock()
        self.size = 0  # Bytes that were written.

    def take(self, source: BufferedIOBase) -> None:
        """Writes the frames of a source, each once it is whole.

        Raises CorruptionError for a damaged frame, and the StoreError of a volume's error.
        """
        with self._used:
            read_frames(source, self._write)

    def _write(self, data: memoryview) -> None:
        left, at = data, self.size
        while left:
            try:
                written = os.pwrite(self._file.fileno(), left, at)
            except OSError as error:
                raise translated_os_error(error) from error
            left, at = left[written:], at + written
        self.size = at

    def end(self) -> None:
        """Makes the bytes durable, and closes the file. Raises OSError."""
        try:
            os.fsync(self._file.fileno())
        finally:
            self.close()

    def close(self) -> None:
        """Closes the file once nothing writes it."""
        with self._used:
            self._file.close()
