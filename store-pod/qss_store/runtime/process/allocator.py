"""How the C library's allocator is to keep memory: large pieces go back when they are freed.

By itself glibc takes ever larger pieces (up to 32 MiB) from arenas that it does not give back, and
has up to eight arenas a core: answers of megabytes left the pod with several times their bytes.
Smaller pieces stay with the allocator: the system hands out each page of a large piece anew, which
cost a fifth of the ingest where pieces from 256 KiB on were given back.
"""

import ctypes
import logging

_LOG = logging.getLogger(__name__)
# Of malloc.h.
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
_ARENAS = 2
_LARGE_BYTES = 4 * 1024 * 1024


def give_large_pieces_back() -> bool:
    """Whether the allocator was told; others than glibc's stay as they are."""
    try:
        told = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        _LOG.debug("the C library has no mallopt")
        return False
    return bool(told(_MMAP_THRESHOLD, _LARGE_BYTES)) and bool(told(_ARENA_MAX, _ARENAS))
