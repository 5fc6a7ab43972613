"""The state directory: its layout, and the lock of the `qss up` that runs it.

lock                     held by the running `qss up`; it has its process and its stores
edit.lock                held by a command while it changes stored resources
up.log                   the output of a detached `qss up`
<store>/resource.yaml    the stored resource, with uid and generation
<store>/status.yaml      the published status
<store>/status.reserve   room for the next status on a full disk
<store>/renewed          its time says when a round last found that the status holds
<store>/ports.yaml       the ports of each pod, chosen once
<store>/pod-<n>/         data, log and process of one pod
"""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from qss_client.processes import ProcessId, identify, is_alive
from qss_core.model import Ordinal, StoreName
from qss_operator.errors import AlreadyRunningError, StateDirectoryError
from qss_operator.local.directory.files import (
    how_to_mend,
    make_directory,
    overwrite,
    overwrite_yaml,
    read_yaml,
    unwritable,
    write_yaml,
    write_yaml_with_reserve,
)
from qss_operator.local.directory.misplaced import way_back
from qss_operator.local.directory.ports import PodPorts
from qss_operator.local.processes import is_suspended
from qss_operator.planning.model import StoreStatus
from qss_operator.resources.status_document import encode_status, without_roles

_LOG = logging.getLogger(__name__)
DEFAULT_STATE = Path(".qss")
FileVersion = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock of a state directory, while this process holds it."""

    file: Path
    inode: int

    def is_there(self) -> bool:
        """Whether the lock file still exists: the directory may have been deleted or made again."""
        try:
            return self.file.stat().st_ino == self.inode
        except OSError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """The content of the lock file: a process, and the stores that it runs."""

    pid: int
    started: str
    stores: tuple[StoreName, ...] = ()


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The files of one local cluster."""

    path: Path

    @property
    def up_log(self) -> Path:
        """The output of a detached `qss up`."""
        return self.path / "up.log"

    def stores(self) -> list[StoreName]:
        """All stores that were ever started here."""
        return sorted(StoreName(file.parent.name) for file in self.path.glob("*/resource.yaml"))

    def pod_directory(self, store: StoreName, ordinal: Ordinal) -> Path:
        return self.path / store / f"pod-{ordinal}"

    def data_directory(self, store: StoreName, ordinal: Ordinal) -> Path:
        return self.pod_directory(store, ordinal) / "data"

    def process_file(self, store: StoreName, ordinal: Ordinal) -> Path:
        return self.pod_directory(store, ordinal) / "process.yaml"

    def log_file(self, store: StoreName, ordinal: Ordinal) -> Path:
        return self.pod_directory(store, ordinal) / "log"

    @property
    def option(self) -> str:
        """The option with which commands find this directory."""
        return "" if self.path == DEFAULT_STATE else f" --state-dir {self.path}"

    # --- Resources.

    def resource_file(self, store: StoreName) -> Path:
        return self.path / store / "resource.yaml"

    def read_resource(self, store: StoreName) -> dict[str, Any] | None:
        """The stored resource. Raises StateDirectoryError where it is of another store."""
        resource: dict[str, Any] | None = read_yaml(self.resource_file(store))
        metadata = resource.get("metadata") if isinstance(resource, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if name not in (None, store):
            raise StateDirectoryError(
                way_back(self.path, store) or f"{self.resource_file(store)} is of store {name}"
            )
        return resource

    def write_resource(self, store: StoreName, resource: dict[str, Any]) -> None:
        make_directory(self.path / store)
        write_yaml(self.resource_file(store), resource)

    def read_status(self, store: StoreName) -> StoreStatus | None:
        """The published status; None before the first."""
        status: StoreStatus | None = self._read(
            self.path / store / "status.yaml", StoreStatus, without_roles
        )
        return status

    def resource_version(self, store: StoreName) -> FileVersion | None:
        """A value that changes with the stored resource, found without reading it."""
        return version_of(self.resource_file(store))

    def status_version(self, store: StoreName) -> FileVersion | None:
        """A value that changes with each published status, found without reading it."""
        return version_of(self.path / store / "status.yaml")

    def mark_renewed(self, store: StoreName) -> None:
        """Record that the published status holds now. A failure shows as an old status."""
        with suppress(OSError):
            self._renewed(store).touch()

    def renewed_at(self, store: StoreName) -> datetime | None:
        """The time when the published status was last known to hold; None if no time is known."""
        try:
            return datetime.fromtimestamp(self._renewed(store).stat().st_mtime, UTC)
        except OSError:
            return None

    def _renewed(self, store: StoreName) -> Path:
        return self.path / store / "renewed"

    def write_status(self, store: StoreName, status: StoreStatus) -> None:
        """Replaces the status, also on a full disk: readers have to find the running pods."""
        write_yaml_with_reserve(self.path / store / "status.yaml", encode_status(status))

    # --- Pods.

    def read_ports(self, store: StoreName) -> tuple[PodPorts, ...]:
        """The recorded ports of each pod."""
        return self._read(self.path / store / "ports.yaml", tuple[PodPorts, ...]) or ()

    def write_ports(self, store: StoreName, ports: tuple[PodPorts, ...]) -> None:
        write_yaml(self.path / store / "ports.yaml", msgspec.to_builtins(ports))

    def write_process(self, store: StoreName, ordinal: Ordinal, process: ProcessId) -> None:
        """Record the process of a pod, so that it can be found when its parent has ended.

        On a full disk it is written over the last process of the pod.
        """
        file = self.process_file(store, ordinal)
        try:
            write_yaml(file, msgspec.to_builtins(process), fills_block=True)
        except StateDirectoryError:
            if not file.exists():
                raise
            overwrite_yaml(file, msgspec.to_builtins(process))

    def process(self, store: StoreName, ordinal: Ordinal) -> ProcessId | None:
        """The recorded process of a pod, running or not."""
        process: ProcessId | None = self._read(self.process_file(store, ordinal), ProcessId)
        return process

    def processes(self) -> list[ProcessId]:
        """The recorded processes of pods, running or not; a damaged record is only logged."""
        found = []
        for file in sorted(self.path.glob("*/pod-*/process.yaml")):
            try:
                process: ProcessId | None = self._read(file, ProcessId)
            except StateDirectoryError:
                _LOG.warning(
                    "%s is damaged, so a process that was left there cannot be found and ended; "
                    "the next start of the pod writes the file anew",
                    file,
                )
            else:
                found += [process] if process else []
        return found

    # --- The lock.

    @contextmanager
    def lock(self) -> Iterator["HeldLock"]:
        """Take the lock of the directory; raises AlreadyRunningError.

        The system releases the lock when the process ends in any way.
        """
        make_directory(self.path)
        with self._open_lock() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise self._already_running(self.holder()) from error
            _clear(file.fileno())
            try:
                yield HeldLock(self.path / "lock", os.fstat(file.fileno()).st_ino)
            finally:
                _clear(file.fileno())

    def _open_lock(self) -> IO[bytes]:
        try:
            return os.fdopen(os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        except OSError as error:
            raise StateDirectoryError(
                f"{self.path / 'lock'} cannot be opened: {error.strerror}: let this user write "
                f"{self.path}, or choose another --state-dir"
            ) from error

    def check_nobody_runs(self) -> None:
        """Raises AlreadyRunningError if a `qss up` has begun here; leaves the lock alone."""
        if holder := self.holder():
            raise self._already_running(holder)

    def _already_running(self, holder: ProcessId | None) -> AlreadyRunningError:
        who = f"process {holder.pid}" if holder else "another process"
        suspended = ""
        if holder and is_suspended(holder):
            suspended = f" (it is suspended, and `kill -CONT {holder.pid}` resumes it)"
        return AlreadyRunningError(
            f"{who} runs the stores in {self.path}{suspended}: `qss status` shows them, `qss apply "
            "FILE` takes over a changed file, `qss down` stops them, and --state-dir chooses "
            "another directory"
        )

    def write_holder(self, stores: Sequence[StoreName] = ()) -> None:
        """Record this process in the lock file, once the status files are from this run."""
        process = identify(os.getpid())
        assert process is not None, "this process runs"
        holder = _Holder(pid=process.pid, started=process.started, stores=tuple(stores))
        file = self.path / "lock"
        try:
            with file.open("r+b") as opened:
                overwrite(opened.fileno(), msgspec.json.encode(holder))
        except OSError as error:
            raise unwritable(file, error) from error

    def holder(self) -> ProcessId | None:
        """The process of the running `qss up`, after it has begun."""
        process = self._read_lock(ProcessId)
        return process if process is not None and is_alive(process) else None

    def running(self) -> tuple[StoreName, ...]:
        """The stores of the running `qss up`; none where nothing runs."""
        holder: _Holder | None = self._read_lock(_Holder)
        if holder is None or not is_alive(ProcessId(pid=holder.pid, started=holder.started)):
            return ()
        return holder.stores

    def _read_lock(self, kind: Any) -> Any:
        """The content of the lock file; None also for a damaged one that nobody holds."""
        file = self.path / "lock"
        try:
            return self._read(file, kind)
        except StateDirectoryError:
            if not file.is_file() or _is_held(file):
                raise
            return None

    def _read(
        self, file: Path, kind: Any, prepare: Callable[[Any], Any] = lambda content: content
    ) -> Any:
        content = read_yaml(file)
        if content is None:
            return None
        try:
            return msgspec.convert(prepare(content), kind)
        except msgspec.ValidationError as error:
            raise StateDirectoryError(f"{file} is damaged: {error}. {how_to_mend(file)}") from error


def _clear(lock: int) -> None:
    """Empties a lock; on a full disk a lock without a block stays without one."""
    try:
        overwrite(lock, b"")
    except OSError:
        os.ftruncate(lock, 0)


def _is_held(lock: Path) -> bool:
    """Whether a process holds the lock."""
    with suppress(OSError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def version_of(file: Path) -> FileVersion | None:
    """A value that changes with each replacement of a file; None where it cannot be found."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
