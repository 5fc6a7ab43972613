"""The options of a replica's database: block cache, buffers, filters and the write-ahead log."""

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DataBlockIndexType,
    DBRecoveryMode,
    Options,
    WriteBufferManager,
)

from qss_store.storage.engine import PAYLOAD

_WRITE_BUFFER_BYTES = 16 * 1024 * 1024
_PAYLOAD_BUFFER_BYTES = 32 * 1024 * 1024
_WAL_BYTES_MAX = 64 * 1024 * 1024
_BLOOM_BITS_PER_KEY = 10
# With a hash of its keys in each block, larger blocks make point reads faster.
_BLOCK_BYTES = 16 * 1024
_KEYS_PER_HASH_SLOT = 0.75


def family_options(
    family: str,
    *,
    blocks: Cache,
    rows: Cache,
    write_buffers: WriteBufferManager,
    salvages: bool,
    compacts: bool,
) -> Options:
    """The options of a column family; every open has to name them for every family.

    With `salvages` the write-ahead log is read up to its first damage. Unless the family
    `compacts`, its files are compacted only when somebody asks for that.
    """
    table = BlockBasedOptions()
    table.set_block_cache(blocks)
    table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)  # noqa: FBT003
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_block_size(_BLOCK_BYTES)
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    table.set_data_block_hash_ratio(_KEYS_PER_HASH_SLOT)
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003
    options.create_missing_column_families(True)  # noqa: FBT003
    options.set_block_based_table_factory(table)
    options.set_row_cache(rows)
    options.set_write_buffer_manager(write_buffers)
    options.set_write_buffer_size(
        _PAYLOAD_BUFFER_BYTES if family == PAYLOAD else _WRITE_BUFFER_BYTES
    )
    # A crash leaves a torn tail; damage in the middle must be refused, not skipped.
    options.set_wal_recovery_mode(
        DBRecoveryMode.point_in_time()
        if salvages
        else DBRecoveryMode.tolerate_corrupted_tail_records()
    )
    # A log file stays, and is replayed at the next open, while any family has rows only in it.
    options.set_max_total_wal_size(_WAL_BYTES_MAX)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1024 * 1024)
    options.set_disable_auto_compactions(not compacts)
    return options
