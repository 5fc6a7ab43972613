"""The frames in which a part of a file travels to a learner."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import CorruptionError
from qss_store.replication.frames import FRAME_BYTES_MAX, frame_of, frames_bytes, read_frames

PARTS = st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5)


def frames(parts: list[bytes]) -> bytes:
    return b"".join(frame_of(BytesIO(part), len(part)) for part in parts)


def taken(data: bytes) -> tuple[list[bytes], bool]:
    """The whole frames of some bytes, and whether nothing else was in them."""
    found: list[bytes] = []
    try:
        read_frames(BytesIO(data), lambda one: found.append(bytes(one)))
    except CorruptionError:
        return found, False
    return found, True


@given(PARTS)
def test_what_goes_in_comes_out(parts: list[bytes]) -> None:
    assert taken(frames(parts)) == (parts, True)


@given(PARTS, st.data())
def test_a_changed_byte_is_found_before_its_frame_is_given(
    parts: list[bytes], data: st.DataObject
) -> None:
    sent = bytearray(frames(parts))
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    found, is_whole = taken(bytes(sent))
    assert not is_whole
    assert found == parts[: len(found)]
    assert len(found) < len(parts)


@given(PARTS, st.data())
def test_of_an_answer_that_ends_early_whole_frames_are_given(
    parts: list[bytes], data: st.DataObject
) -> None:
    sent = frames(parts)
    end = data.draw(st.integers(0, len(sent) - 1))
    found, is_whole = taken(sent[:end])
    assert found == parts[: len(found)]
    assert is_whole == (end in {len(frames(parts[:count])) for count in range(len(parts))})


def test_a_source_with_fewer_bytes_gives_no_frame() -> None:
    assert bytes(frame_of(BytesIO(b"ab"), 3)) == b""


@pytest.mark.parametrize("size", [0, FRAME_BYTES_MAX + 1])
def test_a_frame_has_a_byte_and_at_most_a_mebibyte(size: int) -> None:
    with pytest.raises(CorruptionError, match=f"frame of {size} bytes"):
        read_frames(BytesIO(size.to_bytes(4) + bytes(4)), lambda _: None)


@pytest.mark.parametrize("size", [1, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 3 * FRAME_BYTES_MAX])
def test_the_length_of_an_answer_is_known_before(size: int) -> None:
    left, sent = size, 0
    while left:
        one = min(left, FRAME_BYTES_MAX)
        sent += len(frame_of(BytesIO(bytes(one)), one))
        left -= one
    assert frames_bytes(size) == sent
