"""The limits of open files and connections of this process.

A database that cannot open a file stops its partition; a listener that cannot accept leaves a
client without an answer. So connections get a share, and the rest is for databases.
"""

import resource

_WANTED = 65_536
_SHARE_OF_A_LISTENER = 6  # A sixth for each of three listeners; half is for databases and peers.


def raise_open_files() -> int:
    """Raises the process's limit of open files as far as the system allows; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return _WANTED if soft == resource.RLIM_INFINITY else soft


def connections_within(wanted: int, open_files: int) -> int:
    """The number of connections that a listener accepts."""
    return min(wanted, max(1, open_files // _SHARE_OF_A_LISTENER))
