"""Identifies processes of this machine: a pid may be used again for another process.

So a process is identified by its pid and its start time.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

IS_LINUX = sys.platform == "linux"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process; `started` differs between processes with the same pid."""

    pid: int
    started: str


def identify(pid: int) -> ProcessId | None:
    """The process with a pid; None if there is none, or it is a zombie."""
    if not IS_LINUX:
        return _identify_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    # The name, in parentheses, may contain anything; the fields after it are split by spaces.
    fields = stat.rpartition(")")[2].split()
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else ProcessId(pid=pid, started=f"{boot}:{start_ticks}")


def is_alive(process: ProcessId) -> bool:
    """Whether this very process still runs."""
    return identify(process.pid) == process


def _identify_by_ps(pid: int) -> ProcessId | None:
    answer = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    started = answer.stdout.strip()
    return ProcessId(pid=pid, started=started) if started else None
