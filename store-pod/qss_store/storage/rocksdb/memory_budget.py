"""The memory of RocksDB in one pod: the block cache and the write buffers of all its databases."""

from dataclasses import dataclass, field

from rocksdict import Cache, WriteBufferManager

from qss_store.storage.free_space import Room

_ROWS_PART = 8  # Of the cache's bytes.


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory that all replicas of a pod share, in bytes, and the room on their volume.

    A key that is read again is found in the cache of rows, without a search in blocks.
    """

    blocks: Cache
    blocks_bytes: int
    rows: Cache
    write_buffers: WriteBufferManager
    room: Room = field(default_factory=Room)

    @classmethod
    def of(cls, *, cache_bytes: int, write_buffer_bytes: int) -> "MemoryBudget":
        """`cache_bytes` are for blocks and rows together."""
        rows_bytes = cache_bytes // _ROWS_PART
        blocks_bytes = cache_bytes - rows_bytes
        return cls(
            Cache(blocks_bytes),
            blocks_bytes,
            Cache(rows_bytes),
            WriteBufferManager(write_buffer_bytes, allow_stall=False),
        )
