"""Kafka's murmur2 over a whole Arrow column of keys with numpy.

It equals `qss_core.partitioning` for every key (a test compares them), and is about a hundred times
faster: one pass over the words of all keys instead of a call for each key.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qss_core.errors import NullKeyError
from qss_core.partitioning import murmur2 as murmur2_of_key

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.int32(0x7FFFFFFF)
# A pass over a word costs the same for one key as for many. After so many words, when so few keys
# are left, each key is hashed by itself.
_LONG_WORDS = 64
_FEW_ROWS = 8

U32 = npt.NDArray[np.uint32]
I64 = npt.NDArray[np.int64]


def partitions_of(keys: pa.BinaryArray, partitions: int) -> npt.NDArray[np.int32]:
    """The partition of each key: shape (len(keys),), values 0..partitions-1.

    `keys` is a binary or string array. Raises NullKeyError if a key is null.
    """
    return _partitions(murmur2(keys), partitions)


def partitions_of_list(keys: Sequence[bytes], partitions: int) -> npt.NDArray[np.int32]:
    """As `partitions_of`, for keys in a list: making an Arrow array of it imports pandas."""
    length = len(keys[0]) if keys else 0
    if length and length % 4 == 0 and set(map(len, keys)) == {length}:
        hashes = np.full(len(keys), _SEED ^ np.uint32(length))
        _mix_matrix(hashes, np.frombuffer(b"".join(keys), dtype=np.uint8), length)
        return _partitions(_finished(hashes).view(np.int32), partitions)
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(keys), dtype=np.uint8)
    with np.errstate(over="ignore"):
        return _partitions(_hash(starts, lengths, data).view(np.int32), partitions)


def _partitions(hashes: npt.NDArray[np.int32], partitions: int) -> npt.NDArray[np.int32]:
    return (hashes & _POSITIVE) % np.int32(partitions)


def murmur2(keys: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Kafka's murmur2 (org.apache.kafka.common.utils.Utils) of each key, signed 32 bit."""
    if keys.null_count:
        raise NullKeyError("a row has no key: every row of a store needs one")
    starts, lengths, data = _layout(keys)
    with np.errstate(over="ignore"):
        return _hash(starts, lengths, data).view(np.int32)


def _layout(keys: pa.BinaryArray) -> tuple[I64, I64, npt.NDArray[np.uint8]]:
    _, offset_buffer, data_buffer = keys.buffers()
    if len(keys) == 0 or offset_buffer is None:
        empty = np.zeros(len(keys), dtype=np.int64)
        return empty, empty, np.zeros(0, dtype=np.uint8)
    wide = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
    stored = np.frombuffer(offset_buffer, dtype=np.int64 if wide else np.int32)
    offsets: I64 = stored[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    return offsets[:-1], offsets[1:] - offsets[:-1], data


def _hash(starts: I64, lengths: I64, data: npt.NDArray[np.uint8]) -> U32:
    hashes: U32 = _SEED ^ lengths.astype(np.uint32)
    length = int(lengths[0]) if len(lengths) else 0
    if (
        length
        and length % 4 == 0
        and int(starts[-1]) - int(starts[0]) == length * (len(starts) - 1)
        and (lengths == length).all()
    ):
        _mix_matrix(hashes, data[int(starts[0]) :], length)
        return _finished(hashes)
    words = lengths >> 2
    grams = _grams(data)
    rows = np.arange(len(starts))
    long_rows = rows[:0]
    for index in range(int(words.max(initial=0))):
        rows = rows[words[rows] > index]
        if index > _LONG_WORDS and len(rows) < _FEW_ROWS:
            long_rows = rows
            break
        k = grams[starts[rows] + 4 * index] * _M
        k ^= k >> np.uint32(24)
        hashes[rows] = hashes[rows] * _M ^ k * _M
    _mix_tail(hashes, starts + 4 * words, lengths & 3, data)
    hashes = _finished(hashes)
    for row in long_rows:
        key = data[starts[row] : starts[row] + lengths[row]].tobytes()
        hashes[row] = murmur2_of_key(key) & 0xFFFFFFFF
    return hashes


def _finished(hashes: U32) -> U32:
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _mix_matrix(hashes: U32, data: npt.NDArray[np.uint8], length: int) -> None:
    """Mixes keys of one length in whole words, stored one after the other, as a matrix."""
    words = np.frombuffer(data, dtype="<u4", count=len(hashes) * length // 4)
    ks = words.reshape(len(hashes), length // 4) * _M
    ks ^= ks >> np.uint32(24)
    ks *= _M
    for column in ks.T:
        hashes *= _M
        hashes ^= column


def _grams(data: npt.NDArray[np.uint8]) -> U32:
    """The data as words at any offset: a u32 view with a stride of one byte."""
    if len(data) < 4:
        return np.zeros(0, dtype=np.uint32)
    return np.ndarray((len(data) - 3,), dtype="<u4", buffer=data, strides=(1,))


def _mix_tail(hashes: U32, starts: I64, lengths: I64, data: npt.NDArray[np.uint8]) -> None:
    for byte in (2, 1, 0):
        rows = np.nonzero(lengths > byte)[0]
        if len(rows):
            hashes[rows] ^= data[starts[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows = np.nonzero(lengths > 0)[0]
    hashes[rows] *= _M
