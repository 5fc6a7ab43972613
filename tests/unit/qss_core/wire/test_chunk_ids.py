"""A chunk id names the task attempt that staged the chunk."""

import pytest

from qss_core.errors import MalformedRequestError
from qss_core.model import WriterEpoch
from qss_core.wire.chunk_ids import (
    ChunkId,
    decode_chunk_id,
    encode_chunk_id,
    name_attempt,
    name_group,
)

EPOCH = WriterEpoch(3)


def test_the_attempt_of_a_task_goes_there_and_back() -> None:
    chunk = encode_chunk_id(EPOCH, name_group(name_attempt(12, 345), 6), 7)
    assert chunk == "3.t12a345-6.7"
    assert decode_chunk_id(chunk) == ChunkId(EPOCH, "t12", 345)


@pytest.mark.parametrize(
    "name", ["t17-0", "driver5-0", "b0", "t1a-0", "ta1-0", "t1a2", "a", "t1A2-0"]
)
def test_an_id_that_says_of_no_attempt_is_a_task_of_its_own(name: str) -> None:
    assert decode_chunk_id(f"3.{name}.0") == ChunkId(EPOCH, name, 0)


@pytest.mark.parametrize("text", ["", "3", "3.a", "3.a.b", "x.a.0", "3..0", "3.a b.0", "3.a.0.1"])
def test_other_texts_are_no_chunk_ids(text: str) -> None:
    with pytest.raises(MalformedRequestError, match="a chunk id is"):
        decode_chunk_id(text)
