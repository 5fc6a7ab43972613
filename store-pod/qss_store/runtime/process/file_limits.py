"""How many files and connections this process may have open.

A database that cannot open a file stops its partition, and a listener that cannot take a connection
leaves a client without an answer: so connections get a share that leaves the rest to databases.
"""

import resource

_WANTED = 65_536
_SHARE_OF_A_LISTENER = 6  # Of three; the other half is for databases and for peers.


def raise_open_files() -> int:
    """Lets the process open as many as the system allows it; how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return _WANTED if soft == resource.RLIM_INFINITY else soft


def connections_within(wanted: int, open_files: int) -> int:
    """How many connections a listener takes."""
    return min(wanted, max(1, open_files // _SHARE_OF_A_LISTENER))
