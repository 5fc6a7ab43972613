"""Starts this command again in namespaces of its own, for its links and its mounts.

They vanish with the last of their processes, however the command ends, and nothing outside sees
them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_MARK = "QSS_FAULTS_INSIDE"
_NAMES = Path("/run/netns")  # Where `ip netns` keeps its names.
_UNSHARE = ("unshare", "--mount", "--net", "--propagation", "private")
_PROGRAMS = ("unshare", "nsenter", "ip", "mkfs.ext4", "mount", "umount", "setpriv")


def is_inside() -> bool:
    """Whether this process has namespaces of its own."""
    return os.environ.get(_MARK) == str(os.getpid())


def why_no_namespaces() -> str | None:
    """The reason why this process can have no namespaces; None if it can."""
    if os.geteuid() != 0:
        return "this user is not root"
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"{', '.join(missing)} is not installed"
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else None


def enter(module: str) -> None:
    """Runs a module with this command's arguments in new namespaces; returns only inside them."""
    if not is_inside():
        command = [*_UNSHARE, sys.executable, "-m", module, *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, _MARK: str(os.getpid())})
    _NAMES.mkdir(exist_ok=True)
    for line in (("mount", "-t", "tmpfs", "none", str(_NAMES)), ("ip", "link", "set", "lo", "up")):
        subprocess.run(line, check=True)
