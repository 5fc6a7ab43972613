"""The partition of a key: Kafka's default partitioner, bit for bit.

Source: `org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner.partitionForKey`. A
windowed key is partitioned by its inner key only. Spark's hash partitioning is a different
function, which stores do not use.
"""

import struct

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit MurmurHash2 of the bytes with Kafka's seed, as a signed number."""
    length = len(data)
    whole = length & ~3
    state = _SEED ^ length
    for word in struct.unpack_from(f"<{whole >> 2}I", data):
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _MASK
        state = state * _MULTIPLIER & _MASK ^ mixed
    if whole != length:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    state = (state ^ state >> 13) * _MULTIPLIER & _MASK
    state ^= state >> 15
    return state - (1 << 32) if state >> 31 else state


def partition_of(key: bytes, partitions: int) -> int:
    assert partitions > 0, "a store has at least one partition"
    if partitions == 1:
        return 0
    return (murmur2(key) & 0x7FFFFFFF) % partitions
