"""Keeps the longest lease that a pod promised, so that a pod which restarts waits as long."""

import logging
from pathlib import Path

from qss_core.errors import DiskFullError
from qss_store.replicas.volume.kept_files import replace_file
from qss_store.replication.lease import MARGIN

_LOG = logging.getLogger(__name__)
_NAME = "promised-lease-ms"
_AGAIN_S = 5.0


class PromisedLease:
    """The longest lease that a pod has promised to an active and that may not have run out yet.

    The lease of the settings does not tell it: an active that is cut off from the operator goes on
    with the settings before them.
    """

    def __init__(self, directory: Path) -> None:
        """Reads no file before it is asked for a lease."""
        self._path = directory / _NAME
        self._kept_ms: int | None = None  # On the volume; None before it was read.
        self._known_ms = 0  # The settings on the volume say as much.
        self._until_s: dict[int, float] = {}  # By lease: until when its last promise holds.
        self._again_s = float("-inf")

    def at_start_s(self, lease_s: float, now_s: float) -> float:
        """The lease that an earlier process may have promised, at least that of the settings."""
        if self._kept_ms is None:
            self._kept_ms, self._known_ms = self._read(), round(lease_s * 1000)
            self._until_s[self._kept_ms] = now_s + self._kept_ms / 1000 * MARGIN
        return max(self._kept_ms / 1000, lease_s)

    def promise(self, lease_s: float, now_s: float) -> None:
        """Keeps a lease before it is promised; a shorter one once the longer ones ran out.

        Raises DiskFullError where a process that starts would not wait as long.
        """
        lease_ms, kept_ms = round(lease_s * 1000), self._kept_ms or 0
        until_s = {one: until for one, until in self._until_s.items() if until > now_s}
        until_s[lease_ms] = now_s + lease_s * MARGIN
        longest_ms = max(until_s)
        is_new = longest_ms > max(kept_ms, self._known_ms)
        if longest_ms != kept_ms and (is_new or now_s >= self._again_s):
            try:
                replace_file(self._path, str(longest_ms).encode())
                self._kept_ms = longest_ms
            except OSError as error:
                if is_new:
                    raise DiskFullError(f"a lease cannot be kept on the volume: {error}") from error
                self._again_s = now_s + _AGAIN_S
                _LOG.debug("a lease is kept on the volume later: %s", error)
        self._until_s = until_s

    def _read(self) -> int:
        try:
            return int(self._path.read_bytes())
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as error:
            _LOG.warning("%s cannot be read and is ignored: %s", _NAME, error)
            return 0
