"""Divides a pod's memory where its settings do not. Pure.

The rest is for the interpreter and its libraries, the rows of the next answer, buffers of
connections, and the system's cache of files, which counts against a memory limit, too.
"""

from dataclasses import dataclass, replace

from qss_store.runtime.settings import Settings

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Share:
    """A fraction of the memory, within bounds.

    Without a memory limit it is `unlimited`; if that is 0, a fraction of the machine's memory.
    """

    part: int
    least: int
    most: int
    unlimited: int

    def bytes_of(self, limit: int | None, machine: int) -> int:
        without_limit = self.unlimited or machine // self.part
        wanted = without_limit if limit is None else limit // self.part
        return min(self.most, max(self.least, wanted))


_CACHE = _Share(4, 16 * _MIB, 256 * _MIB, 256 * _MIB)
_WRITE_BUFFERS = _Share(8, 16 * _MIB, 256 * _MIB, 256 * _MIB)
_REQUESTS = _Share(5, 128 * _MIB, 1024 * _MIB, 0)
# A TLS connection takes 75 KiB after its first byte.
_CONNECTIONS_PART, _CONNECTION_BYTES, _CONNECTIONS_LEAST = 16, 64 * 1024, 128


def with_shares(settings: Settings, limit: int | None, machine: int) -> Settings:
    """Replaces each memory limit of 0 by a share of the pod's memory.

    Lowers `connections_max` to fit the memory. `limit` is the pod's memory limit, None without
    one; `machine` has the machine's bytes.
    """

    def told_or(told: int, share: _Share) -> int:
        return told or share.bytes_of(limit, machine)

    connections_max = settings.connections_max
    if limit is not None:
        within = limit // _CONNECTIONS_PART // _CONNECTION_BYTES
        connections_max = min(connections_max, max(_CONNECTIONS_LEAST, within))
    return replace(
        settings,
        connections_max=connections_max,
        block_cache_bytes=told_or(settings.block_cache_bytes, _CACHE),
        write_buffer_bytes=told_or(settings.write_buffer_bytes, _WRITE_BUFFERS),
        request_memory_bytes=told_or(settings.request_memory_bytes, _REQUESTS),
    )
