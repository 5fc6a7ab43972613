"""The settings of a pod: every limit has a name and a default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of one pod; a store's own limits come with its assignment."""

    # 0: a share of the pod's memory, see memory_shares.py.
    block_cache_bytes: int = 0
    write_buffer_bytes: int = 0
    request_memory_bytes: int = 0  # For all requests and their answers together.
    chunk_bytes_max: int = 32 * 1024 * 1024
    message_bytes_max: int = 16 * 1024 * 1024  # A JSON message on the internal port.
    body_deadline_s: float = 30.0
    open_batch_timeout_s: float = 3600.0
    writer_alive_s: float = 150.0  # A run silent for less may be alive: it renews each minute.
    migration_share: float = 0.1  # Of the event loop's time, for rows that change their format.
    migration_step_rows: int = 200  # At most 256 KiB of them, too.
    migration_retry_s: float = 5.0  # After a row that cannot be converted, or a full disk.
    # Rows of a commit that are written at once: readers wait as long. A custom store type has
    # fewer: each row calls the user's code twice, and may have 16 index rows to put and to delete.
    slice_rows_max: int = 500
    indexed_slice_rows_max: int = 100
    # Decoded rows of staged chunks, kept for their commits; chunks up to a quarter of it.
    decoded_rows_bytes_max: int = 4 * 1024 * 1024
    maintenance_interval_s: float = 30.0
    finish_timeout_s: float = 30.0  # How long a request waits for a decided batch to complete.
    peer_timeout_s: float = 30.0
    # The longest that a starting pod waits for the other pods' sequences before it serves.
    compare_timeout_s: float = 2.0
    connections_max: int = 4096

    # --- Queries
    query_body_bytes_max: int = 256 * 1024
    query_body_deadline_s: float = 30.0
    keys_per_request_max: int = 1000
    rows_default: int = 1000  # Rows of a JSON answer without a limit.
    rows_per_answer_max: int = 100_000  # The largest limit of a JSON answer.
    rows_by_time_max: int = 10_000  # The largest limit of a page in order of time.
    answer_bytes_max: int = 32 * 1024 * 1024  # Rows of a JSON answer.
    stream_bytes_max: int = 1024 * 1024 * 1024
    stream_max_s: float = 60.0
    streams_max: int = 64
    # Staged rows in memory for READ_UNCOMMITTED, over all partitions of the pod.
    uncommitted_rows_bytes_max: int = 64 * 1024 * 1024
    write_stall_max_s: float = 10.0  # For a reader to take 64 KiB of a large answer.
    peer_requests_max: int = 48  # Reads that one pod asks of another at a time.

    # --- Access and TLS
    access_positive_s: float = 60.0  # How long a verdict is used without another review.
    access_negative_s: float = 10.0
    access_grace_s: float = 600.0  # How much longer while the API server does not answer.
    access_tokens_max: int = 1000
    access_review_timeout_s: float = 4.0
    tls_look_interval_s: float = 5.0
    # Without tokens: names of the listeners, and origins of web pages that may send requests, with
    # commas between them.
    allowed_hosts: str = ""
    allowed_origins: str = ""
