"""The lock of a command that changes stored resources, so that two commands lose no change."""

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO

from qss_operator.errors import StateDirectoryError
from qss_operator.local.directory.state import StateDirectory

_WAIT_S = 10.0
_POLL_S = 0.02


@asynccontextmanager
async def editing(state: StateDirectory, wait_s: float = _WAIT_S) -> AsyncIterator[None]:
    """Lets one process at a time read and then replace the resources of a state directory.

    Raises StateDirectoryError if another process holds the lock for too long. The system releases
    the lock when the process ends in any way.
    """
    file_name = state.path / "edit.lock"
    try:
        file = file_name.open("a", encoding="utf-8")
    except OSError as error:
        raise StateDirectoryError(f"{file_name} cannot be opened: {error.strerror}") from error
    with file:
        deadline_s = asyncio.get_running_loop().time() + wait_s
        while not _is_taken(file):
            if asyncio.get_running_loop().time() >= deadline_s:
                raise StateDirectoryError(
                    f"another command has been changing the stores of {state.path} for {wait_s:g} "
                    f"s: end it, or try again (it holds {file_name})"
                )
            await asyncio.sleep(_POLL_S)
        yield


def _is_taken(file: IO[str]) -> bool:
    """Whether this process has the lock now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
