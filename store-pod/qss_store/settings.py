"""What a pod can be told at its start: every limit has a name and a default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of one pod; a store's own limits come with its assignment."""

    block_cache_bytes: int = 256 * 1024 * 1024
    write_buffer_bytes: int = 256 * 1024 * 1024
    chunk_bytes_max: int = 32 * 1024 * 1024
    message_bytes_max: int = 16 * 1024 * 1024  # A JSON message on the internal port.
    body_deadline_s: float = 30.0
    open_batch_timeout_s: float = 3600.0
    maintenance_interval_s: float = 30.0
    finish_timeout_s: float = 30.0  # How long a request waits for a decided batch to complete.
    peer_timeout_s: float = 30.0
    connections_max: int = 4096
