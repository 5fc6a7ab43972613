"""Makes the C library's allocator return large pieces to the system when they are freed.

By default glibc takes ever larger pieces (up to 32 MiB) from arenas that it does not return, and
has up to eight arenas per core: after answers of megabytes the pod kept several times their bytes.
Smaller pieces stay with the allocator: the system provides each page of a returned piece again,
which slowed ingest by a fifth when pieces from 256 KiB on were returned.
"""

import ctypes
import logging

_LOG = logging.getLogger(__name__)
# From malloc.h.
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
_ARENAS = 2
_LARGE_BYTES = 4 * 1024 * 1024


def give_large_pieces_back() -> bool:
    """Returns whether the allocator was changed; other allocators than glibc's stay unchanged."""
    try:
        told = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        _LOG.debug("the C library has no mallopt")
        return False
    return bool(told(_MMAP_THRESHOLD, _LARGE_BYTES)) and bool(told(_ARENA_MAX, _ARENAS))
