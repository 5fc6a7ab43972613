"""Decompresses the state files of Spark: frames of lz4 or of zstd. Pure.

Spark writes state through the codec that `spark.sql.streaming.stateStore.compression.codec` names.
An lz4 file is a sequence of blocks in the form of lz4-java's LZ4BlockOutputStream: the word
`LZ4Block`, a token, the sizes of the compressed and of the whole block, a checksum, the bytes. The
checksum is the one of the whole block, 28 bits of XXHash32.
"""

import struct

import pyarrow as pa
import xxhash

from qss_spark.state.errors import CheckpointError

LZ4, ZSTD = "lz4", "zstd"
_MAGIC = b"LZ4Block"
_HEAD = struct.Struct("<BiiI")  # Token, size in the file, size of the whole, checksum.
_STORED, _COMPRESSED = 0x10, 0x20  # The method, in the upper half of the token.
_BLOCK_BYTES_MAX = 32 * 1024 * 1024  # The largest block of lz4-java.
_SEED, _SUM_BITS = 0x9747B28C, 0x0FFFFFFF  # Of lz4-java.
_READ_BYTES = 8 * 1024 * 1024  # So many bytes are decompressed at once.
STATE_BYTES_MAX = 4 * 1024 * 1024 * 1024  # Of one file, decompressed.
_RAW = pa.Codec("lz4_raw")


def decompress(data: bytes, codec: str, bytes_max: int = STATE_BYTES_MAX) -> bytes:
    """Returns the bytes of a state file. Raises CheckpointError for damage and other codecs."""
    if codec == LZ4:
        return b"".join(_blocks(data, bytes_max))
    if codec == ZSTD:
        return _zstd(data, bytes_max)
    raise CheckpointError(
        f"the state is compressed with {codec}: only {LZ4} and {ZSTD} can be read "
        "(spark.sql.streaming.stateStore.compression.codec)"
    )


def _blocks(data: bytes, bytes_max: int) -> list[bytes]:
    found, at, total = [], 0, 0
    while at < len(data):
        head = at + len(_MAGIC)
        if data[at:head] != _MAGIC or head + _HEAD.size > len(data):
            raise CheckpointError(f"no lz4 block begins at byte {at}: the file is damaged")
        token, size, whole, checksum = _HEAD.unpack_from(data, head)
        begin = head + _HEAD.size
        at = begin + size
        if size < 0 or not 0 <= whole <= _BLOCK_BYTES_MAX or at > len(data):
            raise CheckpointError("an lz4 block has a wrong size, or its end is missing")
        total += whole
        if total > bytes_max:
            raise CheckpointError(f"the file has more than {bytes_max} bytes of state")
        if whole:
            found.append(_block(data[begin:at], token & 0xF0, whole, checksum))
    return found


def _block(block: bytes, method: int, whole: int, checksum: int) -> bytes:
    found = block
    if method == _COMPRESSED:
        try:
            found = _RAW.decompress(block, whole).to_pybytes()
        except (pa.ArrowInvalid, OSError) as error:
            raise CheckpointError(f"an lz4 block is damaged: {error}") from error
    elif method != _STORED or len(block) != whole:
        raise CheckpointError("an lz4 block is damaged")
    if xxhash.xxh32_intdigest(found, _SEED) & _SUM_BITS != checksum:
        raise CheckpointError("an lz4 block is damaged: its checksum is another one")
    return found


def _zstd(data: bytes, bytes_max: int) -> bytes:
    found, total = [], 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), ZSTD) as source:
            while part := source.read(_READ_BYTES):
                found.append(part)
                total += len(part)
                if total > bytes_max:
                    break
    except (pa.ArrowInvalid, OSError) as error:
        raise CheckpointError(f"the zstd frames are damaged: {error}") from error
    if total > bytes_max:
        raise CheckpointError(f"the file has more than {bytes_max} bytes of state")
    return b"".join(found)
