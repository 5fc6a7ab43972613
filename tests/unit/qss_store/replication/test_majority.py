"""Which replicas have other rows than most of them."""

import pytest

from qss_core.model import Ordinal
from qss_store.replication.majority import odd_ones


@pytest.mark.parametrize(
    ("digests", "odd"),
    [
        ("aa", []),
        ("ab", None),
        ("aaa", []),
        ("aab", [2]),
        ("baa", [0]),
        ("abc", None),
        ("aabb", None),
        ("abaca", [1, 3]),
        ("abacd", None),
    ],
)
def test_more_than_half_of_all_replicas_are_right(digests: str, odd: list[int] | None) -> None:
    held = {Ordinal(pod): digest.encode() for pod, digest in enumerate(digests)}
    assert odd_ones(held) == odd
