"""The end of the range of keys with a prefix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.keys import prefix_upper_bound


@pytest.mark.parametrize(
    ("prefix", "bound"),
    [
        (b"a", b"b"),
        (b"ab", b"ac"),
        (b"a\xff", b"b"),
        (b"a\xff\xff", b"b"),
        (b"\x00", b"\x01"),
        (b"\xfe\xff", b"\xff"),
        (b"\xff\x00", b"\xff\x01"),
    ],
)
def test_the_last_byte_that_can_grow_does(prefix: bytes, bound: bytes) -> None:
    assert prefix_upper_bound(prefix) == bound


@pytest.mark.parametrize("prefix", [b"", b"\xff", b"\xff\xff\xff"])
def test_a_prefix_that_nothing_follows_is_open(prefix: bytes) -> None:
    assert prefix_upper_bound(prefix) is None


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_the_bound_parts_the_keys_of_the_prefix_from_those_above(prefix: bytes, key: bytes) -> None:
    bound = prefix_upper_bound(prefix)
    inside = prefix <= key and (bound is None or key < bound)
    assert inside == key.startswith(prefix)
