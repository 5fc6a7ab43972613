"""The partitioner: the cases of Kafka's own UtilsTest, and its range."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.partitioning import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@given(st.binary(max_size=80), st.integers(1, 512))
def test_every_key_has_a_partition_of_the_store(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions
    assert -(2**31) <= murmur2(key) < 2**31


def test_a_store_without_partitions_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError):
        partition_of(b"a", 0)
