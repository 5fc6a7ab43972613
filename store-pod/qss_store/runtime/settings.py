"""The settings of a pod: every limit has a name and a default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of one pod; a store's own limits come with its assignment."""

    # 0: a share of the pod's memory, which process/memory_shares.py computes.
    block_cache_bytes: int = 0
    write_buffer_bytes: int = 0
    request_memory_bytes: int = 0  # For all requests and their answers together.
    chunk_bytes_max: int = 32 * 1024 * 1024
    message_bytes_max: int = 16 * 1024 * 1024  # A JSON message on the internal port.
    body_deadline_s: float = 30.0
    open_batch_timeout_s: float = 3600.0
    writer_alive_s: float = 150.0  # A run silent for less may be alive: it reports each minute.
    migration_share: float = 0.1  # Share of the event loop's time that moves rows to a new format.
    migration_step_rows: int = 200  # A step also has at most 256 KiB.
    migration_retry_s: float = 5.0  # After a row that cannot be converted, or a full disk.
    # Rows of a commit that are written at once; readers wait meanwhile. A store of type Custom has
    # fewer, since each row calls the user's code twice and may put and delete 16 index rows.
    slice_rows_max: int = 500
    indexed_slice_rows_max: int = 100
    # Decoded rows of staged chunks, kept for their commits. A chunk gets a quarter at most.
    decoded_rows_bytes_max: int = 4 * 1024 * 1024
    maintenance_interval_s: float = 30.0
    # Databases are read for damage, and compared, at this rate; 0: never. Each rests afterwards.
    scrub_bytes_per_s: int = 1024 * 1024
    scrub_rest_s: float = 24 * 3600.0
    finish_timeout_s: float = 30.0  # How long a request waits for a decided batch to complete.
    peer_timeout_s: float = 30.0
    replica_timeout_s: float = 10.0  # For a follower to sync the entries of one request.
    # The entries of a request between replicas: 4 MiB, or one entry that is larger.
    replication_bytes_max: int = 40 * 1024 * 1024
    # The longest that a starting pod waits for the other pods' sequences before it serves.
    compare_timeout_s: float = 2.0
    compare_interval_s: float = 30.0  # Between two comparisons of a pod with the others.
    connections_max: int = 4096
    # A pod that is told to stop serves on while others take over its partitions; 0: it stops.
    leave_max_s: float = 0.0
    leave_unheard_s: float = 5.0  # Without a request of the operator it stops earlier.
    leave_min_s: float = 0.0  # So long it takes connections: a Service may still send some.

    # --- Queries
    query_body_bytes_max: int = 256 * 1024
    query_body_deadline_s: float = 30.0
    keys_per_request_max: int = 1000
    rows_default: int = 1000  # Rows of a JSON answer without a limit.
    rows_per_answer_max: int = 100_000  # The largest limit of an answer in JSON or CSV.
    rows_by_time_max: int = 10_000  # The largest limit of a page in order of time.
    answer_bytes_max: int = 32 * 1024 * 1024  # Rows of a JSON answer.
    stream_bytes_max: int = 1024 * 1024 * 1024
    stream_max_s: float = 60.0
    streams_max: int = 64
    # Staged rows in memory for READ_UNCOMMITTED, over all partitions of the pod.
    uncommitted_rows_bytes_max: int = 64 * 1024 * 1024
    write_stall_max_s: float = 10.0  # For a reader to take 64 KiB of a large answer.
    peer_requests_max: int = 48  # Reads that one pod asks of another at a time.

    console: int = 1  # 0: no page at /console/.

    # --- Access and TLS
    access_positive_s: float = 60.0  # How long a verdict is used without another review.
    access_negative_s: float = 10.0
    access_grace_s: float = 600.0  # How much longer while the API server does not answer.
    access_tokens_max: int = 1000
    access_review_timeout_s: float = 4.0
    tls_look_interval_s: float = 5.0
    # With commas between: host names of the listeners, for stores without tokens; origins of web
    # pages that may send requests and read answers.
    allowed_hosts: str = ""
    allowed_origins: str = ""
