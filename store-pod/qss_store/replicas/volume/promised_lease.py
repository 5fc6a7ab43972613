"""Keeps the longest lease that a pod promised, so that a pod which restarts waits as long."""

import logging
from pathlib import Path

from qss_core.errors import DiskFullError
from qss_store.replicas.volume.kept_files import replace_file
from qss_store.replication.lease import MARGIN

_LOG = logging.getLogger(__name__)
_NAME = "promised-lease-ms"


class PromisedLease:
    """The longest lease that a pod has promised to an active and that may not have run out yet.

    The lease of the settings does not tell it: an active that is cut off from the operator goes on
    with the settings before them.
    """

    def __init__(self, directory: Path) -> None:
        """Reads no file before it is asked for a lease."""
        self._path = directory / _NAME
        self._kept_ms: int | None = None  # None before the file was read.
        self._runs_out_s: float | None = None  # The last promise of the kept lease.

    def at_start_s(self, lease_s: float, now_s: float) -> float:
        """The lease that an earlier process may have promised, at least that of the settings."""
        kept_s = self._read() / 1000
        if self._runs_out_s is None:
            self._runs_out_s = now_s + kept_s * MARGIN
        return max(kept_s, lease_s)

    def promise(self, lease_s: float, now_s: float) -> None:
        """Keeps a longer lease before it is promised, and a shorter one once that ran out.

        Raises DiskFullError.
        """
        lease_ms, kept_ms = round(lease_s * 1000), self._read()
        is_over = self._runs_out_s is not None and now_s >= self._runs_out_s
        if lease_ms > kept_ms or (lease_ms < kept_ms and is_over):
            self._keep(lease_ms)
        if lease_ms >= kept_ms or is_over:
            self._runs_out_s = now_s + lease_s * MARGIN

    def _read(self) -> int:
        if self._kept_ms is None:
            try:
                self._kept_ms = int(self._path.read_bytes())
            except FileNotFoundError:
                self._kept_ms = 0
            except (OSError, ValueError) as error:
                _LOG.warning("%s cannot be read and is ignored: %s", _NAME, error)
                self._kept_ms = 0
        return self._kept_ms

    def _keep(self, lease_ms: int) -> None:
        try:
            replace_file(self._path, str(lease_ms).encode())
        except OSError as error:
            raise DiskFullError(f"a lease cannot be kept on the volume: {error}") from error
        self._kept_ms = lease_ms
